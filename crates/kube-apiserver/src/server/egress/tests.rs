//! Errors of egress configuration files, as recorded from the reference (but for addresses of its memory).

use kevel_server::metrics::Metrics;

use super::*;

const HEAD: &str = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n";

/// Errors of a text; empty if it is accepted.
fn said(text: &str) -> String {
    let configuration = match EgressSelectorConfiguration::read(text.as_bytes()) {
        Ok(configuration) => configuration,
        Err(error) => return format!("read: {error}"),
    };
    if let Err(errors) = configuration.validate() {
        return format!("validate: {errors}");
    }
    let selected = selector(configuration, &DialMetrics::new(&Metrics::default()));
    selected.err().map(|error| format!("setup: {error}")).unwrap_or_default()
}

#[test]
fn a_file_that_is_none_is_refused() {
    for (text, expected) in [
        ("", "Object 'Kind' is missing in ''"),
        ("{}", "Object 'Kind' is missing in '{}'"),
        (
            "apiVersion: apiserver.k8s.io/v1beta1",
            "Object 'Kind' is missing in 'apiVersion: apiserver.k8s.io/v1beta1'",
        ),
        (
            "kind: EgressSelectorConfiguration",
            "Object 'apiVersion' is missing in 'kind: EgressSelectorConfiguration'",
        ),
        (
            "{apiVersion: apiserver.k8s.io/v1, kind: EgressSelectorConfiguration}",
            "no kind \"EgressSelectorConfiguration\" is registered for version \
             \"apiserver.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (
            "{apiVersion: apiserver.config.k8s.io/v1, kind: AuthenticationConfiguration}",
            "unexpected config type: apiserver.config.k8s.io/v1, Kind=AuthenticationConfiguration",
        ),
        (
            &format!("{HEAD}foo: 1\negressSelections: [{{name: cluster, nome: x}}]"),
            "strict decoding error: unknown field \"egressSelections[0].nome\", unknown field \"foo\"",
        ),
        (
            &format!("{HEAD}egressSelections: 5"),
            "json: cannot unmarshal number into Go struct field \
             EgressSelectorConfiguration.egressSelections of type []v1beta1.EgressSelection",
        ),
        (
            &format!("{HEAD}egressSelections: [{{connection: {{proxyProtocol: 5}}}}]"),
            "json: cannot unmarshal number into Go struct field \
             Connection.egressSelections.connection.proxyProtocol of type v1beta1.ProtocolType",
        ),
        (
            &format!("{HEAD}egressSelections: [{{connection: 5}}]"),
            "json: cannot unmarshal number into Go struct field \
             EgressSelection.egressSelections.connection of type v1beta1.Connection",
        ),
        (
            &format!("{HEAD}egressSelections: [{{connection: {{transport: x}}}}]"),
            "json: cannot unmarshal string into Go struct field \
             Connection.egressSelections.connection.transport of type v1beta1.Transport",
        ),
        (
            &format!("{HEAD}egressSelections: [[1]]"),
            "json: cannot unmarshal array into Go struct field \
             EgressSelectorConfiguration.egressSelections of type v1beta1.EgressSelection",
        ),
        (&format!("{HEAD}a: b: c"), "yaml: line 3: mapping values are not allowed in this context"),
    ] {
        assert_eq!(said(text), format!("read: {expected}"), "{text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("no.pem"), "no pem").unwrap();
    let ca = kevel_test_support::Ca::new("proxies");
    std::fs::write(file("ca.crt"), &ca.pem).unwrap();
    kevel_test_support::write_pair(folder.path(), "client", &ca.client("apiserver"));
    let tls = |ca: &str, key: &str| {
        let (ca, key, certificate) = (file(ca), file(key), file("client.crt"));
        format!("{{caBundle: {ca}, clientKey: {key}, clientCert: {certificate}}}")
    };
    let https = |tls: &str| {
        let tcp = format!("{{url: 'https://a:1', tlsConfig: {tls}}}");
        format!("cluster {{proxyProtocol: HTTPConnect, transport: {{tcp: {tcp}}}}}")
    };
    let set_up = "setup: failed to create dialer for egressSelection \"cluster\": ";
    for (selections, expected) in [
        ("", ""),
        ("cluster {proxyProtocol: Direct}", ""),
        (
            "master {proxyProtocol: Direct}; Cluster {proxyProtocol: Direct}; etcd {proxyProtocol: Direct}",
            "",
        ),
        ("cluster {proxyProtocol: GRPC, transport: {uds: {udsName: /x}}}", ""),
        ("cluster {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://a:1'}}}", ""),
        (&https(&tls("ca.crt", "client.key")), ""),
        (
            "Master {proxyProtocol: Direct}; etcd {proxyProtocol: Direct}; ETCD {proxyProtocol: x}",
            "validate: [service.connection.protocol: Unsupported value: \"x\": supported values: \"Direct\", \
             \"HTTPConnect\", \"GRPC\", service.connection: Unsupported value: \"master\": supported values: \
             \"cluster\", \"controlplane\", \"etcd\", service.connection[2]: Duplicate value: \"etcd\"]",
        ),
        (
            "cluster {proxyProtocol: Direct, transport: {}}",
            "validate: service.connection.transport: Invalid value: \"direct\": config must be absent for direct \
             connect",
        ),
        (
            "cluster {proxyProtocol: HTTPConnect}",
            "validate: service.connection.transport: Required value: transport must be set for HTTPConnect",
        ),
        (
            "cluster {proxyProtocol: HTTPConnect, transport: {}}",
            "validate: service.connection.tcp: Required value: One of TCP or UDS must be set",
        ),
        (
            "cluster {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://a', tlsConfig: {caBundle: b}}, \
             uds: {udsName: x}}}",
            "validate: service.connection.tcp: Invalid value: {\"URL\":\"http://a\",\"TLSConfig\":{\"CABundle\":\"b\",\
             \"ClientKey\":\"\",\"ClientCert\":\"\",\"TLSServerName\":\"\"}}: TCP and UDS cannot both be set",
        ),
        (
            "cluster {proxyProtocol: HTTPConnect, transport: {uds: {}}}",
            "validate: service.connection.udsName: Invalid value: \"nil\": must be present for UDS connections",
        ),
        (
            "cluster {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'a:1'}}}",
            "validate: service.connection.url: Invalid value: \"a:1\": supported connection protocols are http:// and \
             https://",
        ),
        (
            "cluster {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://a:1', tlsConfig: {}}}}",
            "validate: service.connection.tlsConfig: Invalid value: \"nil\": config must not be present when using HTTP",
        ),
        (
            "cluster {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://a:1'}}}",
            "validate: service.connection.tlsConfig: Required value: TLSConfig must be present when using HTTPS",
        ),
        (
            &https("{caBundle: /nope, clientKey: /nope2}"),
            "validate: [service.connection.tlsConfig.caBundle: Invalid value: \"/nope\": TLS config ca bundle does not \
             exist, service.connection.tlsConfig.clientCert: Invalid value: \"nil\": Using TLS requires clientCert, \
             service.connection.tlsConfig.clientKey: Invalid value: \"/nope2\": TLS client key does not exist]",
        ),
        (
            "cluster {proxyProtocol: GRPC}",
            "validate: service.connection.transport: Required value: transport must be set for GRPC",
        ),
        (
            "cluster {proxyProtocol: GRPC, transport: {tcp: {url: 'http://a:1'}}}",
            "validate: service.connection.uds: Required value: UDS must be set with GRPC",
        ),
        (
            &https(&tls("no.pem", "client.key")),
            &format!("{set_up}failed to append CA cert to the cert pool"),
        ),
        (
            &https(&tls("ca.crt", "no.pem")),
            &format!(
                "{set_up}failed to read key pair {} & {}, got ",
                file("client.crt"),
                file("no.pem")
            ),
        ),
    ] {
        let each = selections.split("; ").filter_map(|selection| selection.split_once(' '));
        let each =
            each.map(|(name, connection)| format!("- name: {name}\n  connection: {connection}\n"));
        let text = format!("{HEAD}egressSelections:\n{}", each.collect::<String>());
        let said = said(&text);
        let begins = expected.ends_with("got ") && said.starts_with(expected);
        assert!(said == expected || begins, "{selections}\n{said}\n{expected}");
    }
}
