//! Admission attributes of a write, and calls of the admission chain.

use std::time::{Duration, Instant};

use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::{ResourceRequest, StoredRequest};
use crate::admission::{Attributes, Operation, OperationOptions};
use crate::latency_trackers::LatencyTrackers;
use crate::request::Received;
use crate::verb::Verb;

/// Upper bound of a write's duration, whatever timeout the request allows (upstream: `requestTimeoutUpperBound`): a
/// slow admission webhook must not keep a write open for ever.
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

impl ResourceRequest<'_> {
    /// Admission attributes of this request (upstream: `admission.Attributes`). A caller that knows the object better
    /// overrides the fields of this result.
    pub fn attributes(&self, operation: Operation, dry_run: bool) -> Attributes<'_> {
        let info = &self.request.info;
        Attributes {
            resource: self.resource,
            subresource: &info.subresource,
            operation,
            verb: info.verb,
            namespace: if self.is_of_namespaces() { &info.namespace } else { self.namespace() },
            name: self.name(),
            user: &self.user,
            dry_run,
            warnings: &self.request.warnings,
            audit: &self.request.audit,
            old: None,
            options: match operation {
                Operation::Create => OperationOptions::Create(&info.query),
                Operation::Update => OperationOptions::Update(&info.query),
                Operation::Delete | Operation::Connect => OperationOptions::None,
            },
            deadline: self.write_deadline(),
            clock: self.request.clock(),
            trackers: LatencyTrackers::of(&self.request),
            reinvocation: None,
        }
    }

    /// Whether the request's resource is the core `namespaces`.
    pub fn is_of_namespaces(&self) -> bool {
        self.resource.plural == "namespaces" && self.resource.kind.group.is_empty()
    }

    /// Deadline of a write. Only a deletecollection may use the request's whole time.
    fn write_deadline(&self) -> Option<Instant> {
        let Received { started, .. } = self.request.received;
        let bound = match self.request.info.verb {
            Verb::DeleteCollection => None,
            _ => started.checked_add(WRITE_TIMEOUT),
        };
        [self.request.deadline, bound].into_iter().flatten().min()
    }
}

impl StoredRequest<'_> {
    /// Runs the mutating admission plug-ins on the object, or on its Scale where the request is for the scale
    /// subresource.
    pub(super) async fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), StatusError> {
        let admission = &self.endpoints.admission;
        let (Some(scale), Some(old)) = (self.scale(), attributes.old) else {
            return admission.admit(attributes, Some(object)).await;
        };
        let old = self.view(old.clone())?;
        let mut view = self.view(object.clone())?;
        admission.admit(&Attributes { old: Some(&old), ..*attributes }, Some(&mut view)).await?;
        scale.set(object, &view);
        Ok(())
    }

    /// Runs the validating admission plug-ins on the object to be stored.
    pub(super) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), StatusError> {
        let admission = &self.endpoints.admission;
        let (Some(_), Some(old)) = (self.scale(), attributes.old) else {
            return admission.validate(attributes, Some(object)).await;
        };
        let (old, view) = (self.view(old.clone())?, self.view(object.clone())?);
        admission.validate(&Attributes { old: Some(&old), ..*attributes }, Some(&view)).await
    }
}
