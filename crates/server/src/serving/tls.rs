//! TLS: certificates by server name (SNI).

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kevel_api::name::is_dns1123_subdomain;
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DistinguishedName, ServerConfig, SupportedProtocolVersion};

use super::cipher_suites::{provider, versions};
use super::client_certificate::AnyClientCertificate;
use kevel_pki::{CaBundle, Certificate, Dynamic, certified_key};

/// TLS options.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// `--tls-min-version`; empty means 1.2.
    pub min_version: String,
    /// `--tls-cipher-suites`; empty means all.
    pub cipher_suites: Vec<String>,
    /// `--tls-curve-preferences`; empty means all.
    pub curve_preferences: Vec<i32>,
    /// `--disable-http2-serving`.
    pub disable_http2: bool,
}

/// Files of a certificate and its key, and the server names that they are for.
#[derive(Clone, Debug)]
pub struct ServingCertificate {
    /// Certificate chain.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Names of `--tls-sni-cert-key`, whose first label may be `*`, and addresses. Empty means the names in the
    /// certificate.
    pub names: Vec<String>,
}

/// Serving certificates of a server. These, and the client CAs, are reloaded when their files change.
#[derive(Debug)]
pub struct Tls {
    versions: &'static [&'static SupportedProtocolVersion],
    provider: Arc<CryptoProvider>,
    disable_http2: bool,
    certificates: Vec<Dynamic<Pair>>,
    client_cas: Vec<Arc<Dynamic<CaBundle>>>,
    built: ArcSwap<Built>,
}

/// A certificate with its key, and its server names.
#[derive(Debug)]
struct Pair {
    key: Arc<CertifiedKey>,
    names: Vec<String>,
    explicit: bool,
}

/// Contents of the files when last read, and the configuration made from them.
#[derive(Debug)]
struct Built {
    certificates: Vec<Arc<Pair>>,
    client_cas: Vec<Arc<CaBundle>>,
    default: Arc<ServerConfig>,
    named: HashMap<String, Arc<ServerConfig>>,
}

impl Tls {
    /// Loads the certificates: the first is the default, the others are chosen by server name (SNI). `client_cas` are
    /// the CAs of client certificates, which are requested only if there are any.
    pub fn new(
        options: &TlsOptions,
        certificates: &[ServingCertificate],
        client_cas: Vec<Arc<Dynamic<CaBundle>>>,
    ) -> Result<Self, String> {
        let provider = Arc::new(provider(&options.cipher_suites, &options.curve_preferences)?);
        let load = |serving: &ServingCertificate| {
            let (names, provider) = (serving.names.clone(), provider.clone());
            let paths = [&serving.certificate, &serving.key];
            Dynamic::load("serving-cert", &paths, move |files| match files {
                [certificate, key] => Pair::new(certificate, key, &names, &provider),
                _ => Err("a certificate and a key are needed".to_owned()),
            })
        };
        let certificates = certificates.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        Tls::from_pairs(options, provider, certificates, client_cas)
    }

    /// A certificate and its key as PEM texts.
    pub fn from_pem(
        options: &TlsOptions,
        certificate: &str,
        key: &str,
        client_cas: Vec<Arc<Dynamic<CaBundle>>>,
    ) -> Result<Self, String> {
        let provider = Arc::new(provider(&options.cipher_suites, &options.curve_preferences)?);
        let pair = Pair::new(certificate.as_bytes(), key.as_bytes(), &[], &provider)?;
        Tls::from_pairs(options, provider, vec![Dynamic::fixed(pair)], client_cas)
    }

    fn from_pairs(
        options: &TlsOptions,
        provider: Arc<CryptoProvider>,
        certificates: Vec<Dynamic<Pair>>,
        client_cas: Vec<Arc<Dynamic<CaBundle>>>,
    ) -> Result<Self, String> {
        let versions = versions(&options.min_version)?;
        let disable_http2 = options.disable_http2;
        let pairs = certificates.iter().map(Dynamic::current).collect();
        let cas = client_cas.iter().map(|ca| ca.current()).collect();
        let build = Build { versions, provider: &provider, disable_http2 };
        let built = ArcSwap::from_pointee(build.build(pairs, cas)?);
        Ok(Tls { versions, provider, disable_http2, certificates, client_cas, built })
    }

    /// Checks for changed files at every handshake: for tests.
    pub fn impatient(mut self) -> Self {
        self.certificates = self.certificates.into_iter().map(Dynamic::impatient).collect();
        self
    }

