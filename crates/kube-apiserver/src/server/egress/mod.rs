//! The ways out of the server, as the file of `--egress-selector-config-file` has them.

mod configuration;
mod validation;

use std::path::Path;

use http::Uri;
use kevel_api::quote::quote;
use kevel_server::certificates::verify::Purpose;
use kevel_server::certificates::warn_unable_to_sign;
use kevel_server::egress::{
    DialMetrics, Dialer, EgressSelector, EgressType, ProxyServer, ProxyTls,
};
use kevel_server::metrics::Metrics;
use kevel_server::webhook::{Endpoint, Identity, tls_config};

use self::configuration::{Connection, EgressSelectorConfiguration, TcpTransport, TlsConfig};
use crate::options::CompletedOptions;

/// The ways that the file names; without one, everything is reached directly.
pub fn egress_selector(
    options: &CompletedOptions,
    metrics: &Metrics,
) -> Result<EgressSelector, String> {
    let file = options.flags.egress_selector.egress_selector_config_file.as_str();
    if file.is_empty() {
        return Ok(EgressSelector::default());
    }
    let configuration = EgressSelectorConfiguration::load(Path::new(file))
        .map_err(|error| format!("failed to read egress selector config: {error}"))?;
    configuration
        .validate()
        .map_err(|errors| format!("failed to validate egress selector configuration: {errors}"))?;
    selector(configuration, &DialMetrics::new(metrics))
        .map_err(|error| format!("failed to setup egress selector with config {file}: {error}"))
}

fn selector(
    configuration: EgressSelectorConfiguration,
    metrics: &DialMetrics,
) -> Result<EgressSelector, String> {
    // A file that has no list says nothing at all.
    let Some(selections) = configuration.egress_selections else {
        return Ok(EgressSelector::default());
    };
    let dialers = selections.iter().map(|selection| {
        let name = &selection.name;
        let ty = EgressType::named(name);
        let ty = ty.ok_or_else(|| format!("unrecognized service name {name}"))?;
        let failed = |error| {
            let name = quote(&ty.to_string());
            format!("failed to create dialer for egressSelection {name}: {error}")
        };
        Ok((ty, dialer(&selection.connection, metrics).map_err(failed)?))
    });
    dialers.collect::<Result<Vec<_>, String>>().map(EgressSelector::new)
}

fn dialer(connection: &Connection, metrics: &DialMetrics) -> Result<Dialer, String> {
    let transport = connection.transport.as_ref();
    let (tcp, uds) = transport.map_or((None, None), |t| (t.tcp.as_ref(), t.uds.as_ref()));
    let server = match (connection.proxy_protocol.as_str(), tcp, uds) {
        ("Direct", _, _) => return Ok(Dialer::default()),
        ("HTTPConnect", _, Some(uds)) => ProxyServer::HttpConnectUds(uds.uds_name.clone().into()),
        ("HTTPConnect", Some(tcp), None) => http_connect(tcp)?,
        ("GRPC", _, Some(uds)) => ProxyServer::GrpcUds(uds.uds_name.clone().into()),
        (protocol, _, _) => {
            return Err(format!("unrecognized service connection protocol {}", quote(protocol)));
        }
    };
    Ok(Dialer::through(server, metrics.clone()))
}

fn http_connect(tcp: &TcpTransport) -> Result<ProxyServer, String> {
    let url = &tcp.url;
    let invalid =
        |why: &dyn std::fmt::Display| format!("invalid proxy server url {}: {why}", quote(url));
    let uri: Uri = url.parse().map_err(|error| invalid(&error))?;
    let host = uri.host().ok_or_else(|| invalid(&"no host"))?;
    let address = match uri.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let tls = tcp.tls_config.as_ref().map(|tls| proxy_tls(tls, host)).transpose()?;
    Ok(ProxyServer::HttpConnectTcp { address, tls })
}

/// TLS of the proxy: client certificate and CA. Validation has checked that the files exist.
fn proxy_tls(tls: &TlsConfig, host: &str) -> Result<ProxyTls, String> {
    let TlsConfig { ca_bundle, client_key, client_cert, tls_server_name } = tls;
    let ca = match ca_bundle.as_str() {
        "" => None,
        file => {
            let read = std::fs::read(file);
            Some(read.map_err(|error| format!("failed to read cert file {file}, got {error}"))?)
        }
    };
    warn_unable_to_sign(ca_bundle, Purpose::ServerAuth, &ca);
    let trust = Endpoint { ca, ..Endpoint::default() };
    tls_config(&trust).map_err(|_| "failed to append CA cert to the cert pool".to_owned())?;
    let identity = Identity::Files { certificate: client_cert.into(), key: client_key.into() };
    let config = tls_config(&Endpoint { identity: Some(identity), ..trust });
    let config = config.map_err(|error| {
        format!("failed to read key pair {client_cert} & {client_key}, got {error}")
    })?;
    let name = match tls_server_name.as_str() {
        "" => host.trim_matches(['[', ']']),
        name => name,
    };
    ProxyTls::new(name, config)
}

#[cfg(test)]
mod tests;
