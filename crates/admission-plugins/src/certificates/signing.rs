//! `CertificateSigning` admission plug-in: issuing a certificate needs the verb `sign` on the request's signer.

use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_server::authorization::Authorizer;

use super::{GROUP, REQUESTS, may};
use crate::Registration;

/// Registration of the `CertificateSigning` admission plug-in.
pub const REGISTRATION: Registration = Registration::on("CertificateSigning", |context| {
    Ok(Arc::new(CertificateSigning(context.authorizer.clone())))
});

/// The `CertificateSigning` admission plug-in.
pub struct CertificateSigning(pub Arc<dyn Authorizer>);

impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let status = attributes.subresource == "status" && attributes.concerns(GROUP, REQUESTS);
        let (Some(request), Some(old)) = (object, attributes.old) else { return ready(Ok(())) };
        let same = |field: &str| {
            let part = |request: &Value| {
                request.at(&["status", field]).filter(|part| !part.is_empty()).cloned()
            };
            part(request) == part(old)
        };
        if !status
            || attributes.operation != Operation::Update
            || (same("certificate") && same("conditions"))
        {
            return ready(Ok(()));
        }
        Box::pin(async move {
            let signer = old.str_at(&["spec", "signerName"]);
            if may(&*self.0, attributes.user, "sign", signer).await {
                return Ok(());
            }
            let signer = quote(signer);
            let error = format!("user not permitted to sign requests with signerName {signer}");
            Err(attributes.forbidden(object, error))
        })
    }
}
