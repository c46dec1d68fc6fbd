//! Bootstrap of the system priority classes.

use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_clock::timer_now;
use kevel_component::future::Pending;
use kevel_controller_runtime::Client;
use kevel_server::lifecycle::{HookContext, HookResult};
use tokio::time::sleep;

/// The name of the post-start hook.
pub const HOOK: &str = "scheduling/bootstrap-system-priority-classes";

const PATH: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// Timeout for the creation, and delay between attempts.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(1);

/// System priority classes: name, value and description.
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

/// Post-start hook that creates the classes.
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

/// Creates the classes; retries for a while, because the server may not be ready.
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

/// Creates a class if it does not exist; true if it exists now.
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
