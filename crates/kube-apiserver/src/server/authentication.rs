//! Who asks: what the options say of it.

use std::path::Path;
use std::sync::Arc;

use kevel_server::authentication::{
    Anonymous, AuthenticatedGroup, Authenticator, BearerToken, ClientCertificate, TokenFile, Union,
};
use kevel_server::certificates::{CaBundle, ClientVerifier, Dynamic};

use super::authorization::alone;
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
        known.push(Arc::new(BearerToken::new(Arc::new(tokens), &[])));
    }
    let known: Arc<dyn Authenticator> = Arc::new(AuthenticatedGroup(Union::new(known)));
    let mut all = vec![known];
    // Without flags nobody is let in for not saying who they are, so they may be told so.
    if flags.anonymous_auth || (alone(options) && !options.options.given.has("anonymous_auth")) {
        all.push(Arc::new(Anonymous::default()));
    }
    Ok(Arc::new(Union::fail_on_error(all)))
}
