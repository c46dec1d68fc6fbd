//! Connecters: subresources that connect to containers, ports of pods and Services, and nodes.
//!
//! ```text
//! pods/exec, attach, portforward ─ Connecter ─┐                             ┌─ WebSocket v5 ─▶ stream_translator ─┐
//! pods|services|nodes/proxy ────── Connecter ─┼─▶ options ─▶ CONNECT ─▶ Location ─ tunnel ─▶ stream_tunnel ────────┼─▶ Transport
//! pods/log ───────── GetterWithOptions ───────┘   (query)  admission        └─ all else ─▶ UpgradeAwareProxy ──────┘
//! ```
//!
//! - A subresource's row has its `Connecter`: its methods, whether a path may follow it, and the verb it needs besides
//!   that of the method (exec by GET needs `create`). Its options are an object of the subresource's kind, decoded from
//!   the query (`endpoints/parameters.rs`), so admission, audit, discovery and OpenAPI treat it like any other.
//! - This module has the Kubernetes part: the container, the kubelet (`kubelet.rs`: preferred address types of a node,
//!   port of its daemon endpoint), and the addresses that must not be proxied to. `server::proxy` has the HTTP part:
//!   hop-by-hop headers, rewritten links, upgrades; the aggregator uses it, too.
//! - A `Transport` keeps connections per address, speaks HTTP/1.1, and reloads its certificates when their files
//!   change. Followed logs and upgraded connections are never shared.
//! - Paths come from `RequestInfo`, unescaped once and without `..`, and are escaped again when sent. Credentials and
//!   front-proxy headers are removed after authentication; the proxy sets headers about the body's length itself.
//! - Trailers are passed back if the response announced them: `Pieces::trailers`, which every wrapping body forwards.
//! - Redirects are not followed: a log request fails, a proxy client gets the redirect, an upgrade is refused.
//! - A response with code 101 has a body that lasts as long as the stream (`Body::held`), so audit, metrics and the
//!   shutdown's count of requests end with it.

mod address;
mod container;
mod log;
mod metrics;
mod proxy;
mod stream;

use std::sync::Arc;

use kevel_server::connecter::{ConnectHandler, Connecters};
use kevel_server::egress::Dialer;
use kevel_server::metrics::Metrics;
use kevel_server::proxy::{Transport, TransportConfig};
use kevel_streaming::rate::Rate;

use crate::kubelet::{KubeletClientConfig, NodeConnectionInfoGetter};
use log::PodLog;
use metrics::ConnectMetrics;
use proxy::{Backend, Proxy};
use stream::{PodStream, StreamKind};

/// Configuration of the connecters.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// Configuration of kubelet connections.
    pub kubelets: KubeletClientConfig,
    /// Dialer of connections to pods and Services.
    pub dialer: Dialer,
    /// `--max-connection-bytes-per-sec`; 0 does not limit.
    pub max_connection_bytes_per_sec: u64,
    /// Feature gates.
    pub features: ConnectFeatures,
}

/// Feature gates of the connecters.
#[derive(Clone, Copy, Debug)]
pub struct ConnectFeatures {
    /// `AuthorizePodWebsocketUpgradeCreatePermission`: a GET also needs permission for `create`.
    pub authorize_create: bool,
    /// `TranslateStreamCloseWebsocketRequests`: WebSockets are translated to SPDY.
    pub translate_websockets: bool,
    /// `PortForwardWebsockets`: SPDY is tunneled in WebSockets.
    pub port_forward_websockets: bool,
    /// `ExtendWebSocketsToKubelet`: kubelets that declare support get WebSockets unchanged.
    pub websockets_to_kubelet: bool,
    /// `PodLogsQuerySplitStreams`: stdout or stderr can be requested alone.
    pub split_log_streams: bool,
}

/// Makes the connecters of a server.
pub fn connecters(config: ConnectConfig, metrics: &Metrics) -> Result<Connecters, String> {
    let metrics = ConnectMetrics::new(metrics);
    let ConnectConfig { kubelets, dialer, max_connection_bytes_per_sec, features } = config;
    let kubelets = Arc::new(NodeConnectionInfoGetter::new(kubelets)?);
    let rate = Rate::per_second(max_connection_bytes_per_sec);
    // Pods are addressed by IP, which their certificates do not name, so that certificates are not verified.
    let pods = Arc::new(Transport::new(&TransportConfig { dialer, ..TransportConfig::default() })?);
    let stream = |kind| {
        let (kubelets, metrics) = (kubelets.clone(), metrics.clone());
        let stream = PodStream { kind, kubelets, rate, features, metrics };
        ConnectHandler::Connecter(Arc::new(stream))
    };
    let proxy = |backend| {
        let (kubelets, transport) = (kubelets.clone(), pods.clone());
        ConnectHandler::Connecter(Arc::new(Proxy { backend, kubelets, transport, rate }))
    };
    let log = PodLog::new(kubelets.clone(), features.split_log_streams, metrics.clone())?;
    Ok(Connecters::new([
        ("pods/attach", stream(StreamKind::Attach)),
        ("pods/exec", stream(StreamKind::Exec)),
        ("pods/log", ConnectHandler::GetterWithOptions(Arc::new(log))),
        ("pods/portforward", stream(StreamKind::PortForward)),
        ("pods/proxy", proxy(Backend::Pod)),
        ("services/proxy", proxy(Backend::Service)),
        ("nodes/proxy", proxy(Backend::Node)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Subresource;
    use crate::kinds::KINDS;

    #[test]
    fn every_way_that_kinds_have_leads_somewhere() {
        let features = ConnectFeatures {
            authorize_create: true,
            translate_websockets: true,
            port_forward_websockets: true,
            websockets_to_kubelet: true,
            split_log_streams: false,
        };
        let kubelets = KubeletClientConfig {
            port: 10250,
            preferred_address_types: Vec::new(),
            transport: TransportConfig::default(),
        };
        let dialer = Dialer::default();
        let config = ConnectConfig { kubelets, dialer, max_connection_bytes_per_sec: 0, features };
        let connecters = connecters(config, &Metrics::default()).unwrap();
        let ways = KINDS.iter().flat_map(|kind| {
            let ways = kind.subresources.iter();
            let ways = ways.filter(|(_, sub)| matches!(sub, Subresource::Connecter));
            ways.map(|(sub, _)| (kind.group, format!("{}/{sub}", kind.plural)))
        });
        let mut count = 0;
        for (group, path) in ways {
            assert!(connecters.get(group, &path).is_some(), "{path}");
            count += 1;
        }
        assert_eq!(count, connecters.count());
    }
}
