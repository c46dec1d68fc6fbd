//! ServiceAccount `default` of every namespace.

use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, InformerEvent, run};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;

const ACCOUNT: &str = "default";
/// Cause of the refusal of an object in a namespace that is being deleted.
const TERMINATING: &str = "NamespaceTerminating";

struct ServiceAccounts {
    client: Client,
    namespaces: CacheLister,
    accounts: CacheLister,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let this = Arc::new(ServiceAccounts {
        client: context.client("service-account-controller"),
        namespaces: CacheLister::new(context.storage("", "namespaces")?),
        accounts: CacheLister::new(context.storage("", "serviceaccounts")?),
    });
    let queue = context.queue("serviceaccount", Backoff::default());
    let heard = queue.clone();
    let accounts = this.accounts.informer().run(move |event| {
        if let InformerEvent::Delete(account) = event {
            heard.add(account.namespace());
        }
    });
    let heard = queue.clone();
    let namespaces =
        this.namespaces.informer().for_each(move |namespace| heard.add(namespace.name()));
    let reconcile = move |namespace: String| {
        let this = this.clone();
        async move { this.reconcile(&namespace).await }
    };
    Ok(Box::pin(async move {
        tokio::join!(accounts, namespaces, run(queue, "serviceaccount-controller", 1, reconcile));
    }))
}

impl ServiceAccounts {
    async fn reconcile(&self, name: &str) -> Result<(), StatusError> {
        let Some(namespace) = self.namespaces.get("", name)? else { return Ok(()) };
        let active = namespace.str_at(&["status", "phase"]) == "Active";
        if !active || self.accounts.get(name, ACCOUNT)?.is_some() {
            return Ok(());
        }
        let metadata = Map::from_iter([("name", Value::from(ACCOUNT))]);
        let account = Map::from_iter([("metadata", Value::Map(metadata))]).into();
        let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
        match self.client.create(&path, &account).await {
            Err(error) if error.reason() == reason::ALREADY_EXISTS || is_terminating(&error) => {
                Ok(())
            }
            created => created.map(drop),
        }
    }
}

/// Whether an object was refused because its namespace is being deleted.
pub(crate) fn is_terminating(error: &StatusError) -> bool {
    let details = error.status().details.as_ref();
    details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == TERMINATING))
}
