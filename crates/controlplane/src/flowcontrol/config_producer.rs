//! Bootstrap of priority and fairness: creates the suggested and mandatory objects, and maintains those that no user
//! has taken over.

use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_compute::Metered;
use kevel_controller_runtime::Client;
use kevel_flowcontrol::bootstrap::{Action, FIELD_MANAGER, Resource, ensure};
use kevel_server::lifecycle::{HookContext, HookResult};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Name of the post-start hook.
pub const HOOK: &str = "priority-and-fairness-config-producer";

/// Timeout for the first objects, and delay between attempts.
const PATIENCE: Duration = Duration::from_secs(300);
const RETRY: Duration = Duration::from_secs(1);
/// Errors of a write when another server was faster.
const RACES: [&str; 3] = [reason::ALREADY_EXISTS, reason::CONFLICT, reason::NOT_FOUND];
/// Interval of maintenance.
const RESYNC: Duration = Duration::from_secs(60);

/// Post-start hook: completes when the objects exist; maintenance goes on in the background.
pub fn hook(
    client: Client,
) -> impl FnOnce(HookContext) -> Pending<'static, HookResult> + Send + 'static {
    move |context| {
        Box::pin(async move {
            let first = async {
                while !attempt(&client).await {
                    sleep(RETRY).await;
                }
            };
            tokio::select! {
                done = timeout(PATIENCE, first) => done.map_err(|_| {
                    "unable to initialize APF bootstrap configuration: timed out waiting for the \
                     condition"
                })?,
                () = context.stop.wait() => return Ok(()),
            }
            context.spawn(HOOK, async move {
                loop {
                    sleep(RESYNC).await;
                    attempt(&client).await;
                }
            });
            Ok(())
        })
    }
}

/// Ensures all objects; true on success.
async fn attempt(client: &Client) -> bool {
    let result = ensure_all(client).await;
    if let Err(error) = &result {
        tracing::error!(%error, "APF bootstrap ensurer ran into error, will retry later");
    }
    result.is_ok()
}

async fn ensure_all(client: &Client) -> Result<(), StatusError> {
    let levels = list(client, Resource::PriorityLevelConfigurations).await?;
    let schemas = list(client, Resource::FlowSchemas).await?;
    // Levels before the schemas that refer to them; similar actions in parallel, because the store writes them in one
    // batch.
    for alike in ensure(&levels, &schemas).chunk_by(|a, b| stage(a) == stage(b)) {
        let mut running = JoinSet::new();
        for action in alike {
            let (client, action) = (client.clone(), action.clone());
            let perform = async move { perform(&client, &action).await };
            running.spawn(Metered::task(Box::pin(perform), HOOK));
        }
        while let Some(done) = running.join_next().await {
            let done = done.unwrap_or_else(|error| Err(StatusError::internal(error)));
            // Another server has created, deleted or changed the object: no error.
            let raced = |error: &StatusError| RACES.contains(&error.reason());
            done.or_else(|error| if raced(&error) { Ok(()) } else { Err(error) })?;
        }
    }
    Ok(())
}

/// Stage of an action: actions of the same kind on the same resource run together.
fn stage(action: &Action) -> (u8, Resource) {
    match action {
        Action::Create(resource, _) => (0, *resource),
        Action::Update(resource, _) => (1, *resource),
        Action::Delete(resource, _) => (2, *resource),
    }
}

async fn perform(client: &Client, action: &Action) -> Result<(), StatusError> {
    match action {
        Action::Create(resource, object) => {
            let path = format!("{}?fieldManager={FIELD_MANAGER}", resource.path());
            client.create(&path, object).await?;
        }
        Action::Update(resource, object) => {
            let name = object.str_at(&["metadata", "name"]);
            let path = format!("{}/{name}?fieldManager={FIELD_MANAGER}", resource.path());
            client.update(&path, object).await?;
        }
        Action::Delete(resource, name) => {
            client.delete(&format!("{}/{name}", resource.path())).await?;
        }
    }
    Ok(())
}

/// All objects of a kind, each with `apiVersion` and `kind`.
async fn list(client: &Client, resource: Resource) -> Result<Vec<Value>, StatusError> {
    let list = client.get(resource.path()).await?;
    let kind = list.str_at(&["kind"]).trim_end_matches("List").to_owned();
    let api_version = list.str_at(&["apiVersion"]).to_owned();
    let items = list.list_at(&["items"]).iter().cloned();
    let typed = |mut object: Value| {
        let fields = object.make_map(&[]);
        fields.insert("apiVersion", api_version.as_str().into());
        fields.insert("kind", kind.as_str().into());
        object
    };
    Ok(items.map(typed).collect())
}
