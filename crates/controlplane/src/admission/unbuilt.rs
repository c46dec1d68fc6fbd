//! The plug-ins of the reference that this server does not have yet. Who asks for one by name is
//! refused; of those that are on by default, the objects that they go by carry a warning
//! (`unenforced`).

use super::Registration;

/// `ImagePolicyWebhook`: somebody else says which images may be used.
pub const IMAGE_POLICY_WEBHOOK: Registration = Registration::unbuilt("ImagePolicyWebhook", false);

/// `MutatingAdmissionWebhook`: objects are changed by somebody else.
pub const MUTATING_ADMISSION_WEBHOOK: Registration =
    Registration::unbuilt("MutatingAdmissionWebhook", true);

/// `ValidatingAdmissionWebhook`: objects are refused by somebody else.
pub const VALIDATING_ADMISSION_WEBHOOK: Registration =
    Registration::unbuilt("ValidatingAdmissionWebhook", true);
