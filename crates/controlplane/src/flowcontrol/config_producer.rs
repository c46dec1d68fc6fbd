//! Makes the objects of priority and fairness that a cluster starts with, and keeps those of them that
//! nobody has taken over.

use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::Value;
use kevel_compute::Metered;
use kevel_flowcontrol::bootstrap::{Action, FIELD_MANAGER, Resource, ensure};
use kevel_server::controller::Client;
use kevel_server::future::Pending;
use kevel_server::lifecycle::{HookContext, HookResult};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The name of the post-start hook.
pub const HOOK: &str = "priority-and-fairness-config-producer";

/// How long the first objects may take to be there, and how long a failed attempt is waited after.
const PATIENCE: Duration = Duration::from_secs(300);
const RETRY: Duration = Duration::from_secs(1);
/// What a write fails with if another server has written before.
const RACES: [&str; 3] = [reason::ALREADY_EXISTS, reason::CONFLICT, reason::NOT_FOUND];
/// How often they are looked after.
const RESYNC: Duration = Duration::from_secs(60);

/// The post-start hook: it ends when the objects are there, which are looked after from then on.
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

/// Sets everything right; whether that worked.
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
    // Levels before the schemas that lead there; what is alike at a time, for the store writes it at once.
    for alike in ensure(&levels, &schemas).chunk_by(|a, b| stage(a) == stage(b)) {
        let mut running = JoinSet::new();
        for action in alike {
            let (client, action) = (client.clone(), action.clone());
            let perform = async move { perform(&client, &action).await };
            running.spawn(Metered::task(Box::pin(perform), HOOK));
        }
        while let Some(done) = running.join_next().await {
            let done = done.unwrap_or_else(|error| Err(StatusError::internal(error)));
            // If it is there, gone or changed now, another server was faster.
            let raced = |error: &StatusError| RACES.contains(&error.reason());
            done.or_else(|error| if raced(&error) { Ok(()) } else { Err(error) })?;
        }
    }
    Ok(())
}

/// What is done to which resource.
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

/// All objects of a kind, each with what it is.
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
