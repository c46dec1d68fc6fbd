//! Scope of a request: the resource and subresource that it is about, with its context (upstream:
//! `handlers.RequestScope`).

use std::sync::Arc;

use kevel_api::gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind};
use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_patch::managed_fields::{FieldManager, Filter};

use crate::admission::{Admission, Attributes, Operation, OperationOptions};
use crate::context::{RequestContext, WriteOptions};
use crate::metadata;
use crate::owner_references::{Sent, dedup};
use crate::resource::{Resource, Subresource, SubresourceKind, api_version};
use crate::strategy::Strategy;
use crate::type_ref::TypeRef;

/// Scope of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestScope<'a> {
    /// Resource of the objects.
    pub resource: &'a Arc<Resource>,
    /// Subresource that is read or written, if it is not the object itself.
    pub subresource: Option<&'a Subresource>,
    /// Admission chain of writes.
    pub admission: &'a Admission,
    /// Context of the request.
    pub context: RequestContext<'a>,
}

impl RequestScope<'_> {
    /// Namespace of the object; empty for a cluster-scoped resource.
    pub fn namespace(&self) -> &str {
        if self.resource.namespaced { self.context.namespace } else { "" }
    }

    /// Name of the object; empty for a collection.
    pub fn name(&self) -> &str {
        self.context.name
    }

    /// Group and plural, as in error messages.
    pub fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// Strategy of the write: the resource's, or the subresource's own.
    pub fn strategy(&self) -> &dyn Strategy {
        match self.subresource.map(|sub| &sub.role) {
            Some(SubresourceKind::Fields(fields)) => &*fields.strategy,
            _ => &*self.resource.strategy,
        }
    }

    /// Kind of the request and response body: the resource's, or the subresource's.
    pub fn kind(&self) -> &GroupVersionKind {
        self.subresource.map_or(&self.resource.kind, |sub| &sub.kind)
    }

    /// Type of the request and response body: the resource's, or the subresource's.
    pub fn ty(&self) -> TypeRef {
        self.subresource.map_or_else(|| self.resource.ty.clone(), |sub| sub.ty.clone())
    }

    /// Name of the object's type in the reference: `core.Node`.
    pub fn go_type(&self) -> String {
        let kind = self.kind();
        let package = match kind.group.as_str() {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        match self.resource.ty.is_unstructured() {
            true => "unstructured.Unstructured".to_owned(),
            false => format!("{package}.{}", kind.kind),
        }
    }

    /// Group and kind in failures: those in the body of an unstructured object, else those of the path.
    pub(crate) fn said_group_kind(&self, object: &Value) -> GroupKind {
        if !self.resource.ty.is_unstructured() {
            return self.resource.group_kind();
        }
        let version = object.str_at(&["apiVersion"]).parse::<GroupVersion>().unwrap_or_default();
        GroupKind::new(version.group, object.str_at(&["kind"]))
    }

    /// Admission attributes of this request (upstream: `admission.Attributes`). A caller that knows the object better
    /// overrides the fields of this result.
    pub fn attributes(&self, operation: Operation, dry_run: bool) -> Attributes<'_> {
        let context = &self.context;
        Attributes {
            resource: self.resource,
            subresource: context.subresource,
            operation,
            verb: context.verb,
            namespace: if self.is_of_namespaces() { context.namespace } else { self.namespace() },
            name: self.name(),
            user: context.user,
            dry_run,
            warnings: context.warnings,
            audit: context.audit,
            old: None,
            options: match operation {
                Operation::Create => OperationOptions::Create(context.query),
                Operation::Update => OperationOptions::Update(context.query),
                Operation::Delete | Operation::Connect => OperationOptions::None,
            },
            deadline: context.write_deadline(),
            clock: context.clock,
            trackers: context.trackers,
            reinvocation: None,
        }
    }

    /// Whether the request's resource is the core `namespaces`.
    pub(crate) fn is_of_namespaces(&self) -> bool {
        self.resource.plural == "namespaces" && self.resource.kind.group.is_empty()
    }

    /// Fills in the request's namespace and checks that the object's name is the one in the path.
    pub fn identify(&self, object: &mut Value) -> Result<(), StatusError> {
        self.fill_in_namespace(object)?;
        self.check_name(object)
    }

    /// Sets the request's namespace where the object has none, and refuses another one. A cluster-scoped object's
    /// namespace is removed.
    pub fn fill_in_namespace(&self, object: &mut Value) -> Result<(), StatusError> {
        let (said, namespace) = (metadata::text(object, "namespace"), self.namespace());
        if said == namespace {
            return Ok(());
        }
        if said.is_empty() || namespace.is_empty() {
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
            metadata::set(object, "namespace", namespace.map(Value::from));
            return Ok(());
        }
        Err(other_namespace())
    }

    /// Checks that the object's name is the one in the path.
    pub(crate) fn check_name(&self, object: &Value) -> Result<(), StatusError> {
        let (said, name) = (metadata::text(object, "name"), self.name());
        if said == name {
            return Ok(());
        }
        Err(StatusError::bad_request(match said {
            "" => format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be \
                 provided"
            ),
            said => format!(
                "the name of the object ({said}) does not match the name on the URL ({name})"
            ),
        }))
    }

    /// Drops duplicate owner references, with a warning (upstream: `dedupOwnerReferencesAndAddWarning`).
    pub fn dedup_owner_references(&self, object: &mut Value, sent: Sent) {
        let duplicates = dedup(object);
        if duplicates.is_empty() {
            return;
        }
        let when = match sent {
            Sent::ByClient => "",
            Sent::AfterAdmission => " after mutating admission happens",
        };
        let uids = duplicates.join(", ");
        self.context.warnings.add(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner \
             references in 1.20+, and may reject such requests as early as 1.24; please fix your \
             requests; duplicate UID(s) observed: {uids}"
        ));
    }

    /// Records the fields that the client sets in an object that is not stored.
    pub fn record_unstored(&self, object: &mut Value, options: &WriteOptions) {
        let ty = self.ty();
        let kind = self.kind();
        let api_version = api_version(&kind.group, &kind.version);
        let manager = FieldManager {
            schema: ty.schema(),
            api_version: &api_version,
            kind: &kind.kind,
            subresource: self.context.subresource,
            filter: &Filter::All,
            others: &(),
        };
        manager.update(None, object, &options.field_manager, Time::now(self.context.clock));
    }
}

/// The 400 for an object of another namespace than the request's.
pub(crate) fn other_namespace() -> StatusError {
    StatusError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}
