//! Every flag of the reference is there, with its section, type and default.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use kevel_test_support::facts;
use kube_apiserver::flags::State;
use kube_apiserver::options::ServerRunOptions;

#[test]
fn every_flag_of_the_reference_is_there() {
    let expected: BTreeSet<(String, String, String)> = facts::lines("flags.txt")
        .iter()
        .map(|line| (line[2..].join(" "), line[0].clone(), line[1].clone()))
        .collect();
    assert!(expected.len() > 150, "{}", expected.len());
    let options = ServerRunOptions::default();
    let mut found = BTreeSet::new();
    for section in options.sections() {
        for (flag, value) in section.flags().iter().zip(section.values()) {
            let value_type = value.value_type();
            let implied = value_type.implied.filter(|_| value_type.name != "bool");
            let name = value_type.name.to_owned();
            let name = implied.map_or(name.clone(), |implied| format!("{name}[={implied}]"));
            if !flag.facts.hidden && section.name() != "kevel" {
                found.insert((section.name().to_lowercase(), flag.name(), name));
            }
        }
    }
    let missing: Vec<_> = expected.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
}

/// The defaults of the reference, but for those that are zero: no text, no number, no list, false.
const DEFAULTS: &str = "\
admission: default-not-ready-toleration-seconds=300 default-unreachable-toleration-seconds=300
auditing: audit-log-batch-buffer-size=10000 audit-log-batch-max-size=1 audit-log-format=json \
audit-log-maxage=366 audit-log-maxbackup=100 audit-log-maxsize=100 audit-log-mode=blocking \
audit-log-truncate-max-batch-size=10485760 audit-log-truncate-max-event-size=102400 \
audit-log-version=audit.k8s.io/v1 audit-webhook-batch-buffer-size=10000 \
audit-webhook-batch-initial-backoff=10s audit-webhook-batch-max-size=400 \
audit-webhook-batch-max-wait=30s audit-webhook-batch-throttle-burst=15 \
audit-webhook-batch-throttle-enable=true audit-webhook-batch-throttle-qps=10 \
audit-webhook-initial-backoff=10s audit-webhook-mode=batch \
audit-webhook-truncate-max-batch-size=10485760 audit-webhook-truncate-max-event-size=102400 \
audit-webhook-version=audit.k8s.io/v1
authentication: anonymous-auth=true authentication-token-webhook-cache-ttl=2m0s \
authentication-token-webhook-version=v1beta1 oidc-signing-algs=[RS256] oidc-username-claim=sub \
service-account-extend-token-expiration=true service-account-lookup=true
authorization: authorization-webhook-cache-authorized-ttl=5m0s \
authorization-webhook-cache-unauthorized-ttl=30s authorization-webhook-version=v1beta1
etcd: default-watch-cache-size=100 delete-collection-workers=1 enable-garbage-collector=true \
etcd-compaction-interval=5m0s etcd-count-metric-poll-period=1m0s etcd-db-metric-poll-interval=30s \
etcd-healthcheck-timeout=2s etcd-prefix=/registry etcd-readycheck-timeout=2s \
lease-reuse-duration-seconds=60 storage-media-type=application/vnd.kubernetes.protobuf \
watch-cache=true
features: enable-priority-and-fairness=true profiling=true
generic: max-mutating-requests-inflight=200 max-requests-inflight=400 min-request-timeout=1800 \
request-timeout=1m0s storage-initialization-timeout=1m0s
kevel: data-dir=./kevel-data
logs: log-flush-frequency=5s logging-format=text
metrics: allow-metric-labels=[]
misc: aggregator-reject-forwarding-redirect=true apiserver-count=1 \
coordinated-leadership-lease-duration=15s coordinated-leadership-renew-deadline=10s \
coordinated-leadership-retry-period=2s endpoint-reconciler-type=lease event-ttl=1h0m0s \
kubelet-port=10250 \
kubelet-preferred-address-types=[Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP] \
kubelet-read-only-port=10255 kubelet-timeout=5s service-node-port-range=30000-32767
secure serving: bind-address=0.0.0.0 cert-dir=/var/run/kubernetes secure-port=6443 \
tls-curve-preferences=[] tls-sni-cert-key=[]
";

#[test]
fn defaults_are_the_references() {
    let options = ServerRunOptions::default();
    let mut lines: Vec<String> = Vec::new();
    for section in options.sections() {
        let flags = section.flags().iter().zip(section.values());
        let mut defaults: Vec<String> = flags
            .filter(|(_, value)| value.text() != value.value_type().zero)
            .map(|(flag, value)| format!(" {}={}", flag.name(), value.text()))
            .collect();
        defaults.sort();
        if !defaults.is_empty() {
            lines.push(format!("{}:{}\n", section.name(), defaults.concat()));
        }
    }
    lines.sort();
    assert_eq!(lines.concat(), DEFAULTS);
}

#[test]
fn names_are_unique_and_every_flag_has_help() {
    let options = ServerRunOptions::default();
    let flags = options.flags();
    let names: BTreeSet<String> = flags.iter().map(|(flag, _)| flag.name()).collect();
    assert_eq!(names.len(), flags.len());
    for (flag, _) in flags {
        let help = flag.help.concat();
        assert!(help.trim().ends_with('.'), "--{}: {help}", flag.name());
    }
}

/// The words of all sources below a folder or in a file, beginning at `src`.
fn words(path: &str) -> Vec<String> {
    let mut paths = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src").join(path)];
    let mut words = Vec::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let of = |line: &str| -> Vec<String> {
            let parts = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            parts.map(str::to_owned).collect()
        };
        words.extend(code.flat_map(of));
    }
    words
}

/// Every flag with an effect is read by code that acts on it, and a flag without an effect is not.
#[test]
fn the_state_of_a_flag_is_true() {
    let everywhere = words("");
    let acting = [words("server"), words("logging"), words("command.rs")].concat();
    for (flag, _) in ServerRunOptions::default().flags() {
        let read = |words: &[String]| words.iter().filter(|word| *word == flag.field).count();
        match flag.facts.state {
            // Once where it is declared.
            State::Effective => assert!(read(&everywhere) > 1, "--{} is not read", flag.name()),
            State::Pending | State::Moot => {
                assert_eq!(read(&acting), 0, "--{} has an effect", flag.name());
            }
            State::Refused(_) => {}
        }
    }
}
