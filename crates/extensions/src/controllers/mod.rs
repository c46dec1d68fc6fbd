//! Controllers of CustomResourceDefinitions: one informer, and a work queue for each controller.

mod api_approval;
mod establishing;
mod finalizing;
mod known;
mod naming;
mod non_structural_schema;
mod serving;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, WorkQueue, run};
use kevel_registry::resource::{Resource, Resources};
use kevel_registry::storage::Storage;
use kevel_store::cache::{At, CacheError, Selection};
use tokio::sync::watch as signal;

use self::known::Known;
use self::serving::Serving;
use crate::definition::{Definition, GROUP, PLURAL, condition};
use crate::rows::RestOptions;
use crate::terminating::Terminating;

/// Delay before the informer lists again after an error.
const RETRY: Duration = Duration::from_millis(200);

/// Controllers of CustomResourceDefinitions.
#[derive(Debug)]
pub struct Controllers {
    context: Arc<Context>,
    serving: Serving,
    /// True once all definitions that existed at the start are served.
    synced: signal::Sender<bool>,
}

/// State that the controllers share.
#[derive(Debug)]
struct Context {
    definitions: Arc<Storage>,
    custom: Arc<Resources>,
    client: Client,
    options: RestOptions,
    known: Known,
    naming: Arc<WorkQueue>,
    establishing: Arc<WorkQueue>,
    finalizing: Arc<WorkQueue>,
    non_structural_schema: Arc<WorkQueue>,
    api_approval: Arc<WorkQueue>,
}

impl Controllers {
    pub(crate) fn new(
        definitions: Arc<Resource>,
        custom: Arc<Resources>,
        terminating: Arc<Terminating>,
        options: RestOptions,
        client: Client,
        synced: signal::Sender<bool>,
    ) -> Result<Self, String> {
        let storage = definitions.storage.clone();
        let queue = || WorkQueue::new(Backoff::default());
        let context = Context {
            definitions: storage.ok_or("custom resource definitions must be stored")?,
            custom: custom.clone(),
            client,
            options: options.clone(),
            known: Known::default(),
            naming: queue(),
            establishing: queue(),
            finalizing: queue(),
            non_structural_schema: queue(),
            api_approval: queue(),
        };
        let serving = Serving::new(custom, terminating, options);
        Ok(Controllers { context: Arc::new(context), serving, synced })
    }

    /// True once all definitions that existed at the start are served.
    pub fn synced(&self) -> signal::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Runs the controllers until the server stops.
    pub async fn run(self) {
        let Controllers { context, serving, synced } = self;
        macro_rules! work {
            ($queue:ident, $name:literal) => {{
                let shared = context.clone();
                run(context.$queue.clone(), $name, 1, move |name: String| {
                    let context = shared.clone();
                    async move { $queue::reconcile(&context, &name).await }
                })
            }};
        }
        tokio::join!(
            inform(&context, serving, synced),
            work!(naming, "crd_naming_condition_controller"),
            work!(establishing, "crd_establishing"),
            work!(finalizing, "crd_finalizer"),
            work!(non_structural_schema, "non_structural_schema_condition_controller"),
            work!(api_approval, "kubernetes_api_approval_conformant_condition_controller"),
        );
    }
}

/// Informer of definitions: updates the served rows, then the controllers' queues.
async fn inform(context: &Context, mut serving: Serving, synced: signal::Sender<bool>) {
    let cache = &context.definitions.cache;
    loop {
        let heard = async {
            let (snapshot, mut watcher) =
                cache.list_watch(Selection::default(), At::Consistent).await?;
            let there: Vec<Value> =
                snapshot.range("", None).filter_map(|object| context.read(object)).collect();
            serving.retain(&there);
            there.iter().for_each(|definition| hear(context, &mut serving, definition));
            synced.send_replace(true);
            let mut seen = Vec::new();
            loop {
                watcher.next(&mut seen).await?;
                for delivery in seen.drain(..) {
                    match delivery.event.current().map(|object| context.read(object)) {
                        Some(Some(definition)) => hear(context, &mut serving, &definition),
                        Some(None) => {}
                        None => {
                            let gone = delivery.event.previous().map(|object| object.key());
                            forget(context, &mut serving, gone.unwrap_or_default());
                        }
                    }
                }
            }
        };
        let ended: Result<(), CacheError> = heard.await;
        if ended == Err(CacheError::Closed) {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn hear(context: &Context, serving: &mut Serving, definition: &Value) {
    let definition = Definition(definition);
    let name = definition.name();
    // Serve first, so that the condition Established is true when it is written.
    serving.serve(definition);
    context.known.note(definition);
    if definition.names() != definition.accepted_names() {
        context.naming.add(name);
    }
    // Names come first: accepting them causes an event that continues with the other controllers.
    if definition.condition(condition::NAMES_ACCEPTED).is_none() {
        return;
    }
    if !definition.is(condition::ESTABLISHED) {
        context.establishing.add(name);
    }
    if context.known.is_unchecked(definition) {
        context.non_structural_schema.add(name);
    }
    if api_approval::is_protected(definition.group()) {
        context.api_approval.add(name);
    }
    if definition.is_being_deleted() {
        context.finalizing.add(name);
    }
}

/// A definition is gone: its rows go, and its names are free.
fn forget(context: &Context, serving: &mut Serving, name: &str) {
    serving.remove(name);
    context.known.forget(name);
    context.naming.add(name);
}

impl Context {
    fn now(&self) -> Time {
        Time::now(&self.definitions.registry.clock)
    }

    fn read(&self, object: &kevel_store::cache::Object) -> Option<Value> {
        let read = object.wire().map_err(ToOwned::to_owned);
        let read = read.and_then(|wire| self.definitions.read(wire));
        read.inspect_err(|error| {
            tracing::warn!(name = object.key(), error, "a definition cannot be read");
        })
        .ok()
    }

    /// Definition from the cache.
    fn find(&self, name: &str) -> Option<Value> {
        self.read(self.definitions.cache.latest().get(name)?)
    }

    /// Updates the status of a definition. `None` on NotFound and Conflict: the watch event of the other write follows.
    async fn update_status(&self, definition: &Value) -> Result<Option<Value>, String> {
        let name = Definition(definition).name();
        let path = format!("/apis/{GROUP}/v1/{PLURAL}/{name}/status");
        unless_outrun(self.client.update(&path, definition).await)
    }
}

fn unless_outrun(written: Result<Value, StatusError>) -> Result<Option<Value>, String> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(error) if matches!(error.reason(), reason::NOT_FOUND | reason::CONFLICT) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
