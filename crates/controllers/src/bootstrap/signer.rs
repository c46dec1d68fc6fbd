//! Signs `kube-public/cluster-info` with the bootstrap tokens: a node that knows one can trust it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_auth::jose::sign_detached;
use kevel_controller_runtime::{Backoff, Client, run};

use super::{NAMESPACE, PREFIX, data, expiration, is_token, may_be_token};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;

const NAME: &str = "bootstrap-signer-controller";
/// Namespace and name of the signed ConfigMap.
const CLUSTER_INFO: (&str, &str) = ("kube-public", "cluster-info");
/// Key of the signed kubeconfig.
const CONTENT: &str = "kubeconfig";
/// Prefix of the keys of signatures, before the token's ID.
const SIGNATURE: &str = "jws-kubeconfig-";

struct ClusterInfoSigner {
    client: Client,
    secrets: CacheLister,
    config_maps: CacheLister,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let this = Arc::new(ClusterInfoSigner {
        client: context.client("bootstrap-signer"),
        secrets: CacheLister::new(context.storage("", "secrets")?),
        config_maps: CacheLister::new(context.storage("", "configmaps")?),
    });
    let queue = context.queue("bootstrap_signer_queue", Backoff::default());
    let (secrets, config_maps) = (this.secrets.informer(), this.config_maps.informer());
    let synced = [secrets.has_synced(), config_maps.has_synced()];
    let heard = queue.clone();
    let secrets = secrets.for_each(move |secret| {
        if may_be_token(secret) {
            heard.add(CLUSTER_INFO.1);
        }
    });
    let heard = queue.clone();
    let config_maps = config_maps.for_each(move |config_map| {
        if (config_map.namespace(), config_map.name()) == CLUSTER_INFO {
            heard.add(CLUSTER_INFO.1);
        }
    });
    let reconcile = move |_: String| {
        let this = this.clone();
        async move { this.sign().await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        let work = async {
            for synced in synced {
                synced.wait().await;
            }
            run(queue, NAME, 1, reconcile).await;
        };
        tokio::join!(secrets, config_maps, work);
    }))
}

impl ClusterInfoSigner {
    async fn sign(&self) -> Result<(), StatusError> {
        let (namespace, name) = CLUSTER_INFO;
        let Some(mut config_map) = self.config_maps.get(namespace, name)? else { return Ok(()) };
        let Some(content) = config_map.at(&["data", CONTENT]).and_then(Value::as_str) else {
            return Ok(());
        };
        let content = content.to_owned();
        let data = config_map.make_map(&["data"]);
        let before = data.clone();
        data.retain(|key, _| !key.starts_with(SIGNATURE));
        for (id, secret) in self.tokens()? {
            let signature = sign_detached(&content, &id, &secret);
            data.insert(format!("{SIGNATURE}{id}"), signature.as_str().into());
        }
        if *data == before {
            return Ok(());
        }
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        match self.client.update(&path, &config_map).await {
            // It comes again with the change.
            Err(error) if [reason::CONFLICT, reason::NOT_FOUND].contains(&error.reason()) => Ok(()),
            updated => updated.map(drop),
        }
    }

    /// Secrets of the tokens that sign, by ID.
    fn tokens(&self) -> Result<BTreeMap<String, String>, StatusError> {
        let now = Time::now(self.client.clock());
        let mut tokens = BTreeMap::new();
        let snapshot = self.secrets.snapshot();
        for secret in snapshot.range(&format!("{NAMESPACE}/{PREFIX}"), None) {
            kevel_compute::charge(1);
            let secret = self.secrets.tree(secret)?;
            tokens.extend(signing_token(&secret, now));
        }
        Ok(tokens)
    }
}

/// ID and secret of a token that signs.
fn signing_token(secret: &Value, now: Time) -> Option<(String, String)> {
    let named = secret.str_at(&["metadata", "name"]).strip_prefix(PREFIX)?;
    let shape = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let (id, value) = (data(secret, "token-id"), data(secret, "token-secret"));
    let signs = is_token(secret)
        && named.len() == 6
        && named.chars().all(shape)
        && named == id
        && !value.is_empty()
        && expiration(secret).is_none_or(|end| end > now)
        && data(secret, "usage-bootstrap-signing") == "true";
    signs.then_some((id, value))
}
