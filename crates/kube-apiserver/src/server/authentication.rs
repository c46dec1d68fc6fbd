//! Authentication, from the options.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kevel_auth::authentication::cluster_info::{self, ClusterInfo};
use kevel_auth::authentication::configuration::AnonymousConfiguration;
use kevel_auth::authentication::{
    BootstrapTokens, RemoveUserHeaders, RequestHeader, RequestHeaders, TokenCache,
    TokenCacheMetrics, TokenCacheTtls, TokenWebhook,
};
use kevel_auth::jose::{PrivateKey, PublicKey};
use kevel_auth::reviews::{SelfSubjectReview, TokenReview};
use kevel_auth::service_account::{
    BoundTokens, CONFIGURATION_PATH, EXTENDED, ExternalSigner, Issuer, JWKS_PATH, Keys,
    LegacyTokens, Objects, OpenIdMetadata, Signer, TokenRequest, TokenUses, Verifier, tracking,
};
use kevel_clock::Clock;
use kevel_component::future::Pending;
use kevel_controller_runtime::Client;
use kevel_controlplane::Creaters;
use kevel_features::Feature;
use kevel_registry::storages::Storages;
use kevel_server::authentication::{
    Anonymous, AudienceAgnostic, AuthenticatedGroup, Authenticator, BearerToken, ClientCertificate,
    TokenAuthenticator, TokenFile, TokenUnion, Union, WebSocketToken,
};
use kevel_server::certificates::{CaBundle, ClientVerifier, Dynamic};
use kevel_server::delegate;
use kevel_server::egress::{EgressSelector, EgressType};
use kevel_server::handler::Handler;
use kevel_server::metrics::Metrics;
use kevel_server::webhook;

use super::certificates::Certificates;
use super::config::duration;
use super::jwt::Jwt;
use crate::options::{self, CompletedOptions};

/// Time for which the user of a token is cached.
const REMEMBERED: TokenCacheTtls =
    TokenCacheTtls { success: Duration::from_secs(10), failure: Duration::ZERO, errors: true };

/// The configured authenticators, and the objects and issuers that they share with controllers.
pub struct Authentication {
    /// Union of all authenticators.
    pub authenticator: Arc<dyn Authenticator>,
    /// Authenticators of bearer tokens.
    tokens: Arc<dyn TokenAuthenticator>,
    /// Audiences of this server.
    audiences: Vec<String>,
    /// Objects to which service-account tokens are bound.
    objects: Arc<Objects>,
    keys: Keys,
    /// Issuer of service-account tokens, if a signing key is configured.
    issuer: Option<Arc<Issuer>>,
}

/// A controller, and the name of the post-start hook that starts it.
pub type Controller = (&'static str, Pending<'static, ()>);

impl Authentication {
    /// Authenticators that the flags configure. `client` records uses of tokens.
    pub async fn new(
        options: &CompletedOptions,
        certificates: &Certificates,
        storages: &Storages,
        client: &Client,
        egress: &EgressSelector,
        metrics: &Metrics,
    ) -> Result<Self, String> {
        let flags = &options.flags.authentication;
        let audiences = flags.api_audiences.0.clone();
        let (keys, issuer) = match external_signer(options, metrics).await? {
            Some(signer) => {
                (Keys::External(signer.clone()), Some(external_issuer(options, signer).await?))
            }
            None => {
                let keys = public_keys(&flags.service_account_key_file)?;
                (Keys::Files(keys.into()), issuer(options)?)
            }
        };
        let verifier = Verifier {
            issuers: flags.service_account_issuer.0.clone(),
            keys: keys.clone(),
            audiences: audiences.clone(),
            uses: Arc::new(TokenUses::new(metrics)),
        };
        let objects = Arc::new(Objects::of(storages)?);
        let lookup = flags.service_account_lookup;
        let legacy = LegacyTokens::new(verifier.clone(), objects.clone(), lookup, client.clone());
        let bound = BoundTokens::new(verifier, objects.clone());
        let jwt = Jwt::new(options)?;
        let anonymous = jwt.anonymous(options);
        let service_accounts: [Arc<dyn TokenAuthenticator>; 2] =
            [Arc::new(legacy), Arc::new(bound)];
        let tokens = tokens(options, &objects, service_accounts, jwt, egress, metrics)?;
        let authenticator =
            authenticator(options, certificates, tokens.clone(), anonymous, metrics);
        let issuer = issuer.map(Arc::new);
        Ok(Authentication { authenticator, tokens, audiences, objects, keys, issuer })
    }

