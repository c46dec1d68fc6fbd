//! Audit event of a request in the handler chain (upstream: `AuditContext`).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header;
use http::request::Parts;
use kevel_api::schema::Schema;
use kevel_api::time::MicroTime;
use kevel_api::value::Value;

use super::auditor::Auditor;
use super::event::{Event, ObjectReference, ResponseStatus, Stage};
use super::object;
use super::source_ips::source_ips;
use crate::request_info::RequestInfo;
use kevel_registry::audit::{AuditEvent, Level};
use kevel_registry::user::User;

/// Longest user agent in an event, in bytes.
const MAX_USER_AGENT: usize = 1024;
/// Suffix of a truncated user agent.
const TRUNCATED: &str = "...TRUNCATED";

/// Facts of a request for its audit event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditedRequest<'a> {
    pub parts: &'a Parts,
    pub info: &'a RequestInfo,
    pub user: Option<&'a Arc<User>>,
    pub peer: Option<SocketAddr>,
    pub received: SystemTime,
}

/// Audit event of a request, filled in along the chain. Without a policy it is empty, and all methods do nothing.
#[derive(Clone, Default)]
pub struct AuditContext(Option<Arc<Shared>>);

struct Shared {
    auditor: Arc<Auditor>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    event: Event,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

impl std::fmt::Debug for AuditContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditContext")
    }
}

impl AuditContext {
    /// The context of a request with this audit ID.
    pub(crate) fn new(auditor: Arc<Auditor>, audit_id: &str) -> Self {
        let event = Event { audit_id: audit_id.to_owned(), ..Event::default() };
        let state = Mutex::new(State { event, ..State::default() });
        AuditContext(Some(Arc::new(Shared { auditor, state })))
    }

    /// Records the request object, decoded and defaulted.
    pub fn request_object(&self, object: &Value, schema: Schema<'_>) {
        let Some(mut state) = self.audited(Level::Metadata) else { return };
        let reference = state.event.object_ref.get_or_insert_default();
        for (field, path) in [
            (&mut reference.namespace, "namespace"),
            (&mut reference.name, "name"),
            (&mut reference.uid, "uid"),
            (&mut reference.resource_version, "resourceVersion"),
        ] {
            if field.is_empty() {
                object.str_at(&["metadata", path]).clone_into(field);
            }
        }
        if state.event.level >= Level::Request {
            let kept = object::typed(object, schema, state.omit_managed_fields);
            state.event.request_object = Some(kept);
        }
    }

    /// Records the patch of the request.
    pub fn request_patch(&self, patch: impl FnOnce() -> Bytes) {
        if let Some(mut state) = self.audited(Level::Request) {
            state.event.request_object = object::patch(&patch());
        }
    }

    /// Records the impersonated user, and the constrained verb that permitted it, if any.
    pub(crate) fn impersonate(&self, user: &User, constraint: &str) {
        if let Some(mut state) = self.audited(Level::Metadata) {
            state.event.impersonated_user = Some(user.clone());
            constraint.clone_into(&mut state.event.impersonation_constraint);
        }
    }

    /// Evaluates the policy and records user and request. `false` at level `None`.
    pub(crate) fn begin(&self, request: &AuditedRequest<'_>) -> bool {
        let (Some(shared), Some(mut state)) = (&self.0, self.state()) else {
            return false;
        };
        let info = request.info;
        let verdict = shared.auditor.policy.evaluate(info, request.user.map(|user| &**user));
        shared.auditor.metrics.levels.with(&[verdict.level.name()]).increment();
        state.event.level = verdict.level;
        if verdict.level == Level::None {
            return false;
        }
        state.omit_managed_fields = verdict.omit_managed_fields;
        state.omit_stages = verdict.omitted().collect();
        let event = &mut state.event;
        event.request_received_timestamp = received(request);
        event.verb = info.verb;
        event.request_uri = request_uri(request);
        event.user_agent = user_agent(request);
        event.source_ips = source_ips(&request.parts.headers, request.peer);
        event.user = request.user.cloned();
        event.object_ref = info.is_resource.then(|| ObjectReference {
            resource: info.resource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            api_group: info.group.clone(),
            api_version: info.version.clone(),
            subresource: info.subresource.clone(),
            ..ObjectReference::default()
        });
        true
    }

