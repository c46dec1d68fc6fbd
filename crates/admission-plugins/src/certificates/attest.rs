//! `ClusterTrustBundleAttest`: who speaks for a signer says what it signs with.

use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Plugin, ready};
use kevel_server::authorization::Authorizer;

use super::super::Context;
use super::{GROUP, may};
use crate::Registration;
use kevel_features::Feature;

/// `ClusterTrustBundleAttest`, as the command line knows it.
pub const REGISTRATION: Registration = Registration::on("ClusterTrustBundleAttest", |context| {
    Ok(Arc::new(ClusterTrustBundleAttest::new(context)))
});

/// The admission plug-in of that name.
pub struct ClusterTrustBundleAttest {
    authorizer: Arc<dyn Authorizer>,
    /// `ClusterTrustBundle`
    enabled: bool,
}

impl ClusterTrustBundleAttest {
    pub fn new(context: &Context<'_>) -> Self {
        let enabled = (context.feature)(Feature::ClusterTrustBundle);
        ClusterTrustBundleAttest { authorizer: context.authorizer.clone(), enabled }
    }
}

impl Plugin for ClusterTrustBundleAttest {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let signer = object.map_or("", |bundle| bundle.str_at(&["spec", "signerName"]));
        if !self.enabled
            || signer.is_empty()
            || !attributes.concerns(GROUP, "clustertrustbundles")
            || object.is_some_and(|bundle| attributes.only_collected(bundle))
        {
            return ready(Ok(()));
        }
        Box::pin(async move {
            if may(&*self.authorizer, attributes.user, "attest", signer).await {
                return Ok(());
            }
            let signer = quote(signer);
            let error = format!("user not permitted to attest for signerName {signer}");
            Err(attributes.forbidden(object, error))
        })
    }
}