    /// Adds the creaters of reviews and tokens.
    pub fn add_creaters(&self, creaters: &mut Creaters) {
        let group = "authentication.k8s.io";
        let review = TokenReview::new(self.tokens.clone(), &self.audiences);
        creaters.add(group, "tokenreviews", review);
        creaters.add(group, "selfsubjectreviews", SelfSubjectReview);
        let (group, path) = ("", "serviceaccounts/token");
        match &self.issuer {
            Some(issuer) => {
                let request = TokenRequest::new(issuer.clone(), self.objects.clone());
                creaters.add(group, path, request);
            }
            None => creaters.leave_out(group, path),
        }
    }

    /// Paths of OpenID discovery, by which others verify tokens of this server. None unless the issuer is a URL at
    /// which they can be read.
    pub fn open_id_paths(&self, options: &CompletedOptions) -> Vec<delegate::Path> {
        let flags = &options.flags.authentication;
        let jwks_uri = match flags.service_account_jwks_uri.as_str() {
            "" => {
                let port = options.flags.secure_serving.secure_port;
                let host = match options.external_host.as_str() {
                    host if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
                    host => host.to_owned(),
                };
                format!("https://{host}:{port}{JWKS_PATH}")
            }
            uri => uri.to_owned(),
        };
        let issuer = flags.service_account_issuer.first().map_or("", String::as_str);
        let documents = match OpenIdMetadata::new(issuer, &jwks_uri, &self.keys) {
            Ok(documents) => documents,
            Err(error) => {
                tracing::info!("not serving the issuer's OpenID metadata: {error}");
                return Vec::new();
            }
        };
        let paths = [CONFIGURATION_PATH, JWKS_PATH].into_iter().zip(documents);
        let paths = paths.flat_map(|(path, document)| {
            let handler: Arc<dyn Handler> = Arc::new(document.route());
            [path.to_owned(), format!("{path}/")]
                .map(|path| delegate::Path { path, handler: handler.clone() })
        });
        paths.collect()
    }

    /// Controllers of authentication: cluster information, uses of tokens.
    pub fn controllers(
        &self,
        options: &CompletedOptions,
        certificates: &Certificates,
        storages: &Storages,
        client: &Client,
    ) -> Result<Vec<Controller>, String> {
        let config_maps = storages.required("", "configmaps")?;
        let pem = |roots: &Option<Arc<Dynamic<CaBundle>>>| {
            let roots = roots.clone();
            Box::new(move || roots.as_ref().map(|roots| roots.current().pem().clone())) as Box<_>
        };
        let info = ClusterInfo {
            client_ca: pem(&certificates.client_ca),
            request_header_ca: pem(&certificates.request_header_ca),
            headers: request_headers(options),
            allowed_names: options.flags.authentication.requestheader_allowed_names.0.clone(),
        };
        let info = cluster_info::controller(client.clone(), config_maps.clone(), info);
        let tracking = tracking::controller(client.clone(), config_maps);
        Ok(vec![(cluster_info::HOOK, Box::pin(info)), (tracking::HOOK, Box::pin(tracking))])
    }
}

