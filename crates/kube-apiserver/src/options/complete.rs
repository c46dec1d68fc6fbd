//! Completion: defaults that depend on other flags or on the machine.

use super::feature_gates::{FlagError, feature_gates};
use super::files::read_error;
use super::{Emulation, ResourceConfig, ServerRunOptions, ServiceIps, StorageKind};
use kevel_api::duration::Duration;
use kevel_api::gvk::GroupResource;
use kevel_clock::Clock;
use kevel_features::{EffectiveVersion, FeatureGates, VersionError};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use thiserror::Error;
use tracing::{info, warn};

/// Options with everything that follows from them. Only [`ServerRunOptions::complete`] makes them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompletedOptions {
    /// The flags, with defaults filled in.
    pub flags: ServerRunOptions,
    /// Feature gates.
    pub feature_gates: FeatureGates,
    /// The version that the server behaves as.
    pub effective_version: EffectiveVersion,
    /// Kind of store.
    pub storage: StorageKind,
    /// The address at which others reach the server.
    pub advertise_address: IpAddr,
    /// The name of the machine, by which the servers of a cluster tell each other apart.
    pub hostname: String,
    /// The networks of the services, and the server's own address among them.
    pub service_ips: ServiceIps,
    /// The host in URLs that lead back to the server.
    pub external_host: String,
    /// The serving certificate to make if its files are missing.
    pub generated_cert: Option<GeneratedCert>,
    /// The directory of the authority and keys that the server makes for itself, unless it was
    /// given others.
    pub own_pki: Option<String>,
    /// Resources with a watch cache of their own size.
    pub watch_cache_sizes: BTreeMap<GroupResource, i64>,
    /// Least history of the watch caches.
    pub events_history_window: Duration,
    /// The admission plugins that run, in order.
    pub admission_plugins: Vec<&'static str>,
    /// Time of the server. Not a flag: a test sets one that it moves.
    pub clock: Clock,
    /// Whether the server has no port: see [`CompletedOptions::without_port`].
    pub in_process: bool,
}

/// A serving certificate to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedCert {
    /// File of the certificate.
    pub cert_file: String,
    /// File of its key.
    pub key_file: String,
    /// The host that it is for.
    pub host: String,
    /// Other names that it is for.
    pub alternate_dns: Vec<String>,
    /// Other addresses that it is for.
    pub alternate_ips: Vec<IpAddr>,
}

/// The issuer of service account tokens when the server makes the key.
const OWN_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The network of services without IPv4: as many as a bitmap can hold, of the addresses that are for private use.
const OWN_IPV6_RANGE: &str = "fd00:10:96::/108";

/// The names of the kubernetes service.
const SERVICE_NAMES: [&str; 3] = ["kubernetes.default.svc", "kubernetes.default", "kubernetes"];

const SECOND: i64 = 1_000_000_000;

/// Default of the least history of the watch caches.
const EVENTS_HISTORY_WINDOW: Duration = Duration(75 * SECOND);

/// Lifetime above which a token counts as extended.
const WARN_ONLY_EXPIRATION_SECONDS: i64 = 60 * 60 + 7;

