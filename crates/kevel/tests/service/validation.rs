//! Validation errors of Services in the reference's words.

use serde_json::{Value, json};

use super::Services as _;

/// Posts objects and compares what is wrong with them.
async fn check(path: &str, cases: &[(Value, &[&str])]) {
    let cluster = super::start().await;
    for (object, expected) in cases {
        let (code, refused) = cluster.request("POST", path, Some(object.clone())).await;
        assert_eq!(code, 422, "{object}: {refused}");
        let causes = refused["details"]["causes"].as_array().unwrap();
        let found: Vec<String> = causes
            .iter()
            .map(|cause| {
                let text = |field: &str| cause[field].as_str().unwrap().to_owned();
                format!("{}: {}", text("field"), text("message"))
            })
            .collect();
        assert_eq!(found, *expected, "{object}");
    }
    cluster.stop().await;
}

fn service(spec: Value) -> Value {
    json!({"metadata": {"name": "s"}, "spec": spec})
}

#[tokio::test(flavor = "multi_thread")]
async fn services() {
    let port = json!([{"port": 80}]);
    check(
        "/api/v1/namespaces/test/services",
        &[
            (service(json!({})), &["spec.ports: Required value"]),
            (
                json!({"metadata": {"name": "S"}, "spec": {"ports": port}}),
                &[
                    "metadata.name: Invalid value: \"S\": a lowercase RFC 1123 label must consist \
                     of lower case alphanumeric characters or '-', and must start and end with an \
                     alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ],
            ),
            (
                service(json!({"ports": [{"port": 0}, {"port": 70000, "name": "a"}]})),
                &[
                    "spec.ports[0].name: Required value",
                    "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, \
                     inclusive",
                    "spec.ports[1].port: Invalid value: 70000: must be between 1 and 65535, \
                     inclusive",
                    "spec.ports[1].targetPort: Invalid value: 70000: must be between 1 and 65535, \
                     inclusive",
                ],
            ),
            (
                service(json!({"type": "Odd", "ports": port})),
                &["spec.type: Unsupported value: \"Odd\": supported values: \"ClusterIP\", \
                   \"ExternalName\", \"LoadBalancer\", \"NodePort\""],
            ),
            (
                service(json!({"clusterIP": "x", "ports": port})),
                &["spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. \
                   10.9.8.7 or 2001:db8::ffff)"],
            ),
            (
                service(json!({"ipFamilies": ["IPv6"], "ports": port})),
                &["spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"],
            ),
            (
                service(json!({"ipFamilyPolicy": "RequireDualStack", "ports": port})),
                &["spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not \
                   configured for dual-stack services"],
            ),
            (
                service(json!({"ports": [{"port": 80, "nodePort": 30000}]})),
                &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
            ),
            (
                service(json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]})),
                &["spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\
                   \"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}"],
            ),
            (
                service(json!({"type": "ExternalName", "externalName": "a_b"})),
                &["spec.externalName: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain must \
                   consist of lower case alphanumeric characters, '-' or '.', and must start and \
                   end with an alphanumeric character (e.g. 'example.com', regex used for \
                   validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"],
            ),
            (
                service(json!({"externalIPs": ["127.0.0.1"], "ports": port})),
                &["spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback \
                   range (127.0.0.0/8, ::1/128)"],
            ),
            (
                service(json!({"loadBalancerClass": "a/b", "ports": port})),
                &["spec.loadBalancerClass: Forbidden: may only be used when `type` is \
                   'LoadBalancer'"],
            ),
            (
                service(json!({"externalTrafficPolicy": "Local", "ports": port})),
                &["spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for \
                   externally-accessible services"],
            ),
            (
                service(json!({"trafficDistribution": "Far", "ports": port})),
                &["spec.trafficDistribution: Unsupported value: \"Far\": supported values: \
                   \"PreferClose\", \"PreferSameZone\", \"PreferSameNode\""],
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints() {
    let endpoints = |subsets: Value| json!({"metadata": {"name": "e"}, "subsets": subsets});
    check(
        "/api/v1/namespaces/test/endpoints",
        &[
            (
                endpoints(json!([{"ports": [{"port": 80}]}])),
                &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
            ),
            (
                endpoints(json!([{"addresses": [{"ip": "::1"}], "ports": [{"port": 0}]}])),
                &[
                    "subsets[0].addresses[0].ip: Invalid value: \"::1\": may not be in the \
                     loopback range (127.0.0.0/8, ::1/128)",
                    "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, \
                     inclusive",
                ],
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_slices() {
    let slice = |ty: &str, address: &str| {
        json!({
            "metadata": {"name": "e"}, "addressType": ty,
            "endpoints": [{"addresses": [address]}],
        })
    };
    check(
        "/apis/discovery.k8s.io/v1/namespaces/test/endpointslices",
        &[
            (
                slice("IPv4", "x"),
                &["endpoints[0].addresses[0]: Invalid value: \"x\": must be a valid IP address, \
                   (e.g. 10.9.8.7 or 2001:db8::ffff)"],
            ),
            (
                slice("IPv6", "1.2.3.4"),
                &["endpoints[0].addresses: Invalid value: \"1.2.3.4\": must be an IPv6 address"],
            ),
            (
                slice("Other", "x"),
                &["addressType: Unsupported value: \"Other\": supported values: \"FQDN\", \
                   \"IPv4\", \"IPv6\""],
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn networks_and_addresses() {
    let network = |cidrs: Value| json!({"metadata": {"name": "n"}, "spec": {"cidrs": cidrs}});
    check(
        "/apis/networking.k8s.io/v1/servicecidrs",
        &[
            (network(json!([])), &["spec.cidrs: Required value: at least one CIDR required"]),
            (
                network(json!(["10.1.0.0/16", "10.2.0.0/16"])),
                &["spec.cidrs: Invalid value: [\"10.1.0.0/16\",\"10.2.0.0/16\"]: may specify no \
                   more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"],
            ),
            (
                network(json!(["10.1.2.0/16"])),
                &["spec.cidrs[0]: Invalid value: \"10.1.2.0/16\": must not have bits set beyond \
                   the prefix length"],
            ),
        ],
    )
    .await;
    let address = |name: &str, parent: Value| json!({"metadata": {"name": name}, "spec": parent});
    let parent = json!({"parentRef": {"resource": "services", "name": "s", "namespace": "test"}});
    check(
        "/apis/networking.k8s.io/v1/ipaddresses",
        &[
            (
                address("x", parent.clone()),
                &["metadata.name: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 \
                   or 2001:db8::ffff)"],
            ),
            (
                address("2001:DB8::1", parent),
                &["metadata.name: Invalid value: \"2001:DB8::1\": must be in canonical form \
                   (\"2001:db8::1\")"],
            ),
            (
                address("192.168.1.1", json!({"parentRef": {"resource": "services"}})),
                &["spec.parentRef.name: Required value"],
            ),
            (address("192.168.1.1", json!({})), &["spec.parentRef: Required value"]),
        ],
    )
    .await;
}