/// Authenticators of tokens in their order: local ones before remote ones.
fn tokens(
    options: &CompletedOptions,
    objects: &Arc<Objects>,
    service_accounts: [Arc<dyn TokenAuthenticator>; 2],
    jwt: Jwt,
    egress: &EgressSelector,
    metrics: &Metrics,
) -> Result<Arc<dyn TokenAuthenticator>, String> {
    let jwt = jwt.start(options, egress.clone(), metrics)?;
    let metrics = Arc::new(TokenCacheMetrics::new(metrics));
    let flags = &options.flags.authentication;
    let audiences = &flags.api_audiences.0;
    let mut members: Vec<Arc<dyn TokenAuthenticator>> = Vec::new();
    if !flags.token_auth_file.is_empty() {
        let file = TokenFile::load(Path::new(&flags.token_auth_file))?;
        members.push(Arc::new(AudienceAgnostic::new(file, audiences)));
    }
    members.extend(service_accounts);
    if flags.enable_bootstrap_token_auth {
        let bootstrap = BootstrapTokens::new(objects.clone());
        members.push(Arc::new(AudienceAgnostic::new(bootstrap, audiences)));
    }
    // After those of service accounts: about tokens of others it may have to ask their issuers.
    members.push(Arc::new(AudienceAgnostic::new(jwt, audiences)));
    if !flags.authentication_token_webhook_config_file.is_empty() {
        members.push(Arc::new(token_webhook(flags, egress, metrics.clone(), &options.clock)?));
    }
    let union = Arc::new(TokenUnion::new(members));
    Ok(Arc::new(TokenCache::new(union, REMEMBERED, metrics, &options.clock)?))
}

/// The webhook that knows tokens, with its answers remembered.
pub(super) fn token_webhook(
    flags: &options::Authentication,
    egress: &EgressSelector,
    metrics: Arc<TokenCacheMetrics>,
    clock: &Clock,
) -> Result<TokenCache, String> {
    let file = Path::new(&flags.authentication_token_webhook_config_file);
    let dialer = egress.dialer(EgressType::ControlPlane);
    let endpoint = webhook::Endpoint::from_kubeconfig(file)?;
    let client = webhook::Client::new(webhook::Endpoint { dialer, ..endpoint })?;
    let version = flags.authentication_token_webhook_version.parse()?;
    let webhook = TokenWebhook::new(client, version, &flags.api_audiences.0);
    let time = duration(flags.authentication_token_webhook_cache_ttl);
    let remembered = TokenCacheTtls { success: time, failure: time, errors: false };
    TokenCache::new(Arc::new(webhook), remembered, metrics, clock)
}

/// Authenticators in their order.
fn authenticator(
    options: &CompletedOptions,
    certificates: &Certificates,
    tokens: Arc<dyn TokenAuthenticator>,
    anonymous: AnonymousConfiguration,
    metrics: &Metrics,
) -> Arc<dyn Authenticator> {
    let flags = &options.flags.authentication;
    let headers = request_headers(options);
    let mut known: Vec<Arc<dyn Authenticator>> = Vec::new();
    if let Some(roots) = &certificates.request_header_ca {
        let verifier = ClientVerifier::new(roots.clone());
        let names = &flags.requestheader_allowed_names.0;
        let clock = options.clock.clone();
        let verify = move |chain: &[_]| verifier.verify(chain, clock.now());
        known.push(Arc::new(RequestHeader::new(headers.clone(), names, verify)));
    }
    if let Some(roots) = &certificates.client_ca {
        let verifier = ClientVerifier::new(roots.clone());
        let clock = options.clock.clone();
        let verify = move |chain: &[_]| verifier.verify(chain, clock.now());
        let uids = options.feature_gates.enabled(Feature::AllowParsingUserUIDFromCertAuth);
        let certificate = ClientCertificate::new(verify).with_uids(uids);
        known.push(Arc::new(certificate.measured(metrics)));
    }
    let bearer = BearerToken::new(tokens, &flags.api_audiences.0);
    known.push(Arc::new(bearer.clone()));
    known.push(Arc::new(WebSocketToken(bearer)));
    let known: Arc<dyn Authenticator> = Arc::new(AuthenticatedGroup(Union::new(known)));
    let mut all = vec![known];
    if anonymous.enabled {
        all.push(Arc::new(Anonymous { paths: anonymous.paths.into_iter().collect() }));
    }
    Arc::new(RemoveUserHeaders { inner: Union::fail_on_error(all), headers })
}

fn request_headers(options: &CompletedOptions) -> RequestHeaders {
    let flags = &options.flags.authentication;
    RequestHeaders {
        username: flags.requestheader_username_headers.0.clone(),
        uid: flags.requestheader_uid_headers.0.clone(),
        group: flags.requestheader_group_headers.0.clone(),
        extra_prefix: flags.requestheader_extra_headers_prefix.0.clone(),
    }
}