    /// Configuration for a server name, in lower case, or for the local address if the client sends no name.
    pub(super) fn config(&self, server_name: Option<&str>, local: IpAddr) -> Arc<ServerConfig> {
        let built = self.current();
        let config = match server_name {
            Some(name) => built.named.get(name).or_else(|| {
                let (_, parent) = name.split_once('.')?;
                built.named.get(&format!("*.{parent}"))
            }),
            None if built.named.is_empty() => None,
            None => built.named.get(&local.to_string()),
        };
        config.unwrap_or(&built.default).clone()
    }

    fn current(&self) -> Arc<Built> {
        let built = self.built.load_full();
        let pairs: Vec<_> = self.certificates.iter().map(Dynamic::current).collect();
        let cas: Vec<_> = self.client_cas.iter().map(|ca| ca.current()).collect();
        if same(&built.certificates, &pairs) && same(&built.client_cas, &cas) {
            return built;
        }
        let Tls { versions, ref provider, disable_http2, .. } = *self;
        match (Build { versions, provider, disable_http2 }).build(pairs, cas) {
            Ok(new) => {
                let new = Arc::new(new);
                self.built.store(new.clone());
                new
            }
            Err(error) => {
                tracing::error!(error, "new certificates cannot be used, the old ones stay");
                built
            }
        }
    }
}

fn same<T>(some: &[Arc<T>], others: &[Arc<T>]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(a, b)| Arc::ptr_eq(a, b))
}

impl Pair {
    fn new(
        certificate: &[u8],
        key: &[u8],
        names: &[String],
        provider: &CryptoProvider,
    ) -> Result<Self, String> {
        let key = certified_key(certificate, key, provider)?;
        let own = key.end_entity_cert().map_err(|error| error.to_string())?;
        let read = Certificate::read(own).ok_or("x509: malformed certificate")?;
        let explicit = !names.is_empty();
        let names = if explicit { names.to_vec() } else { certificate_names(&read) };
        Ok(Pair { key: Arc::new(key), names, explicit })
    }
}

/// Names in a certificate. A common name that is an address does not count: a certificate is chosen by address only if
/// configured so.
fn certificate_names(certificate: &Certificate<'_>) -> Vec<String> {
    let common_name = certificate.subject().common_name;
    let host = common_name.strip_prefix("*.").unwrap_or(&common_name);
    let is_domain = common_name == "*" || is_dns1123_subdomain(host).is_empty();
    let usable = is_domain && common_name.parse::<IpAddr>().is_err();
    let common_name = usable.then_some(common_name.clone());
    common_name.into_iter().chain(certificate.alt_names().dns_names).collect()
}

/// Settings of a configuration, besides certificates.
struct Build<'a> {
    versions: &'static [&'static SupportedProtocolVersion],
    provider: &'a Arc<CryptoProvider>,
    disable_http2: bool,
}

impl Build<'_> {
    fn build(
        &self,
        certificates: Vec<Arc<Pair>>,
        client_cas: Vec<Arc<CaBundle>>,
    ) -> Result<Built, String> {
        let configs = certificates.iter().map(|pair| self.config(&pair.key, &client_cas));
        let configs = configs.collect::<Result<Vec<_>, _>>()?;
        let default = configs.first().ok_or("no serving certificate")?.clone();
        let mut named = HashMap::new();
        // Configured names take precedence over those in certificates, and earlier pairs over later ones.
        for explicit in [false, true] {
            let pairs = certificates.iter().zip(&configs).skip(1).rev();
            for (pair, config) in pairs.filter(|(pair, _)| pair.explicit == explicit) {
                let names = pair.names.iter().map(|name| name.to_ascii_lowercase());
                named.extend(names.map(|name| (name, config.clone())));
            }
        }
        Ok(Built { certificates, client_cas, default, named })
    }

    fn config(
        &self,
        key: &Arc<CertifiedKey>,
        client_cas: &[Arc<CaBundle>],
    ) -> Result<Arc<ServerConfig>, String> {
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(self.versions)
            .map_err(|error| error.to_string())?;
        let builder = match client_cas {
            [] => builder.with_no_client_auth(),
            _ => {
                let subjects = client_cas.iter().flat_map(|ca| ca.subjects());
                let hints = subjects.map(|name| DistinguishedName::in_sequence(name)).collect();
                let algorithms = self.provider.signature_verification_algorithms;
                let verifier = AnyClientCertificate { hints, algorithms };
                builder.with_client_cert_verifier(Arc::new(verifier))
            }
        };
        let certificate = SingleCertAndKey::from(key.clone());
        let mut config = builder.with_cert_resolver(Arc::new(certificate));
        config.alpn_protocols = match self.disable_http2 {
            true => vec![b"http/1.1".to_vec()],
            false => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        // Kubernetes clients keep their connections and do not resume sessions; stored sessions would cost memory and
        // outlive the certificates.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}
