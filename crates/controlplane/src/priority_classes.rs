//! The priority classes that every cluster has: for what must run if anything does.

use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_clock::timer_now;
use kevel_server::controller::Client;
use kevel_server::future::Pending;
use kevel_server::lifecycle::{HookContext, HookResult};
use tokio::time::sleep;

/// The name of the post-start hook.
pub const HOOK: &str = "scheduling/bootstrap-system-priority-classes";

const PATH: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// How long the classes may take to be there, and how long a failed attempt is waited after.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(1);

/// Name, value and what it is for.
pub const CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another \
         node if necessary.",
    ),
];

/// The post-start hook.
pub fn hook(
    client: Client,
) -> impl FnOnce(HookContext) -> Pending<'static, HookResult> + Send + 'static {
    move |context| {
        Box::pin(async move {
            tokio::select! {
                result = ensure(&client) => result,
                () = context.stop.wait() => Ok(()),
            }
        })
    }
}

/// Makes the classes; a server that is not ready is tried again for a while.
async fn ensure(client: &Client) -> HookResult {
    let deadline = timer_now() + PATIENCE;
    for class in CLASSES {
        loop {
            let error = match ensure_class(client, class).await {
                Ok(true) => break,
                Ok(false) if timer_now() + RETRY < deadline => {
                    sleep(RETRY).await;
                    continue;
                }
                Ok(false) => "timed out waiting for the condition".to_owned(),
                Err(error) => error.to_string(),
            };
            return Err(format!("unable to add default system priority classes: {error}"));
        }
    }
    Ok(())
}

/// Whether a class is there now.
async fn ensure_class(
    client: &Client,
    (name, value, description): (&str, i64, &str),
) -> Result<bool, StatusError> {
    match client.get(&format!("{PATH}/{name}")).await {
        Ok(_) => return Ok(true),
        Err(error) if error.reason() == reason::NOT_FOUND => {}
        Err(_) => return Ok(false),
    }
    let metadata = Map::from_iter([("name", Value::from(name))]);
    let class = Map::from_iter([
        ("metadata", Value::Map(metadata)),
        ("value", value.into()),
        ("description", description.into()),
    ]);
    match client.create(PATH, &class.into()).await {
        Ok(_) => Ok(true),
        Err(error) if error.reason() == reason::ALREADY_EXISTS => Ok(true),
        Err(error) if error.reason() == reason::SERVICE_UNAVAILABLE => Ok(false),
        Err(error) => Err(error),
    }
}
