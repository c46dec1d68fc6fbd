//! Authorization of PodCertificateRequest status updates: the user must have the verb `sign` on the signer. The
//! reference checks this in the kind's strategy, so this plug-in cannot be disabled.

use std::sync::Arc;

use kevel_api::field_error::{FieldError, Path};
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::{Value, equivalent};
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_server::authorization::Authorizer;

use super::{GROUP, may};

/// Plug-in that checks whether the user may sign for the request's signer.
pub struct PodCertificateSigning(pub Arc<dyn Authorizer>);

impl Plugin for PodCertificateSigning {
    fn name(&self) -> &'static str {
        "PodCertificateSigning"
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let status = attributes.subresource == "status"
            && attributes.operation == Operation::Update
            && attributes.concerns(GROUP, "podcertificaterequests");
        let (Some(request), Some(old)) = (object.filter(|_| status), attributes.old) else {
            return ready(Ok(()));
        };
        if equivalent(request.at(&["status"]), old.at(&["status"])) {
            return ready(Ok(()));
        }
        Box::pin(async move {
            let signer = old.str_at(&["spec", "signerName"]);
            if may(&*self.0, attributes.user, "sign", signer).await {
                return Ok(());
            }
            let (user, signer) = (quote(&attributes.user.name), quote(signer));
            let spec = Path::new("spec");
            let error = FieldError::forbidden(
                &spec.child("signerName"),
                format!("User {user} is not permitted to \"sign\" for signer {signer}"),
            );
            let kind = attributes.resource.group_kind();
            Err(StatusError::invalid(&kind, attributes.name, [error]))
        })
    }
}