/// The validity of an extended token.
const EXTENDED_EXPIRATION_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Mistake in the flags of versions and features, in the reference's words.
#[derive(Debug, Error)]
#[error(transparent)]
pub enum ComponentGlobalsError {
    /// Error in `--emulated-version` or `--min-compatibility-version`.
    Version(#[from] VersionError),
    /// Error in `--feature-gates`.
    Gates(#[from] FlagError),
}

impl ServerRunOptions {
    /// The features and the version that the flags ask for. Everything else may depend on them, so
    /// a mistake in them is told alone.
    pub fn component_globals(
        &self,
    ) -> Result<(FeatureGates, EffectiveVersion), ComponentGlobalsError> {
        let generic = &self.generic;
        let emulated = generic.emulated_version.iter().map(String::as_str);
        let min_compatibility = generic.min_compatibility_version.iter().map(String::as_str);
        let version = EffectiveVersion::new(emulated, min_compatibility)?;
        Ok((feature_gates(&generic.feature_gates, version)?, version))
    }

    /// Fills in the defaults that depend on other flags or on the machine.
    pub fn complete(mut self) -> Result<CompletedOptions, String> {
        let (feature_gates, effective_version) =
            self.component_globals().map_err(|error| error.to_string())?;
        let storage = self.storage();
        let own_pki = self.complete_own_files(storage);
        let advertise_address = self.advertise_address();
        self.complete_service_range(storage, advertise_address);
        let service_ips = ServiceIps::new(&self.misc.service_cluster_ip_range)?;
        self.generic.advertise_address = Some(advertise_address);
        let generated_cert = self.complete_serving_cert(advertise_address, service_ips.api_server);
        let external_host = self.complete_external_host(advertise_address);
        if self.given.has("audit_webhook_batch_initial_backoff") {
            self.audit.audit_webhook_initial_backoff =
                self.audit.audit_webhook_batch_initial_backoff;
        }
        self.authorization.complete();
        self.complete_anonymous_auth();
        self.complete_service_accounts()?;
        self.api_enablement.complete();
        let watch_cache_sizes = match self.etcd.watch_cache {
            true => self.etcd.sizes_of_watch_caches()?,
            false => BTreeMap::new(),
        };
        let after_timeout = self.generic.request_timeout.0.saturating_add(15 * SECOND);
        let events_history_window = match self.generic.request_timeout.0 {
            1.. => EVENTS_HISTORY_WINDOW.max(Duration(after_timeout)),
            _ => EVENTS_HISTORY_WINDOW,
        };
        Ok(CompletedOptions {
            admission_plugins: self.admission.enabled_plugins(&self.given),
            clock: Clock::system(),
            in_process: false,
            flags: self,
            feature_gates,
            effective_version,
            storage,
            advertise_address,
            hostname: hostname(),
            service_ips,
            external_host,
            generated_cert,
            own_pki,
            watch_cache_sizes,
            events_history_window,
        })
    }

    fn storage(&self) -> StorageKind {
        let derived = match self.etcd.etcd_servers.is_empty() {
            true => StorageKind::Embedded,
            false => StorageKind::Etcd,
        };
        self.kevel.storage.unwrap_or(derived)
    }

    /// Sets the paths of certificates and keys that a server without etcd makes in its data directory. A server on etcd
    /// makes none, because other servers beside it would not know them. Returns the directory, if any file is made.
    fn complete_own_files(&mut self, storage: StorageKind) -> Option<String> {
        if storage == StorageKind::Etcd {
            return None;
        }
        let directory = format!("{}/pki", self.kevel.data_dir.trim_end_matches('/'));
        let cert = !self.given.has_any(&["cert_dir", "tls_cert_file", "tls_private_key_file"]);
        if cert {
            self.secure_serving.cert_dir.clone_from(&directory);
        }
        let key = !self.given.has_any(&[
            "service_account_issuer",
            "service_account_key_file",
            "service_account_signing_key_file",
            "service_account_signing_endpoint",
        ]);
        if key {
            let file = format!("{directory}/sa.key");
            self.authentication.service_account_issuer.push(OWN_ISSUER.to_owned());
            self.authentication.service_account_key_file.push(file.clone());
            self.misc.service_account_signing_key_file = file;
        }
        (cert || key).then_some(directory)
    }

    /// The kubernetes service has the family of the server's address. A server that stands alone on a machine without IPv4
    /// has services there, where the reference refuses to start.
    fn complete_service_range(&mut self, storage: StorageKind, advertised: IpAddr) {
        let range = &mut self.misc.service_cluster_ip_range;
        if storage != StorageKind::Etcd && range.is_empty() && advertised.is_ipv6() {
            OWN_IPV6_RANGE.clone_into(range);
        }
    }

    /// The address given, or the one listened on, or the host's. A host without a network still
    /// has clients on itself.
    fn advertise_address(&self) -> IpAddr {
        let given = self.generic.advertise_address.filter(|ip| !ip.is_unspecified());
        if let Some(given) = given {
            return given;
        }
        let bind = self.secure_serving.bind_address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        if !bind.is_unspecified() && !bind.is_loopback() {
            return bind;
        }
        host_address(bind.is_ipv6()).unwrap_or_else(|error| {
            let address = if bind.is_loopback() { bind } else { loopback(has_address) };
            warn!("the host has no network ({error}), advertising {address}");
            address
        })
    }

    fn complete_serving_cert(&mut self, host: IpAddr, service: IpAddr) -> Option<GeneratedCert> {
        let serving = &mut self.secure_serving;
        if !serving.tls_cert_file.is_empty() || !serving.tls_private_key_file.is_empty() {
            return None;
        }
        let directory = serving.cert_dir.trim_end_matches('/');
        serving.tls_cert_file = format!("{directory}/apiserver.crt");
        serving.tls_private_key_file = format!("{directory}/apiserver.key");
        let mut alternate_dns: Vec<String> = SERVICE_NAMES.map(str::to_owned).into();
        let mut alternate_ips = vec![service];
        match serving.bind_address {
            Some(bind) if !bind.is_unspecified() => alternate_ips.push(bind),
            _ => alternate_dns.push("localhost".to_owned()),
        }
        Some(GeneratedCert {
            cert_file: serving.tls_cert_file.clone(),
            key_file: serving.tls_private_key_file.clone(),
            host: host.to_string(),
            alternate_dns,
            alternate_ips,
        })
    }

    fn complete_external_host(&mut self, advertise_address: IpAddr) -> String {
        let host = &mut self.generic.external_hostname;
        if host.is_empty() {
            *host = advertise_address.to_string();
            info!("external host was not specified, using {host}");
        }
        host.clone()
    }

    /// Turns anonymous authentication off under AlwaysAllow.
    fn complete_anonymous_auth(&mut self) {
        let allows = self.authorization.authorization_mode.iter().any(|mode| mode == "AlwaysAllow");
        if allows && self.authentication.anonymous_auth {
            self.authentication.anonymous_auth = false;
            if self.given.has("anonymous_auth") {
                warn!(
                    "AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting \
                     AnonymousAuth to false. You should use a different authorizer"
                );
            }
        }
    }

    fn complete_service_accounts(&mut self) -> Result<(), String> {
        let max = self.authentication.service_account_max_token_expiration;
        if max.0 != 0 && !(3600 * SECOND..=(1_i64 << 32) * SECOND).contains(&max.0) {
            return Err(
                "the service-account-max-token-expiration must be between 1 hour and 2^32 \
                        seconds"
                    .to_owned(),
            );
        }
        let key_file = &self.misc.service_account_signing_key_file;
        let issuer = self.authentication.service_account_issuer.first();
        if issuer.is_some_and(|issuer| !issuer.is_empty()) && !key_file.is_empty() {
            if !self.misc.service_account_signing_endpoint.is_empty() {
                return Err("service-account-signing-key-file and \
                            service-account-signing-endpoint are mutually exclusive and cannot be \
                            set at the same time"
                    .to_owned());
            }
            let given = self.given.has("service_account_signing_key_file");
            if let Some(error) = read_error(key_file).filter(|_| given) {
                return Err(format!("failed to parse service-account-issuer-key-file: {error}"));
            }
        }
        let authentication = &mut self.authentication;
        if authentication.api_audiences.is_empty() {
            authentication.api_audiences.0.clone_from(&authentication.service_account_issuer);
        }
        if authentication.service_account_extend_token_expiration && max.0 != 0 {
            if max.0 < WARN_ONLY_EXPIRATION_SECONDS * SECOND {
                warn!(
                    "service-account-extend-token-expiration is true, in order to correctly \
                     trigger safe transition logic, service-account-max-token-expiration must be \
                     set longer than {WARN_ONLY_EXPIRATION_SECONDS} seconds (currently {max})"
                );
            }
            if max.0 < EXTENDED_EXPIRATION_SECONDS * SECOND {
                warn!(
                    "service-account-extend-token-expiration is true, enabling tokens valid up to \
                     {EXTENDED_EXPIRATION_SECONDS} seconds, which is longer than \
                     service-account-max-token-expiration set to {max}"
                );
            }
        }
        Ok(())
    }
}

impl CompletedOptions {
    /// The options of a server without a port and without keys: it makes no files, and only its own process asks it. It
    /// issues no tokens.
    #[must_use]
    pub fn without_port(mut self) -> Self {
        self.in_process = true;
        self.own_pki = None;
        self.flags.authentication.service_account_key_file.clear();
        self.flags.misc.service_account_signing_key_file.clear();
        self
    }

    /// ID of this server in its cluster, as in its identity lease.
    pub fn server_id(&self) -> String {
        kevel_component::identity::server_id(&self.hostname)
    }

    /// Built-in resources that are served.
    pub fn resource_config(&self) -> ResourceConfig {
        let config = self.flags.api_enablement.resource_config(self.emulation());
        config.unwrap_or_default().without_disabled(&self.feature_gates)
    }

    /// Version of which the resources are.
    pub fn emulation(&self) -> Emulation {
        let generic = &self.flags.generic;
        Emulation {
            version: self.effective_version.emulation,
            forward_compatible: generic.emulation_forward_compatible,
            runtime_config_forward_compatible: generic.runtime_config_emulation_forward_compatible,
        }
    }
}

/// The loopback address of a machine: that of IPv6 only where there is no other.
pub(crate) fn loopback(has: impl Fn(IpAddr) -> bool) -> IpAddr {
    let [ipv4, ipv6] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    if has(ipv4) || !has(ipv6) { ipv4 } else { ipv6 }
}

/// Whether this machine has an address.
pub(crate) fn has_address(address: IpAddr) -> bool {
    TcpListener::bind((address, 0)).is_ok()
}

/// The machine's name.
fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The address of the interface with the default route. Connecting a datagram socket asks the
/// routing table and sends nothing; the addresses are those set aside for documentation.
fn host_address(prefer_ipv6: bool) -> io::Result<IpAddr> {
    let ipv4 = || address_towards(Ipv4Addr::UNSPECIFIED.into(), [198, 51, 100, 1].into());
    let ipv6 = || {
        let documentation = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        address_towards(Ipv6Addr::UNSPECIFIED.into(), documentation.into())
    };
    if prefer_ipv6 { ipv6().or_else(|_| ipv4()) } else { ipv4().or_else(|_| ipv6()) }
}

fn address_towards(from: IpAddr, to: IpAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.connect((to, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_an_address_that_the_machine_has() {
        for (has, expected) in [
            (&["127.0.0.1", "::1"][..], "127.0.0.1"),
            (&["::1"], "::1"),
            (&["127.0.0.1"], "127.0.0.1"),
            (&[], "127.0.0.1"),
        ] {
            let has = |address: IpAddr| has.contains(&address.to_string().as_str());
            assert_eq!(loopback(has).to_string(), expected);
        }
    }
}
