//! What plug-ins are told about a write.

use std::time::{Duration, Instant};

use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::{ResourceRequest, StoredRequest};
use crate::admission::{Attributes, Operation, OperationOptions};
use crate::latency_trackers::LatencyTrackers;
use crate::request::Received;
use crate::verb::Verb;

/// How long a write may take, whatever the request allows (`requestTimeoutUpperBound`): who is asked about it must not
/// keep it from ever being done.
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

impl ResourceRequest<'_> {
    /// What admission is told about the write that is asked for. Who knows better which object it
    /// concerns says so over this.
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

    /// Whether the request is about namespaces themselves.
    pub fn is_of_namespaces(&self) -> bool {
        self.resource.plural == "namespaces" && self.resource.kind.group.is_empty()
    }

    /// When a write must be through. Many deletions at once may take as long as any request.
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
    /// Lets the plug-ins change what the client may write here.
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

    /// Shows the plug-ins what will be stored.
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
