//! The page for browsers at `/ui/` (`--ui`).

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::sync::Arc;

use kevel_registry::resource::Resources;
use kevel_registry::user::{ALL_AUTHENTICATED, PRIVILEGED, User};
use kevel_server::authentication::Authenticator;
use kevel_server::authorization::Authorizer;
use kevel_server::chain;
use kevel_server::delegate::Path;
use kevel_server::handler::Handler;
use kevel_ui::{
    Front, ObjectSearch, SEARCH_PATH, SearchAuthorizer, SessionAuthenticator, UiConfig,
};

use super::config::Config;
use crate::options::CompletedOptions;

/// Name of the administrator in the generated kubeconfig.
const ADMINISTRATOR: &str = "kubernetes-admin";

/// Path of the search, if the page is served.
pub fn search(config: &Config, tables: &[Arc<Resources>]) -> Option<Path> {
    let authorizer = config.authorization.authorizer.clone();
    let search = || Arc::new(ObjectSearch::new(tables.to_vec(), authorizer));
    config.options.ui().then(|| Path { path: SEARCH_PATH.to_owned(), handler: search() })
}

/// Lets the chain know users of sessions, and lets them search, if the page is served.
pub fn admit(options: &CompletedOptions, chain: chain::Config) -> chain::Config {
    if !options.ui() {
        return chain;
    }
    let authenticator: Arc<dyn Authenticator> =
        Arc::new(SessionAuthenticator::before(chain.authenticator.clone()));
    let authorizer: Arc<dyn Authorizer> =
        Arc::new(SearchAuthorizer::before(chain.authorizer.clone()));
    chain::Config { authenticator, authorizer, ..chain }
}

/// The page before the chain, if it is served. Codes sign in as the administrator of the generated kubeconfig; without
/// one there are none.
pub fn front(config: &Config, chain: &Arc<dyn Handler>) -> Option<Arc<Front>> {
    let administrator = config.certificates.own.as_ref().map(|_| User {
        name: ADMINISTRATOR.to_owned(),
        groups: vec![PRIVILEGED.to_owned(), ALL_AUTHENTICATED.to_owned()],
        ..User::default()
    });
    let clock = config.options.clock.clone();
    let front = || Front::before(chain.clone(), UiConfig { clock, administrator });
    config.options.ui().then(|| Arc::new(front()))
}

/// Prints codes to sign in with, if standard error is a terminal: never into a file or a pipe.
pub fn use_terminal(front: &Front, address: SocketAddr) {
    if !io::stderr().is_terminal() {
        return;
    }
    let host = match address.ip() {
        ip if ip.is_unspecified() || ip.is_loopback() => "localhost".to_owned(),
        _ => address.ip().to_string(),
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let port = address.port();
    front.with_terminal(move |code| {
        let code = code.reveal();
        eprintln!("To see it:  https://{host}:{port}/ui/  code {code} (once, within 10 minutes)");
    });
}
