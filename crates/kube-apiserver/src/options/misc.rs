//! Flags that belong to this server alone: services, kubelets, aggregation, peers.

use crate::flags::{EFFECTIVE, MOOT, PENDING, PortRange, Strings, section};
use kevel_api::duration::Duration;
use kevel_api::quote::quote;
use kevel_features::{Feature, FeatureGates};

section! {
    /// Options that belong to this server alone: services, kubelets, aggregation, peers.
    Misc, "misc" {
        /// Do not pass on an aggregated server's redirect to the client.
        aggregator_reject_forwarding_redirect: bool = "true", EFFECTIVE;
        /// Allow privileged containers.
        allow_privileged: bool = "false", EFFECTIVE;
        /// Number of API servers of the cluster, for --endpoint-reconciler-type=master-count.
        apiserver_count: i64 = "1", EFFECTIVE
            .deprecated("apiserver-count is deprecated and will be removed in a future version.")
            .hidden();
        /// Validity of the lease of a coordinated leader.
        coordinated_leadership_lease_duration: Duration = "15s", EFFECTIVE;
        /// Time within which a coordinated leader must renew its lease.
        coordinated_leadership_renew_deadline: Duration = "10s", EFFECTIVE;
        /// Interval at which a coordinated leader tries to renew its lease.
        coordinated_leadership_retry_period: Duration = "2s", EFFECTIVE;
        /// Send requests for aggregated servers to the endpoints of their service instead of its
        /// cluster IP.
        enable_aggregator_routing: bool = "false", EFFECTIVE;
        /// Serve the host's log files under /logs.
        enable_logs_handler: bool = "false", PENDING
            .deprecated("Log handler functionality is deprecated");
        /// Reconciler of the endpoints of the kubernetes service: lease, master-count (deprecated) or none.
        endpoint_reconciler_type: String = "lease", EFFECTIVE;
        /// Time for which events are kept.
        event_ttl: Duration = "1h0m0s", EFFECTIVE;
        /// File with the authority that kubelets' certificates are checked against.
        kubelet_certificate_authority: String, EFFECTIVE;
        /// File with the client certificate for kubelets.
        kubelet_client_certificate: String, EFFECTIVE;
        /// File with the private key of --kubelet-client-certificate.
        kubelet_client_key: String, EFFECTIVE;
        /// Port of kubelets that do not report one.
        kubelet_port: u64 = "10250", EFFECTIVE
            .deprecated("kubelet-port is deprecated and will be removed.")
            .hidden();
        /// Kinds of node addresses to reach a kubelet at, best first, comma separated.
        kubelet_preferred_address_types:
            Strings = "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP", EFFECTIVE;
        /// Port of kubelets that can be read from without authentication. Nothing is read from it.
        kubelet_read_only_port: u64 = "10255", MOOT
            .deprecated("kubelet-read-only-port is deprecated and will be removed.")
            .hidden();
        /// Timeout of a request to a kubelet. No effect, as in the reference: logs are followed, and commands run, for
        /// as long as they last.
        kubelet_timeout: Duration = "5s", MOOT;
        /// Node port of the kubernetes service, which is then of type NodePort; 0 makes it
        /// ClusterIP.
        kubernetes_service_node_port: i64 = "0", EFFECTIVE;
        /// Bytes per second that a long-running request of a user may move; 0 does not limit.
        max_connection_bytes_per_sec: i64 = "0", EFFECTIVE;
        /// IP address at which other API servers reach this one for versions that they do not
        /// serve. Needs the feature UnknownVersionInteroperabilityProxy.
        peer_advertise_ip: String, EFFECTIVE;
        /// Port at which other API servers reach this one for versions that they do not serve.
        /// Needs the feature UnknownVersionInteroperabilityProxy.
        peer_advertise_port: String, EFFECTIVE;
        /// File with the authority that other API servers' certificates are checked against. Needs
        /// the feature UnknownVersionInteroperabilityProxy.
        peer_ca_file: String, EFFECTIVE;
        /// File with the certificate by which aggregated servers and webhooks recognise this
        /// server. It should come from an authority in --requestheader-client-ca-file.
        proxy_client_cert_file: String, EFFECTIVE;
        /// File with the private key of --proxy-client-cert-file.
        proxy_client_key_file: String, EFFECTIVE;
        /// Socket of an external signer of service account tokens, in place of
        /// --service-account-signing-key-file and --service-account-key-file. Needs the feature
        /// ExternalServiceAccountTokenSigner.
        service_account_signing_endpoint: String, EFFECTIVE;
        /// File with the private key that signs service account tokens.
        service_account_signing_key_file: String, EFFECTIVE;
        /// Network of the services' cluster IPs, or two of different families, comma separated. No
        /// node or pod may have an address in it. 10.0.0.0/24 unless given.
        service_cluster_ip_range: String, EFFECTIVE;
        /// Ports for services of type NodePort, both ends included. They must not be among the
        /// nodes' ephemeral ports.
        service_node_port_range: PortRange = "30000-32767", EFFECTIVE;
    }
}

impl Misc {
    /// Errors of the peer flags, which need the gate of the peer proxy.
    pub(super) fn peer_errors(&self, gates: &FeatureGates) -> Vec<String> {
        let gate = Feature::UnknownVersionInteroperabilityProxy;
        let flags = [
            ("peer-ca-file", &self.peer_ca_file),
            ("peer-advertise-ip", &self.peer_advertise_ip),
            ("peer-advertise-port", &self.peer_advertise_port),
        ];
        flags
            .into_iter()
            .filter(|(_, value)| !value.is_empty() && !gates.enabled(gate))
            .map(|(flag, _)| format!("--{flag} requires {gate} feature to be turned on"))
            .collect()
    }

    pub(super) fn leadership_errors(&self) -> Vec<String> {
        let periods = [
            ("lease-duration", self.coordinated_leadership_lease_duration),
            ("renew-deadline", self.coordinated_leadership_renew_deadline),
            ("retry-period", self.coordinated_leadership_retry_period),
        ];
        let pairs = periods.iter().zip(periods.iter().skip(1));
        pairs
            .filter(|((_, longer), (_, shorter))| longer <= shorter)
            .map(|((longer, _), (shorter, _))| {
                format!(
                    "--coordinated-leadership-{longer} must be greater than \
                     --coordinated-leadership-{shorter}"
                )
            })
            .collect()
    }

    pub(super) fn node_port_errors(&self) -> Vec<String> {
        let (port, range) = (self.kubernetes_service_node_port, self.service_node_port_range);
        let mut errors = Vec::new();
        if !(0..=65535).contains(&port) {
            errors.push(format!(
                "--kubernetes-service-node-port {port} must be between 0 and 65535, inclusive. If \
                 0, the Kubernetes master service will be of type ClusterIP"
            ));
        }
        if port > 0 && !range.contains(port) {
            errors
                .push(format!("kubernetes service node port range {range} doesn't contain {port}"));
        }
        errors
    }

    pub(super) fn reconciler_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        let reconciler = &self.endpoint_reconciler_type;
        if !matches!(reconciler.as_str(), "lease" | "master-count" | "none") {
            errors.push(format!(
                "--endpoint-reconciler-type {} invalid, allowed values: master-count, lease, none",
                quote(reconciler)
            ));
        }
        if self.apiserver_count <= 0 {
            errors.push(format!(
                "--apiserver-count should be a positive number, but value '{}' provided",
                self.apiserver_count
            ));
        }
        errors
    }
}
