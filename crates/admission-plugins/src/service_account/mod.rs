//! `ServiceAccount` admission plug-in: sets the ServiceAccount of pods and mounts its token.

mod account;
mod token;

use std::sync::Arc;
use std::time::Duration;

use kevel_api::gvk::GroupResource;
use kevel_api::references;
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use self::account::Account;
use self::token::TokenVolume;
use super::{Context, Registration};
use kevel_controlplane::lister::Lister;

/// Account of pods that name none.
const DEFAULT: &str = "default";
/// Attempts to find the default account, which is created after its namespace, and the interval between them.
const DEFAULT_ATTEMPTS: usize = 10;
const DEFAULT_INTERVAL: Duration = Duration::from_millis(150);
/// Annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Registration of the `ServiceAccount` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::on("ServiceAccount", |context| Ok(Arc::new(ServiceAccount::new(context)?)));

/// The `ServiceAccount` admission plug-in.
#[derive(Debug)]
pub struct ServiceAccount {
    accounts: Lister<Account>,
    token: TokenVolume,
}

impl ServiceAccount {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let accounts = context.lister("", "serviceaccounts")?;
        Ok(ServiceAccount { accounts, token: TokenVolume::new()? })
    }

    /// Sets a new pod's account, and the fields that follow from it.
    async fn complete(
        &self,
        attributes: &Attributes<'_>,
        pod: &mut Value,
    ) -> Result<(), StatusError> {
        if is_mirror(pod) {
            return check_mirror(attributes, pod);
        }
        if pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
            // The deprecated field `serviceAccount` counts if `serviceAccountName` is empty.
            let name = match pod.str_at(&["spec", "serviceAccount"]) {
                "" => DEFAULT.into(),
                name => Value::from(name),
            };
            let spec = pod.make_map(&["spec"]);
            spec.insert("serviceAccount", name.clone());
            spec.insert("serviceAccountName", name);
        }
        let account = self.account(attributes, pod).await?;
        let mounts = pod.at(&["spec", "automountServiceAccountToken"]).and_then(Value::as_bool);
        if mounts.or(account.automount).unwrap_or(true) {
            self.token.mount(pod);
        }
        let pull_secrets = &account.pull_secrets;
        if pod.list_at(&["spec", "imagePullSecrets"]).is_empty() && !pull_secrets.is_empty() {
            let named = |name: &str| Value::Map(Map::from_iter([("name", Value::from(name))]));
            let names = pull_secrets.iter().map(|name| named(name)).collect();
            pod.make_map(&["spec"]).insert("imagePullSecrets", Value::List(names));
        }
        account.check(pod).map_err(|error| attributes.forbidden(Some(pod), error))
    }

    /// Checks that a pod has an account and references no secrets that the account does not allow.
    async fn check(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), StatusError> {
        let new = attributes.operation == Operation::Create;
        if new && is_mirror(pod) {
            return check_mirror(attributes, pod);
        }
        if pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
            let (namespace, name) = (attributes.namespace, pod.str_at(&["metadata", "name"]));
            let error = format!("no service account specified for pod {namespace}/{name}");
            return Err(attributes.forbidden(Some(pod), error));
        }
        let account = self.account(attributes, pod).await?;
        match new {
            true => account.check(pod).map_err(|error| attributes.forbidden(Some(pod), error)),
            false => account.check_ephemeral(pod).map_err(|error| StatusError::unknown(500, error)),
        }
    }

    async fn account(
        &self,
        attributes: &Attributes<'_>,
        pod: &Value,
    ) -> Result<Arc<Account>, StatusError> {
        let (namespace, name) = (attributes.namespace, pod.str_at(&["spec", "serviceAccountName"]));
        let found = match self.find(namespace, name).await {
            Ok(Some(account)) => return Ok(account),
            Ok(None) => {
                StatusError::not_found(&GroupResource::from_static("", "serviceaccount"), name)
            }
            Err(error) => error,
        };
        let error = format!("error looking up service account {namespace}/{name}: {found}");
        Err(attributes.forbidden(Some(pod), error))
    }

    async fn find(&self, namespace: &str, name: &str) -> Result<Option<Arc<Account>>, StatusError> {
        if let Some(account) = self.accounts.find(namespace, name).await? {
            return Ok(Some(account));
        }
        let attempts = if name == DEFAULT { DEFAULT_ATTEMPTS } else { 1 };
        for _ in 1..attempts {
            tokio::time::sleep(DEFAULT_INTERVAL).await;
            if let Some(account) = self.accounts.get(namespace, name, At::Consistent).await? {
                return Ok(Some(account));
            }
        }
        Ok(None)
    }
}

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        match object {
            Some(pod) if attributes.operation == Operation::Create && attributes.is("", "pods") => {
                Box::pin(self.complete(attributes, pod))
            }
            _ => ready(Ok(())),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let Some(pod) = object.filter(|_| attributes.concerns("", "pods")) else {
            return ready(Ok(()));
        };
        match (attributes.operation, attributes.subresource) {
            (Operation::Create, "") | (Operation::Update, "ephemeralcontainers") => {
                Box::pin(self.check(attributes, pod))
            }
            _ => ready(Ok(())),
        }
    }
}

fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", MIRROR]).is_some()
}

/// Checks that a mirror pod references no account and no token.
fn check_mirror(attributes: &Attributes<'_>, pod: &Value) -> Result<(), StatusError> {
    let tokens = || {
        let volumes = pod.list_at(&["spec", "volumes"]).iter();
        let sources = volumes.flat_map(|volume| volume.list_at(&["projected", "sources"]));
        sources.filter(|source| source.at(&["serviceAccountToken"]).is_some()).count() > 0
    };
    let error = if !pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
        "a mirror pod may not reference service accounts"
    } else if !references::pod_secrets(pod).is_empty() {
        "a mirror pod may not reference secrets"
    } else if tokens() {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(attributes.forbidden(Some(pod), error))
}
