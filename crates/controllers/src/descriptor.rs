//! Descriptors of the controllers.

use kevel_component::future::Pending;
use kevel_features::Feature;

use crate::context::ControllerContext;
pub use crate::unavailable::Unavailable;
use crate::{CONTROLLERS, names};

/// A controller, which runs until it is dropped.
pub type ControllerLoop = Pending<'static, ()>;

/// Descriptor of a controller (upstream: `ControllerDescriptor`). Its aliases, and whether `*` includes it, are in the
/// table of known names.
pub struct Descriptor {
    /// Canonical name: `namespace-controller`.
    pub name: &'static str,
    /// Service account that the controller acts as; the bootstrap policy has a role for it. Empty for the controller
    /// manager's own user.
    pub account: &'static str,
    /// Feature gate that must be on.
    pub gate: Option<Feature>,
    /// Builds the controller: each time that the controllers start.
    pub build: fn(&ControllerContext) -> Result<ControllerLoop, Unavailable>,
}

impl std::fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A descriptor that does not fit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// kube-controller-manager has no controller of that name.
    #[error("controller {0} is not in the list of known controllers")]
    Unknown(&'static str),
    /// Two descriptors have one name.
    #[error("controller {0} was registered twice")]
    Twice(&'static str),
    /// The bootstrap policy has no role for the service account.
    #[error("controller {name} has no role system:controller:{account}")]
    NoRole {
        /// Name of the controller.
        name: &'static str,
        /// Its service account.
        account: &'static str,
    },
}

/// Checks that all descriptors fit.
pub fn check() -> Result<(), DescriptorError> {
    for (position, &Descriptor { name, account, .. }) in CONTROLLERS.iter().enumerate() {
        if !names::KNOWN.iter().any(|known| known.name == name) {
            return Err(DescriptorError::Unknown(name));
        }
        if CONTROLLERS.iter().skip(position + 1).any(|other| other.name == name) {
            return Err(DescriptorError::Twice(name));
        }
        if !account.is_empty() && !kevel_auth::bootstrap::has_controller(account) {
            return Err(DescriptorError::NoRole { name, account });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_descriptors_fit() {
        assert_eq!(super::check(), Ok(()));
    }
}
