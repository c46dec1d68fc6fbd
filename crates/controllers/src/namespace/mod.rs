//! Content of deleted namespaces: deletes everything in a namespace that is being deleted, then finalizes it.

mod conditions;
mod content;

use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, WorkQueue, run};

use self::content::delete_all;
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;

/// Namespaces that are worked on at a time (upstream: `ConcurrentNamespaceSyncs`).
const WORKERS: usize = 10;
/// A namespace is tried again at least every minute.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Finalizer in `spec.finalizers` that this controller removes.
const FINALIZER: &str = "kubernetes";

struct NamespaceDeleter {
    client: Client,
    namespaces: CacheLister,
    queue: Arc<WorkQueue>,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let backoff = Backoff { max: MAX_BACKOFF, ..Backoff::default() };
    let queue = context.queue("namespace", backoff);
    let this = Arc::new(NamespaceDeleter {
        client: context.client("namespace-controller"),
        namespaces: CacheLister::new(context.storage("", "namespaces")?),
        queue: queue.clone(),
    });
    let (heard, lister) = (queue.clone(), this.namespaces.clone());
    let delay = context.namespace_deletion_delay();
    let informer = this.namespaces.informer().for_each(move |namespace| {
        let deleted =
            |namespace: &Value| !namespace.str_at(&["metadata", "deletionTimestamp"]).is_empty();
        if lister.tree(namespace).is_ok_and(|namespace| deleted(&namespace)) {
            heard.add_after(namespace.name(), delay);
        }
    });
    let reconcile = move |name: String| {
        let this = this.clone();
        async move { this.reconcile(&name).await }
    };
    Ok(Box::pin(async move {
        tokio::join!(informer, run(queue, "namespace-controller", WORKERS, reconcile));
    }))
}

/// Failure to delete a namespace's content.
#[derive(Debug, thiserror::Error)]
enum NamespaceError {
    /// A request failed.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Some content could not be deleted.
    #[error("[{}]", .0.join(", "))]
    Content(Vec<String>),
}

/// The result of a request, or nothing if the namespace is gone.
fn unless_gone<T>(result: Result<T, StatusError>) -> Result<Option<T>, NamespaceError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.reason() == reason::NOT_FOUND => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl NamespaceDeleter {
    async fn reconcile(&self, name: &str) -> Result<(), NamespaceError> {
        if self.namespaces.get("", name)?.is_none() {
            return Ok(());
        }
        let path = format!("/api/v1/namespaces/{name}");
        let Some(namespace) = unless_gone(self.client.get(&path).await)? else { return Ok(()) };
        let Some(mut namespace) = unless_gone(self.mark_terminating(namespace).await)? else {
            return Ok(());
        };
        let deleted = !namespace.str_at(&["metadata", "deletionTimestamp"]).is_empty();
        if !deleted || namespace.list_at(&["spec", "finalizers"]).is_empty() {
            return Ok(());
        }
        let pass = delete_all(&self.client, &namespace).await?;
        let now = Time::now(self.client.clock()).to_string();
        if pass.findings.write(&mut namespace, &now) {
            match self.client.update(&format!("{path}/status"), &namespace).await {
                Ok(written) => namespace = written,
                Err(error) => {
                    tracing::warn!(namespace = name, %error, "status condition was not updated");
                }
            }
        }
        if !pass.errors.is_empty() {
            return Err(NamespaceError::Content(pass.errors));
        }
        if pass.estimate > 0 {
            let wait = u64::try_from(pass.estimate / 2 + 1).unwrap_or(1);
            self.queue.add_after(name, Duration::from_secs(wait));
            return Ok(());
        }
        unless_gone(self.finalize(namespace).await).map(drop)
    }

    async fn mark_terminating(&self, namespace: Value) -> Result<Value, StatusError> {
        let deleted = !namespace.str_at(&["metadata", "deletionTimestamp"]).is_empty();
        if !deleted || namespace.str_at(&["status", "phase"]) == "Terminating" {
            return Ok(namespace);
        }
        self.write(namespace, "status", |namespace| {
            namespace.make_map(&["status"]).insert("phase", "Terminating".into());
        })
        .await
    }

    async fn finalize(&self, namespace: Value) -> Result<Value, StatusError> {
        self.write(namespace, "finalize", |namespace| {
            let finalizers = namespace.make_list(&["spec"], "finalizers");
            finalizers.retain(|finalizer| finalizer.as_str() != Some(FINALIZER));
        })
        .await
    }

    /// Writes a subresource of a namespace; after a conflict, of its latest state.
    async fn write(
        &self,
        mut namespace: Value,
        subresource: &str,
        change: impl Fn(&mut Value),
    ) -> Result<Value, StatusError> {
        let uid = namespace.str_at(&["metadata", "uid"]).to_owned();
        let path = format!("/api/v1/namespaces/{}", namespace.str_at(&["metadata", "name"]));
        loop {
            change(&mut namespace);
            match self.client.update(&format!("{path}/{subresource}"), &namespace).await {
                Err(error) if error.reason() == reason::CONFLICT => {}
                written => return written,
            }
            namespace = self.client.get(&path).await?;
            if namespace.str_at(&["metadata", "uid"]) != uid {
                return Err(StatusError::internal("namespace uid has changed across retries"));
            }
        }
    }
}
