//! JWT authenticators of a configuration that may change at run time.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kevel_component::future::Pending;
use kevel_server::authentication::{TokenAuthenticated, TokenAuthenticator, TokenUnion};
use kevel_server::certificates::Dynamic;
use kevel_server::egress::EgressSelector;
use tokio::time::{sleep, timeout};

use super::{JwtMetrics, JwtTokens};
use crate::authentication::configuration::{AuthenticationConfiguration, ConfigurationLimits};

/// Interval of checks for changes of the file.
const LOOK: Duration = Duration::from_secs(1);
/// Timeout for the issuers of a new configuration to become healthy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Configuration file, as read at start.
#[derive(Debug)]
pub struct Source {
    /// Text of the file, read again when it changes.
    pub file: Dynamic<Vec<u8>>,
    /// Disallowed issuers.
    pub disallowed_issuers: Vec<String>,
    /// An issuer may name the network that leads to it.
    pub egress_selectors: bool,
}

/// Authenticator of the tokens of all configured issuers.
#[derive(Debug)]
pub struct ConfiguredTokens {
    issuers: ArcSwap<Issuers>,
    algorithms: Vec<String>,
    egress: EgressSelector,
    metrics: Arc<JwtMetrics>,
}

#[derive(Debug)]
struct Issuers {
    configuration: AuthenticationConfiguration,
    members: Vec<Arc<JwtTokens>>,
    union: TokenUnion,
}

impl Issuers {
    fn start(
        configuration: AuthenticationConfiguration,
        algorithms: &[String],
        egress: &EgressSelector,
        metrics: &Arc<JwtMetrics>,
    ) -> Result<Self, String> {
        let start = |jwt| JwtTokens::start(jwt, algorithms, egress, metrics);
        let members = configuration.jwt.iter().map(start);
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let each = members.iter().map(|member| member.clone() as Arc<dyn TokenAuthenticator>);
        let union = TokenUnion::fail_on_error(each.collect());
        Ok(Issuers { configuration, members, union })
    }

    /// Waits until all issuers are healthy.
    async fn healthy(&self) -> Result<(), String> {
        let all = async {
            for member in &self.members {
                member.healthy().await;
            }
        };
        timeout(PATIENCE, all).await.map_err(|_| {
            let problems: Vec<_> = self.members.iter().filter_map(|one| one.problem()).collect();
            problems.join(", ")
        })
    }
}

impl Source {
    fn limits(&self) -> ConfigurationLimits<'_> {
        ConfigurationLimits {
            disallowed_issuers: &self.disallowed_issuers,
            egress_selectors: self.egress_selectors,
        }
    }
}

impl ConfiguredTokens {
    /// Starts the authenticators of a validated configuration. Must be called in a runtime.
    pub fn start(
        configuration: AuthenticationConfiguration,
        algorithms: &[String],
        egress: EgressSelector,
        metrics: Arc<JwtMetrics>,
    ) -> Result<Arc<Self>, String> {
        let issuers = Issuers::start(configuration, algorithms, &egress, &metrics)?;
        let (issuers, algorithms) = (ArcSwap::from_pointee(issuers), algorithms.to_vec());
        Ok(Arc::new(ConfiguredTokens { issuers, algorithms, egress, metrics }))
    }

    /// Follows the file: a changed configuration takes effect when all its issuers are healthy. An invalid one
    /// changes nothing. Ends with the authenticator.
    pub fn follow(self: &Arc<Self>, source: Source) {
        let weak = Arc::downgrade(self);
        let mut seen = source.file.current();
        self.metrics.reloads.loaded(&seen);
        tokio::spawn(async move {
            loop {
                sleep(LOOK).await;
                let Some(tokens) = weak.upgrade() else { return };
                let text = source.file.current();
                if Arc::ptr_eq(&seen, &text) {
                    continue;
                }
                match tokens.change(&text, source.limits()).await {
                    Ok(()) => {
                        tokens.metrics.reloads.succeeded(&text);
                        tracing::info!("reloaded authentication config");
                    }
                    Err(error) => {
                        tokens.metrics.reloads.failed();
                        tracing::error!("failed to reload authentication config: {error}");
                    }
                }
                seen = text;
            }
        });
    }

    async fn change(&self, text: &[u8], limits: ConfigurationLimits<'_>) -> Result<(), String> {
        let configuration = AuthenticationConfiguration::read(text)?;
        configuration.check(limits)?;
        if configuration.anonymous != self.issuers.load().configuration.anonymous {
            return Err("anonymous: Forbidden: changed from initial configuration file".to_owned());
        }
        let issuers = Issuers::start(configuration, &self.algorithms, &self.egress, &self.metrics)?;
        let issuers = Arc::new(issuers);
        issuers.healthy().await?;
        let before = self.issuers.swap(issuers.clone());
        let accepted = |url: &str| issuers.members.iter().any(|member| member.issuer() == url);
        let gone = before.members.iter().filter(|member| !accepted(member.issuer()));
        gone.for_each(|member| self.metrics.forget(member.issuer()));
        Ok(())
    }
}

impl TokenAuthenticator for ConfiguredTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(async move {
            let issuers = self.issuers.load_full();
            issuers.union.authenticate_token(token, audiences).await
        })
    }
}