    /// Records the status of the response.
    pub(crate) fn respond(&self, status: ResponseStatus) {
        if let Some(mut state) = self.state() {
            state.event.response_status = Some(status);
        }
    }

    /// Records the response object, if the body is one.
    pub(crate) fn response_object(&self, content_type: &str, body: &[u8]) {
        if let Some(mut state) = self.audited(Level::RequestResponse) {
            let kept = object::answer(content_type, body, state.omit_managed_fields);
            state.event.response_object = kept;
        }
    }

    /// Records the response object of an in-process request.
    pub(crate) fn response_tree(&self, object: &Value, schema: Schema<'_>) {
        if let Some(mut state) = self.audited(Level::RequestResponse) {
            let kept = object::typed(object, schema, state.omit_managed_fields);
            state.event.response_object = Some(kept);
        }
    }

    /// Sends the event at a stage. `false` if the request must not continue.
    pub(crate) async fn process(&self, stage: Stage) -> bool {
        match self.at(stage) {
            Some((auditor, event)) => auditor.process(event).await,
            None => true,
        }
    }

    /// Sends the event of a request whose client has disconnected.
    pub(crate) fn process_detached(&self, stage: Stage) {
        if let Some((auditor, event)) = self.at(stage) {
            auditor.process_detached(event);
        }
    }

    /// Counts a request that is refused because its event could not be stored.
    pub(crate) fn reject(&self) {
        if let Some(shared) = &self.0 {
            shared.auditor.metrics.rejected.increment();
        }
    }

    /// The event at a stage; `None` if the stage is omitted.
    fn at(&self, stage: Stage) -> Option<(Arc<Auditor>, Arc<Event>)> {
        let auditor = self.0.as_ref()?.auditor.clone();
        let mut state = self.audited(Level::Metadata)?;
        if state.omit_stages.contains(&stage) {
            return None;
        }
        state.event.stage = stage;
        state.event.stage_timestamp = match stage {
            Stage::RequestReceived => state.event.request_received_timestamp,
            _ => MicroTime::now(&auditor.clock),
        };
        Some((auditor, Arc::new(state.event.clone())))
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        let shared = self.0.as_ref()?;
        Some(shared.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// State of a request whose level is at least this.
    fn audited(&self, least: Level) -> Option<MutexGuard<'_, State>> {
        self.state().filter(|state| state.event.level >= least)
    }
}

impl AuditEvent for AuditContext {
    fn level(&self) -> Level {
        self.state().map_or(Level::None, |state| state.event.level)
    }

    fn annotate(&self, key: &str, value: &str) {
        let Some(mut state) = self.state() else { return };
        let Event { annotations, audit_id, .. } = &mut state.event;
        match annotations.get(key) {
            None => drop(annotations.insert(key.to_owned(), value.to_owned())),
            Some(there) if there != value => tracing::warn!(
                "Failed to set annotations[{key:?}] to {value:?} for audit:{audit_id:?}, it has \
                 already been set to {there:?}"
            ),
            Some(_) => {}
        }
    }
}

fn received(request: &AuditedRequest<'_>) -> MicroTime {
    let since = request.received.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    MicroTime { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

fn user_agent(request: &AuditedRequest<'_>) -> String {
    let agent = request.parts.headers.get(header::USER_AGENT);
    let agent = agent.map(|agent| agent.as_bytes()).unwrap_or_default();
    match agent.get(..MAX_USER_AGENT) {
        Some(start) if agent.len() > MAX_USER_AGENT => {
            String::from_utf8_lossy(start).into_owned() + TRUNCATED
        }
        _ => String::from_utf8_lossy(agent).into_owned(),
    }
}

/// Path and query, with `access_token` masked.
fn request_uri(request: &AuditedRequest<'_>) -> String {
    const TOKEN: &str = "access_token=";
    let uri = request.parts.uri.path_and_query().map_or("", |uri| uri.as_str());
    let Some((path, query)) = uri.split_once('?').filter(|(_, query)| query.contains(TOKEN)) else {
        return uri.to_owned();
    };
    let shown = |pair: &str| match pair.starts_with(TOKEN) {
        true => format!("{TOKEN}..."),
        false => pair.to_owned(),
    };
    let pairs: Vec<String> = query.split('&').map(shown).collect();
    format!("{path}?{}", pairs.join("&"))
}
