//! Admission: plug-ins that see every write before it is stored (upstream: `k8s.io/apiserver/pkg/admission`).

mod observer;
mod options;
mod reinvocation;
mod size;

pub use observer::{AdmissionStep, AdmissionWork, ObserveAdmission};
pub use options::OperationOptions;
pub use reinvocation::Reinvocation;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use kevel_api::field_error::{FieldError, FieldErrors};
use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_clock::Clock;

use crate::audit::AuditEvent;
use crate::latency::TrackLatency;
use crate::resource::Resource;
use crate::user::User;
use crate::verb::Verb;
use crate::warnings::Warnings;
use kevel_component::future::Pending;

use self::observer::StepMeasurement;

/// Operation of a write (upstream: `admission.Operation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of one.
    Update,
    /// The end of one, or of many.
    Delete,
    /// A connection to one, such as `exec`.
    Connect,
}

impl Operation {
    /// As the API writes it: `CREATE`.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    /// The operation of that name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
        all.into_iter().find(|operation| operation.name() == name)
    }
}

/// A write on its way to the store.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The resource that is written.
    pub resource: &'a Resource,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Operation of the write.
    pub operation: Operation,
    /// The verb of the request: `patch` where the operation is an update, for example.
    pub verb: Verb,
    /// The namespace; empty for objects of the cluster. A namespace is in itself.
    pub namespace: &'a str,
    /// The object; empty where its name is still to be made up, and for each of many that are deleted at once.
    pub name: &'a str,
    /// The authenticated user.
    pub user: &'a User,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// Warnings for the client.
    pub warnings: &'a Warnings,
    /// Audit event of the request, for annotations.
    pub audit: &'a dyn AuditEvent,
    /// The stored object, for updates and deletions.
    pub old: Option<&'a Value>,
    /// Options of the operation.
    pub options: OperationOptions<'a>,
    /// Deadline of the write.
    pub deadline: Option<Instant>,
    /// Time of the server.
    pub clock: &'a Clock,
    /// Latency of the request's phases.
    pub trackers: Option<&'a dyn TrackLatency>,
    /// Round of mutating admission; `None` outside of it.
    pub reinvocation: Option<&'a Reinvocation>,
}

impl<'a> Attributes<'a> {
    /// Kind of the body: the row's, or that of the subresource (`Scale`, `Eviction`).
    pub fn kind(&self) -> &'a GroupVersionKind {
        self.resource.kind_of(self.subresource)
    }

    /// Whether objects of this resource are written themselves, not a subresource of them.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.concerns(group, plural)
    }

    /// Whether objects of this resource are written, or something below them.
    pub fn concerns(&self, group: &str, plural: &str) -> bool {
        self.resource.plural == plural && self.resource.kind.group == group
    }

    /// Whether an update changes only finalizers and owner references.
    pub fn only_collected(&self, object: &Value) -> bool {
        let Some(old) = self.old else { return false };
        let rest = |object: &Value| {
            let mut rest = object.clone();
            if let Some(metadata) = rest.at_mut(&["metadata"]).and_then(Value::as_map_mut) {
                for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
                    metadata.remove(field);
                }
            }
            // An empty list is none.
            if let Some(map) = rest.as_map_mut() {
                map.retain(|_, value| !value.is_empty());
            }
            rest
        };
        rest(object) == rest(old)
    }

    /// The refusal. Of an object whose name is not made up yet, what it will begin with is named.
    pub fn forbidden(&self, object: Option<&Value>, error: impl std::fmt::Display) -> StatusError {
        let metadata = |field| object.map_or("", |object| object.str_at(&["metadata", field]));
        let names = [self.name, metadata("name"), metadata("generateName"), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        StatusError::forbidden(&self.resource.group_resource(), name, error)
    }
}

/// The answer of a plug-in that waits for nothing. Consent costs no allocation.
pub fn ready<'a>(result: Result<(), StatusError>) -> Pending<'a, Result<(), StatusError>> {
    match result {
        Ok(()) => Box::pin(Consent),
        refused => Box::pin(std::future::ready(refused)),
    }
}

/// A future without a size, so that boxing it allocates nothing.
struct Consent;

impl Future for Consent {
    type Output = Result<(), StatusError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}

/// Work after an update is stored: no more than a counter.
pub type OnceStored = Box<dyn FnOnce() + Send>;

