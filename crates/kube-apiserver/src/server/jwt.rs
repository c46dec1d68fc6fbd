//! JSON Web Token authenticators, from the options or the file that they name.

use std::path::Path;
use std::sync::Arc;

use kevel_auth::authentication::configuration::{
    AnonymousConfiguration, AuthenticationConfiguration, ClaimMapping, ClaimValidationRule,
    ConfigurationLimits, IssuerConfiguration, JwtConfiguration,
};
use kevel_auth::authentication::jwt::{ConfiguredTokens, JwtMetrics, SIGNING_ALGORITHMS, Source};
use kevel_features::Feature;
use kevel_server::certificates::Dynamic;
use kevel_server::egress::EgressSelector;
use kevel_server::metrics::Metrics;

use super::authorization::alone;
use crate::options::CompletedOptions;

/// The configuration, and where it comes from.
#[derive(Debug)]
pub struct Jwt {
    configuration: AuthenticationConfiguration,
    algorithms: Vec<String>,
    file: Option<Dynamic<Vec<u8>>>,
}

impl Jwt {
    pub fn new(options: &CompletedOptions) -> Result<Self, String> {
        let flags = &options.flags.authentication;
        let jwt = match flags.authentication_config.as_str() {
            "" => Jwt {
                configuration: from_flags(options)?,
                algorithms: flags.oidc_signing_algs.0.clone(),
                file: None,
            },
            name => from_file(name).map_err(|error| {
                format!("failed to load authentication configuration from file {name:?}: {error}")
            })?,
        };
        if jwt.configuration.anonymous.is_some() && options.flags.given.has("anonymous_auth") {
            return Err(
                "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous \
                        field is configured in authentication configuration file"
                    .to_owned(),
            );
        }
        let checked = jwt.configuration.check(ConfigurationLimits {
            disallowed_issuers: &flags.service_account_issuer,
            egress_selectors: egress_selectors(options),
        });
        checked.map_err(|error| format!("invalid authentication configuration: {error}"))?;
        Ok(jwt)
    }

    /// Configuration of anonymous requests.
    pub fn anonymous(&self, options: &CompletedOptions) -> AnonymousConfiguration {
        let flags = &options.flags.authentication;
        self.configuration.anonymous.clone().unwrap_or_else(|| AnonymousConfiguration {
            // Without flags anonymous requests are authorized for nothing, so that clients get 401 instead of 403.
            enabled: flags.anonymous_auth
                || (alone(options) && !options.flags.given.has("anonymous_auth")),
            paths: Vec::new(),
        })
    }

    /// Authenticators of the tokens; a configuration file is watched.
    pub fn start(
        self,
        options: &CompletedOptions,
        egress: EgressSelector,
        metrics: &Metrics,
    ) -> Result<Arc<ConfiguredTokens>, String> {
        let key_sets = Feature::StructuredAuthenticationConfigurationJWKSMetrics;
        let key_sets = options.feature_gates.enabled(key_sets);
        let metrics = Arc::new(JwtMetrics::new(metrics, &options.server_id(), key_sets));
        let tokens =
            ConfiguredTokens::start(self.configuration, &self.algorithms, egress, metrics)?;
        if let Some(file) = self.file {
            let issuers = &options.flags.authentication.service_account_issuer;
            tokens.follow(Source {
                file,
                disallowed_issuers: issuers.0.clone(),
                egress_selectors: egress_selectors(options),
            });
        }
        Ok(tokens)
    }
}

fn egress_selectors(options: &CompletedOptions) -> bool {
    let gate = Feature::StructuredAuthenticationConfigurationEgressSelector;
    options.feature_gates.enabled(gate)
}

fn from_file(name: &str) -> Result<Jwt, String> {
    let file = Dynamic::load("authentication-config", &[Path::new(name)], |files| {
        Ok(files.first().cloned().unwrap_or_default())
    })?;
    Ok(Jwt {
        configuration: AuthenticationConfiguration::read(&file.current())?,
        algorithms: SIGNING_ALGORITHMS.map(str::to_owned).to_vec(),
        file: Some(file),
    })
}

/// The one issuer that flags can name.
fn from_flags(options: &CompletedOptions) -> Result<AuthenticationConfiguration, String> {
    let flags = &options.flags.authentication;
    let (url, client) = (&flags.oidc_issuer_url, &flags.oidc_client_id);
    if url.is_empty() || client.is_empty() {
        return Ok(AuthenticationConfiguration::default());
    }
    let username_prefix = match (flags.oidc_username_prefix.as_str(), &flags.oidc_username_claim) {
        // Names of different issuers must not be taken for each other; addresses are unique.
        ("", claim) if claim != "email" => format!("{url}#"),
        ("-", _) => String::new(),
        (prefix, _) => prefix.to_owned(),
    };
    let certificate_authority = match flags.oidc_ca_file.as_str() {
        "" => String::new(),
        file => std::fs::read_to_string(file).map_err(|error| format!("open {file}: {error}"))?,
    };
    let mapping = |claim: &str, prefix: String| match claim {
        "" => ClaimMapping::default(),
        claim => ClaimMapping {
            claim: claim.to_owned(),
            prefix: Some(prefix),
            ..ClaimMapping::default()
        },
    };
    let rules = flags.oidc_required_claim.0.iter().map(|(claim, value)| ClaimValidationRule {
        claim: claim.clone(),
        required_value: value.clone(),
        ..ClaimValidationRule::default()
    });
    let jwt = JwtConfiguration {
        issuer: IssuerConfiguration {
            url: url.clone(),
            certificate_authority,
            audiences: vec![client.clone()],
            ..IssuerConfiguration::default()
        },
        claim_validation_rules: rules.collect(),
        username: mapping(&flags.oidc_username_claim, username_prefix),
        groups: mapping(&flags.oidc_groups_claim, flags.oidc_groups_prefix.clone()),
        ..JwtConfiguration::default()
    };
    Ok(AuthenticationConfiguration { jwt: vec![jwt], anonymous: None })
}
