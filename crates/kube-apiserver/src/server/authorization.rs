//! Who may do what: what the options say of it.

use std::sync::Arc;

use kevel_auth::Rbac;
use kevel_server::authorization::{self, AlwaysAllow, AlwaysDeny, Authorizer, PrivilegedGroups};

use crate::options::CompletedOptions;

/// Whether the server was started without a word about permission, on keys of its own.
pub fn alone(options: &CompletedOptions) -> bool {
    let given = &options.options.given;
    options.own_pki.is_some()
        && !given.has("authorization_mode")
        && !given.has("authorization_config")
}

/// Whether roles and bindings decide.
pub fn uses_rbac(options: &CompletedOptions) -> bool {
    alone(options) || options.options.authorization.authorization_mode.0.iter().any(|m| m == "RBAC")
}

/// Those who decide, in the order in which they are asked. A mode that is not built yet is refused:
/// a server must not start with less than it was asked for.
pub fn authorizer(
    options: &CompletedOptions,
    rbac: &Arc<Rbac>,
) -> Result<Arc<dyn Authorizer>, String> {
    let mut members: Vec<Arc<dyn Authorizer>> = vec![Arc::new(PrivilegedGroups::default())];
    // A server that was started without a word about permission goes by the roles.
    if alone(options) {
        members.push(rbac.clone());
        return Ok(Arc::new(authorization::Union::new(members)));
    }
    for mode in &options.options.authorization.authorization_mode.0 {
        members.push(match mode.as_str() {
            "AlwaysAllow" => Arc::new(AlwaysAllow),
            "AlwaysDeny" => Arc::new(AlwaysDeny),
            "RBAC" => rbac.clone(),
            other => return Err(format!("--authorization-mode {other} is not built yet")),
        });
    }
    Ok(Arc::new(authorization::Union::new(members)))
}
