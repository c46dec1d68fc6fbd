//! `CertificateApproval` admission plug-in: approving a CertificateSigningRequest needs the verb `approve` on its
//! signer.

use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_server::authorization::Authorizer;

use super::{GROUP, REQUESTS, may};
use crate::Registration;

/// Registration of the `CertificateApproval` admission plug-in.
pub const REGISTRATION: Registration = Registration::on("CertificateApproval", |context| {
    Ok(Arc::new(CertificateApproval(context.authorizer.clone())))
});

/// The `CertificateApproval` admission plug-in.
pub struct CertificateApproval(pub Arc<dyn Authorizer>);

impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let approval = attributes.subresource == "approval" && attributes.concerns(GROUP, REQUESTS);
        if !approval || attributes.operation != Operation::Update {
            return ready(Ok(()));
        }
        Box::pin(async move {
            let signer = attributes.old.map_or("", |old| old.str_at(&["spec", "signerName"]));
            if may(&*self.0, attributes.user, "approve", signer).await {
                return Ok(());
            }
            let signer = quote(signer);
            let error = format!("user not permitted to approve requests with signerName {signer}");
            Err(attributes.forbidden(object, error))
        })
    }
}
