//! Invalidates and deletes tokens in Secrets that were made automatically and have not been used for a year.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::Client;

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;

const ACCOUNT: &str = "legacy-service-account-token-cleaner";
/// Time between two looks at all Secrets.
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Seconds without use after which a token is invalidated, and after which an invalid one is deleted (upstream:
/// `--legacy-service-account-token-clean-up-period`).
const PERIOD: i64 = 365 * 24 * 60 * 60;
const DAY: i64 = 24 * 60 * 60;
/// ConfigMap with the day since which uses are recorded.
const TRACKING: &str = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// References of volumes to Secrets.
const VOLUMES: &[&[&str]] = &[
    &["azureFile", "secretName"],
    &["cephfs", "secretRef", "name"],
    &["cinder", "secretRef", "name"],
    &["flexVolume", "secretRef", "name"],
    &["rbd", "secretRef", "name"],
    &["secret", "secretName"],
    &["scaleIO", "secretRef", "name"],
    &["iscsi", "secretRef", "name"],
    &["storageos", "secretRef", "name"],
    &["csi", "nodePublishSecretRef", "name"],
];

struct Cleaner {
    client: Client,
    accounts: CacheLister,
    secrets: CacheLister,
    pods: CacheLister,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let this = Cleaner {
        client: context.client(ACCOUNT),
        accounts: CacheLister::new(context.storage("", "serviceaccounts")?),
        secrets: CacheLister::new(context.storage("", "secrets")?),
        pods: CacheLister::new(context.storage("", "pods")?),
    };
    Ok(Box::pin(async move {
        loop {
            if let Err(error) = this.clean().await {
                tracing::warn!(controller = ACCOUNT, %error, "Tokens were not cleaned up");
            }
            this.client.clock().sleep(INTERVAL).await;
        }
    }))
}

impl Cleaner {
    async fn clean(&self) -> Result<(), StatusError> {
        let now = Time::now(self.client.clock());
        if now.seconds < self.tracked_since().await?.saturating_add(PERIOD) {
            return Ok(());
        }
        let limit = Time { seconds: now.seconds - PERIOD };
        let snapshot = self.secrets.fresh_snapshot().await?;
        let mut used = HashMap::new();
        for secret in snapshot.range("", None) {
            kevel_compute::charge(1);
            let secret = self.secrets.tree(secret)?;
            if !is_unused(&secret, limit) || !self.is_automatic(&secret)? {
                continue;
            }
            let namespace = secret.str_at(&["metadata", "namespace"]);
            if !used.contains_key(namespace) {
                used.insert(namespace.to_owned(), self.mounted(namespace)?);
            }
            let name = secret.str_at(&["metadata", "name"]);
            if !used.get(namespace).is_some_and(|names| names.contains(name)) {
                self.retire(&secret, now, limit).await;
            }
        }
        Ok(())
    }

    /// Time from which on uses are recorded for certain: the day after the recorded one.
    async fn tracked_since(&self) -> Result<i64, StatusError> {
        let config_map = self.client.get(TRACKING).await?;
        let since = day(config_map.str_at(&["data", "since"]));
        let since =
            since.ok_or_else(|| StatusError::internal("error parsing trackedSince time"))?;
        Ok(since.seconds + DAY)
    }

    /// Whether an account refers to its token: people's own are not referred to.
    fn is_automatic(&self, secret: &Value) -> Result<bool, StatusError> {
        let annotation = |name| secret.str_at(&["metadata", "annotations", name]);
        let namespace = secret.str_at(&["metadata", "namespace"]);
        let Some(account) = self.accounts.get(namespace, annotation(ACCOUNT_NAME))? else {
            return Ok(false);
        };
        let uid = annotation(ACCOUNT_UID);
        let same = uid.is_empty() || uid == account.str_at(&["metadata", "uid"]);
        let name = secret.str_at(&["metadata", "name"]);
        let mut references = account.list_at(&["secrets"]).iter();
        Ok(same && references.any(|reference| reference.str_at(&["name"]) == name))
    }

    /// Names of the Secrets that pods of a namespace use.
    fn mounted(&self, namespace: &str) -> Result<HashSet<String>, StatusError> {
        let mut names = HashSet::new();
        for pod in self.pods.snapshot().range(&format!("{namespace}/"), None) {
            kevel_compute::charge(1);
            add_secrets(&self.pods.tree(pod)?, &mut names);
        }
        Ok(names)
    }

    /// Marks a token as invalid, or deletes it if it has been invalid for long.
    async fn retire(&self, secret: &Value, now: Time, limit: Time) {
        let of = |field| secret.str_at(&["metadata", field]);
        let (namespace, name) = (of("namespace"), of("name"));
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let since = secret.str_at(&["metadata", "labels", INVALID_SINCE]);
        let written = if day(since).is_none() {
            let labels = Map::from_iter([(INVALID_SINCE, Value::from(date(now).as_str()))]);
            let metadata =
                Map::from_iter([("uid", Value::from(of("uid"))), ("labels", labels.into())]);
            let patch = Map::from_iter([("metadata", Value::Map(metadata))]).into();
            tracing::info!(namespace, name, "Mark the auto-generated token as invalid");
            self.client.merge_patch(&path, &patch).await
        } else if *since < *date(limit) {
            let version = Value::from(of("resourceVersion"));
            let preconditions = Map::from_iter([("resourceVersion", version)]);
            let options = Map::from_iter([("preconditions", Value::Map(preconditions))]);
            tracing::info!(namespace, name, "Delete the auto-generated token");
            self.client.delete_with(&path, &options.into()).await
        } else {
            return;
        };
        let gone = [reason::NOT_FOUND, reason::CONFLICT];
        if let Err(error) = written
            && !gone.contains(&error.reason())
        {
            tracing::warn!(namespace, name, %error, "The token was not cleaned up");
        }
    }
}

/// Whether a Secret is a token that was not used since `limit`.
fn is_unused(secret: &Value, limit: Time) -> bool {
    let created: Option<Time> = secret.str_at(&["metadata", "creationTimestamp"]).parse().ok();
    let used = secret.at(&["metadata", "labels", LAST_USED]).and_then(Value::as_str);
    secret.str_at(&["type"]) == TYPE
        && created.is_some_and(|created| created < limit)
        && secret.at(&["metadata", "deletionTimestamp"]).is_none()
        && used.is_none_or(|used| day(used).is_some() && *used < *date(limit))
}

fn day(text: &str) -> Option<Time> {
    format!("{text}T00:00:00Z").parse().ok()
}

fn date(time: Time) -> String {
    time.to_string().chars().take("2006-01-02".len()).collect()
}

/// Adds the names of the Secrets that a pod uses.
fn add_secrets(pod: &Value, names: &mut HashSet<String>) {
    let mut add = |name: &str| {
        if !name.is_empty() {
            names.insert(name.to_owned());
        }
    };
    for reference in pod.list_at(&["spec", "imagePullSecrets"]) {
        add(reference.str_at(&["name"]));
    }
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    for container in lists.iter().flat_map(|list| pod.list_at(&["spec", list])) {
        for source in container.list_at(&["envFrom"]) {
            add(source.str_at(&["secretRef", "name"]));
        }
        for variable in container.list_at(&["env"]) {
            add(variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
        }
    }
    for volume in pod.list_at(&["spec", "volumes"]) {
        VOLUMES.iter().for_each(|path| add(volume.str_at(path)));
        for source in volume.list_at(&["projected", "sources"]) {
            add(source.str_at(&["secret", "name"]));
        }
    }
}
