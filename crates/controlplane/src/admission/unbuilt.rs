//! The plug-ins of the reference that this server does not have yet. Who asks for one by name is
//! refused.

use super::Registration;

/// `ImagePolicyWebhook`: somebody else says which images may be used.
pub const IMAGE_POLICY_WEBHOOK: Registration = Registration::unbuilt("ImagePolicyWebhook", false);
