//! Who asks, and may they: what the options say of it.

use std::path::Path;
use std::sync::Arc;

use kevel_auth::Rbac;
use kevel_server::authentication::{
    Anonymous, AuthenticatedGroup, Authenticator, BearerToken, ClientCertificate, TokenFile, Union,
};
use kevel_server::authorization::{self, AlwaysAllow, AlwaysDeny, Authorizer, PrivilegedGroups};
use kevel_server::certificates::{CaBundle, ClientVerifier, Dynamic};

use crate::options::CompletedOptions;

/// Those who know users, in the order in which they are asked.
pub fn authenticator(
    options: &CompletedOptions,
    client_ca: Option<&Arc<Dynamic<CaBundle>>>,
) -> Result<Arc<dyn Authenticator>, String> {
    let flags = &options.options.authentication;
    let mut known: Vec<Arc<dyn Authenticator>> = Vec::new();
    if let Some(roots) = client_ca {
        let verifier = ClientVerifier::new(roots.clone());
        known.push(Arc::new(ClientCertificate::new(move |chain| verifier.verify(chain))));
    }
    if !flags.token_auth_file.is_empty() {
        let tokens = TokenFile::load(Path::new(&flags.token_auth_file))?;
        known.push(Arc::new(BearerToken::new(vec![Arc::new(tokens)])));
    }
    let known: Arc<dyn Authenticator> = Arc::new(AuthenticatedGroup(Union::new(known)));
    let mut all = vec![known];
    // Without flags nobody is let in for not saying who they are, so they may be told so.
    if flags.anonymous_auth || (alone(options) && !options.options.given.has("anonymous_auth")) {
        all.push(Arc::new(Anonymous::default()));
    }
    Ok(Arc::new(Union::fail_on_error(all)))
}

/// Whether the server was started without a word about permission, on keys of its own.
fn alone(options: &CompletedOptions) -> bool {
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
