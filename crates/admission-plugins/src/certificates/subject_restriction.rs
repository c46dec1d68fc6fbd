//! `CertificateSubjectRestriction` admission plug-in: refuses requests for client certificates of the group
//! `system:masters`.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_registry::user::PRIVILEGED;
use kevel_server::certificates::requested_subject;

use super::{GROUP, REQUESTS};
use crate::Registration;

/// Signer of client certificates that the API server accepts.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Registration of the `CertificateSubjectRestriction` admission plug-in.
pub const REGISTRATION: Registration = Registration::on("CertificateSubjectRestriction", |_| {
    Ok(Arc::new(CertificateSubjectRestriction))
});

/// The `CertificateSubjectRestriction` admission plug-in.
#[derive(Clone, Copy, Debug)]
pub struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let new = attributes.operation == Operation::Create && attributes.is(GROUP, REQUESTS);
        let Some(request) = object.filter(|_| new) else { return ready(Ok(())) };
        let checked = check(request);
        ready(checked.map_err(|error| attributes.forbidden(object, error)))
    }
}

fn check(request: &Value) -> Result<(), String> {
    if request.str_at(&["spec", "signerName"]) != CLIENT_SIGNER {
        return Ok(());
    }
    let mut pem = Vec::new();
    let decoded = base64::decode_into(request.str_at(&["spec", "request"]), &mut pem);
    let decoded = decoded.map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned());
    let subject = decoded.and_then(|()| requested_subject(&pem));
    let subject = subject.map_err(|error| format!("failed to parse CSR: {error}"))?;
    match subject.organizations.iter().any(|group| group == PRIVILEGED) {
        true => {
            Err(format!("use of {CLIENT_SIGNER} signer with {PRIVILEGED} group is not allowed"))
        }
        false => Ok(()),
    }
}