/// The keys that verify service accounts' tokens.
fn public_keys(files: &[String]) -> Result<Vec<PublicKey>, String> {
    let mut keys = Vec::new();
    for file in files {
        let error = |error: String| format!("error reading public key file {file}: {error}");
        let pem = std::fs::read(file).map_err(|problem| error(problem.to_string()))?;
        keys.extend(PublicKey::all_from_pem(&pem).map_err(error)?);
    }
    Ok(keys)
}

/// Issuer of service-account tokens, if a signing key is configured.
fn issuer(options: &CompletedOptions) -> Result<Option<Issuer>, String> {
    let flags = &options.flags.authentication;
    let file = &options.flags.misc.service_account_signing_key_file;
    let Some(url) = flags.service_account_issuer.first().filter(|_| !file.is_empty()) else {
        return Ok(None);
    };
    let error = |error: String| format!("failed to parse service-account-issuer-key-file: {error}");
    let pem = std::fs::read(file).map_err(|problem| error(format!("open {file}: {problem}")))?;
    let key = PrivateKey::from_pem(&pem)
        .map_err(|problem| error(format!("error reading private key file {file}: {problem}")))?;
    Ok(Some(Issuer {
        url: url.clone(),
        signer: Signer::Key(Box::new(key)),
        audiences: flags.api_audiences.0.clone(),
        max_expiration: max_expiration(options),
        extend_expiration: flags.service_account_extend_token_expiration,
        extended_expiration: EXTENDED,
        check_uid: options.feature_gates.enabled(Feature::TokenRequestServiceAccountUIDValidation),
    }))
}

/// The longest validity of tokens that the flags allow, in seconds; 0 if they say nothing.
fn max_expiration(options: &CompletedOptions) -> i64 {
    let flags = &options.flags.authentication;
    let max = duration(flags.service_account_max_token_expiration).as_secs();
    i64::try_from(max).unwrap_or(i64::MAX)
}

/// External signer of service-account tokens, if one is configured.
async fn external_signer(
    options: &CompletedOptions,
    metrics: &Metrics,
) -> Result<Option<Arc<ExternalSigner>>, String> {
    let socket = options.flags.misc.service_account_signing_endpoint.as_str();
    let issuer = options.flags.authentication.service_account_issuer.first();
    if socket.is_empty() || issuer.is_none_or(String::is_empty) {
        return Ok(None);
    }
    let signer = ExternalSigner::connect(socket, metrics, &options.clock).await;
    signer.map(Some).map_err(|error| format!("while setting up external-jwt-signer: {error}"))
}

/// The issuer of such tokens. It promises no more than its signer does.
async fn external_issuer(
    options: &CompletedOptions,
    signer: Arc<ExternalSigner>,
) -> Result<Issuer, String> {
    /// The shortest validity that may be asked for, in seconds.
    const SHORTEST: i64 = 10 * 60;
    let flags = &options.flags.authentication;
    let longest = signer.max_expiration().await;
    let longest =
        longest.map_err(|error| format!("while setting up external-jwt-signer: {error}"))?;
    if longest < SHORTEST {
        return Err(format!(
            "max token life supported by external-jwt-signer ({longest}s) is less than acceptable \
             (min {SHORTEST}s)"
        ));
    }
    let max = max_expiration(options);
    if max > longest {
        return Err(format!(
            "service-account-max-token-expiration cannot be set longer than the token expiration \
             supported by service-account-signing-endpoint: {} > {}",
            shown_seconds(max),
            shown_seconds(longest)
        ));
    }
    Ok(Issuer {
        url: flags.service_account_issuer.first().cloned().unwrap_or_default(),
        signer: Signer::External(signer),
        audiences: flags.api_audiences.0.clone(),
        max_expiration: if max == 0 { longest } else { max },
        extend_expiration: flags.service_account_extend_token_expiration,
        extended_expiration: EXTENDED.min(longest),
        check_uid: options.feature_gates.enabled(Feature::TokenRequestServiceAccountUIDValidation),
    })
}

fn shown_seconds(seconds: i64) -> kevel_api::duration::Duration {
    kevel_api::duration::Duration(seconds.saturating_mul(1_000_000_000))
}
