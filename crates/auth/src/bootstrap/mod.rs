//! The policy that a cluster starts with: made where it is missing, completed where it is not whole.
//!
//! Rules and subjects that users added stay. An object that says
//! `rbac.authorization.kubernetes.io/autoupdate: "false"` is left as it is.

mod migrate;
mod policy;
mod reconcile;
#[cfg(test)]
mod tests;

use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_clock::timer_now;
use kevel_component::future::Pending;
use kevel_compute::Metered;
use kevel_controller_runtime::Client;
use kevel_server::lifecycle::{HookContext, HookResult};
use tokio::task::JoinSet;
use tokio::time::sleep;

pub(crate) use self::policy::node_rules;
use self::policy::{Desired, policy};
pub use self::policy::{Gates, gates};
use self::reconcile::{Change, reconcile};
use crate::GROUP;

/// The name of the post-start hook.
pub const HOOK: &str = "rbac/bootstrap-roles";

/// Timeout for the policy to be in place, and delay after a failed attempt.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(1);
/// Attempts at an object that another client writes at the same time.
const ATTEMPTS: u32 = 4;

/// Whether the policy has a role `system:controller:<name>` for the service account of a controller.
pub fn has_controller(name: &str) -> bool {
    policy::has_controller(name)
}

/// The post-start hook: a server without its policy should not go on.
/// Roles and rules of these feature gates are part of it.
pub fn hook(
    client: Client,
    on: Gates,
) -> impl FnOnce(HookContext) -> Pending<'static, HookResult> + Send + 'static {
    move |context| {
        Box::pin(async move {
            tokio::select! {
                result = ensure_policy(&client, &on) => result,
                () = context.stop.wait() => Ok(()),
            }
        })
    }
}

/// Creates and completes the default policy; failed objects are retried for a while.
pub async fn ensure_policy(client: &Client, on: &Gates) -> HookResult {
    let deadline = timer_now() + PATIENCE;
    while !ensure_once(client, on).await {
        if timer_now() + RETRY > deadline {
            return Err("unable to initialize roles: timed out waiting for the condition".into());
        }
        sleep(RETRY).await;
    }
    Ok(())
}

/// Whether all went well. Objects are looked after beside each other, so that the store can write
/// them together.
async fn ensure_once(client: &Client, on: &Gates) -> bool {
    if let Err(error) = migrate::migrate(client).await {
        tracing::error!(%error, "unable to prime roles");
        return false;
    }
    let mut running = JoinSet::new();
    for desired in policy(on) {
        let client = client.clone();
        let ensure = async move {
            let result = ensure(&client, &desired).await;
            result.inspect_err(|error| {
                let name = desired.object.str_at(&["metadata", "name"]);
                tracing::error!(resource = desired.plural, name, %error, "unable to reconcile");
            })
        };
        running.spawn(Metered::task(Box::pin(ensure), "rbac-bootstrap-roles"));
    }
    let mut well = true;
    while let Some(ended) = running.join_next().await {
        well &= matches!(ended, Ok(Ok(())));
    }
    well
}

async fn ensure(client: &Client, desired: &Desired) -> Result<(), StatusError> {
    let mut wait = Duration::from_millis(10);
    for _ in 1..ATTEMPTS {
        match ensure_now(client, desired).await {
            Err(error) if passes(&error) => {}
            result => return result,
        }
        sleep(wait).await;
        wait *= 5;
    }
    ensure_now(client, desired).await
}

/// Whether a failure is one of others' writing at the same time.
fn passes(error: &StatusError) -> bool {
    let passing = [
        reason::CONFLICT,
        reason::SERVICE_UNAVAILABLE,
        // Made, or removed, since it was looked for.
        reason::ALREADY_EXISTS,
        reason::NOT_FOUND,
    ];
    passing.contains(&error.reason())
}

async fn ensure_now(client: &Client, desired: &Desired) -> Result<(), StatusError> {
    let name = desired.object.str_at(&["metadata", "name"]);
    let collection = collection(desired.plural, desired.namespace);
    let path = format!("{collection}/{name}");
    let existing = match client.get(&path).await {
        Err(error) if error.reason() == reason::NOT_FOUND => {
            ensure_namespace(client, desired.namespace).await?;
            client.create(&collection, &desired.object).await?;
            return Ok(());
        }
        existing => existing?,
    };
    match reconcile(&existing, &desired.object) {
        Change::None => {}
        Change::Protected => {
            tracing::warn!(resource = desired.plural, name, "skipped: protected, and incomplete");
        }
        Change::Update(object) => {
            client.update(&path, &object).await?;
        }
        // What a binding binds cannot be changed.
        Change::Recreate => {
            client.delete(&path).await?;
            client.create(&collection, &desired.object).await?;
        }
    }
    Ok(())
}

fn collection(plural: &str, namespace: &str) -> String {
    match namespace {
        "" => format!("/apis/{GROUP}/v1/{plural}"),
        namespace => format!("/apis/{GROUP}/v1/namespaces/{namespace}/{plural}"),
    }
}

async fn ensure_namespace(client: &Client, name: &str) -> Result<(), StatusError> {
    if name.is_empty() || client.get(&format!("/api/v1/namespaces/{name}")).await.is_ok() {
        return Ok(());
    }
    let metadata = Map::from_iter([("name", Value::from(name))]);
    let namespace = Map::from_iter([("metadata", Value::Map(metadata))]);
    match client.create("/api/v1/namespaces", &namespace.into()).await {
        Err(error) if error.reason() != reason::ALREADY_EXISTS => Err(error),
        _ => Ok(()),
    }
}