/// An admission plug-in. Both steps admit every request unless the plug-in overrides them (upstream:
/// `MutationInterface`, `ValidationInterface`).
pub trait Plugin: Send + Sync + 'static {
    /// Its name in `--enable-admission-plugins`.
    fn name(&self) -> &'static str;

    /// May change the object (`None` for deletions).
    fn admit<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        ready(Ok(()))
    }

    /// Whether it has rules of kinds: [`check_new`](Self::check_new) and [`check_update`](Self::check_update) are asked.
    fn has_rules(&self) -> bool {
        false
    }

    /// Validates a new object by more than the object itself, such as other objects. The errors precede those of the
    /// strategy.
    fn check_new<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: &'a Value,
    ) -> Pending<'a, Result<Vec<FieldError>, StatusError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Validates a changed object by more than the object itself; `attributes.old` is the object before.
    fn check_update<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: &'a Value,
    ) -> Pending<'a, Result<Vec<FieldError>, StatusError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Whether it wants to know of stored updates: [`update_stored`](Self::update_stored) is asked.
    fn observes_updates(&self) -> bool {
        false
    }

    /// Work to do once an update is stored, which may yet fail; `attributes.old` is the object before.
    fn update_stored(&self, _attributes: &Attributes<'_>, _object: &Value) -> Option<OnceStored> {
        None
    }

    /// Sees the object as it will be stored.
    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        ready(Ok(()))
    }
}

/// The plug-ins, in order: all of them admit, then all of them validate.
#[derive(Clone, Default)]
pub struct Admission {
    plugins: Vec<Arc<dyn Plugin>>,
    /// Plug-ins that are told of stored updates.
    observers: Vec<Arc<dyn Plugin>>,
    /// Observer of the time that the plug-ins take.
    observer: Option<Arc<dyn ObserveAdmission>>,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.plugins.iter().map(|plugin| plugin.name())).finish()
    }
}

impl Admission {
    /// Plug-ins, in the order in which they run.
    pub fn new(plugins: Vec<Arc<dyn Plugin>>) -> Self {
        let observers = plugins.iter().filter(|plugin| plugin.observes_updates());
        Admission { observers: observers.cloned().collect(), plugins, observer: None }
    }

    /// The same plug-ins, measured.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn ObserveAdmission>) -> Self {
        Admission { observer: Some(observer), ..self }
    }

    /// Lets the plug-ins change the object, or refuse. Where one of them asks for it, all of them see once more what
    /// became of it. They may not make it larger than can be stored.
    pub async fn admit(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<(), StatusError> {
        let reinvocation = Reinvocation::default();
        let attributes = Attributes { reinvocation: Some(&reinvocation), ..*attributes };
        let before = object.as_deref().map_or(0, size::bytes);
        let mut measured = StepMeasurement::start(self.observer.as_ref(), AdmissionStep::Admit);
        let mut admitted = self.admit_once(&attributes, object.as_deref_mut(), &mut measured).await;
        if admitted.is_ok() && reinvocation.begin_second_round() {
            admitted = self.admit_once(&attributes, object.as_deref_mut(), &mut measured).await;
        }
        measured.end(&attributes, &admitted);
        admitted?;
        object.map_or(Ok(()), |object| size::check(object, before))
    }

    async fn admit_once(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        measured: &mut StepMeasurement<'_>,
    ) -> Result<(), StatusError> {
        for (at, plugin) in self.plugins.iter().enumerate() {
            let admitted = plugin.admit(attributes, object.as_deref_mut()).await;
            measured.plugin(at, attributes, &admitted);
            admitted?;
        }
        Ok(())
    }

    /// Errors of plug-ins that hold rules of kinds, about a new object.
    pub async fn check_new(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<FieldErrors, StatusError> {
        let mut errors = FieldErrors::new();
        for plugin in self.plugins.iter().filter(|plugin| plugin.has_rules()) {
            errors.extend(plugin.check_new(attributes, object).await?);
        }
        Ok(errors)
    }

    /// Validation errors of plug-ins for a changed object.
    pub async fn check_update(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<FieldErrors, StatusError> {
        let mut errors = FieldErrors::new();
        for plugin in self.plugins.iter().filter(|plugin| plugin.has_rules()) {
            errors.extend(plugin.check_update(attributes, object).await?);
        }
        Ok(errors)
    }

    /// Work that plug-ins have once an update is stored.
    pub fn update_stored(&self, attributes: &Attributes<'_>, object: &Value) -> Vec<OnceStored> {
        let observers = self.observers.iter().filter(|_| !attributes.dry_run);
        observers.filter_map(|plugin| plugin.update_stored(attributes, object)).collect()
    }

    /// Lets the plug-ins judge the object as it will be stored.
    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), StatusError> {
        let mut measured = StepMeasurement::start(self.observer.as_ref(), AdmissionStep::Validate);
        let mut result = Ok(());
        for (at, plugin) in self.plugins.iter().enumerate() {
            result = plugin.validate(attributes, object).await;
            measured.plugin(at, attributes, &result);
            if result.is_err() {
                break;
            }
        }
        measured.end(attributes, &result);
        result
    }
}
