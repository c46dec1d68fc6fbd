//! The ways to nodes and into pods, as the options have them.

use kevel_controlplane::{ConnectConfig, ConnectFeatures, KubeletClientConfig};
use kevel_features::Feature;
use kevel_server::connecter::Connecters;
use kevel_server::egress::{EgressSelector, EgressType};
use kevel_server::metrics::Metrics;
use kevel_server::proxy::TransportConfig;
use kevel_server::webhook::Identity;

use crate::options::CompletedOptions;

/// Connecters of the server.
pub fn connecters(
    options: &CompletedOptions,
    egress: &EgressSelector,
    metrics: &Metrics,
) -> Result<Connecters, String> {
    let flags = &options.flags.misc;
    let gate = |feature| options.feature_gates.enabled(feature);
    let (certificate, key) = (&flags.kubelet_client_certificate, &flags.kubelet_client_key);
    // One without the other is no identity.
    let identity = (!certificate.is_empty() && !key.is_empty())
        .then(|| Identity::Files { certificate: certificate.into(), key: key.into() });
    let ca_file = Some(flags.kubelet_certificate_authority.clone()).filter(|ca| !ca.is_empty());
    let dialer = egress.dialer(EgressType::Cluster);
    let kubelets = KubeletClientConfig {
        port: u16::try_from(flags.kubelet_port).map_err(|_| "--kubelet-port is out of range")?,
        preferred_address_types: flags.kubelet_preferred_address_types.0.clone(),
        transport: TransportConfig { ca_file, identity, dialer: dialer.clone() },
    };
    let config = ConnectConfig {
        kubelets,
        dialer,
        max_connection_bytes_per_sec: u64::try_from(flags.max_connection_bytes_per_sec)
            .unwrap_or(0),
        features: ConnectFeatures {
            authorize_create: gate(Feature::AuthorizePodWebsocketUpgradeCreatePermission),
            translate_websockets: gate(Feature::TranslateStreamCloseWebsocketRequests),
            port_forward_websockets: gate(Feature::PortForwardWebsockets),
            websockets_to_kubelet: gate(Feature::ExtendWebSocketsToKubelet),
            split_log_streams: gate(Feature::PodLogsQuerySplitStreams),
        },
    };
    kevel_controlplane::connecters(config, metrics)
}
