//! Arguments in, options or a message out.

use kevel_api::field_error::aggregate;
use kube_apiserver::flags::State;
use kube_apiserver::options::{CompletedOptions, ServerRunOptions, StorageKind};
use std::fs;

/// Reads and completes arguments separated by spaces; the host's network does not matter.
fn complete(arguments: &str) -> Result<CompletedOptions, String> {
    let arguments = format!("--advertise-address=10.1.1.1 {arguments}");
    let mut options = ServerRunOptions::default();
    options.parse(arguments.split_whitespace().map(str::to_owned).collect())?;
    options.complete()
}

/// Validation errors of the arguments; empty if they are valid.
fn mistake(arguments: &str) -> String {
    match complete(arguments) {
        Ok(completed) => aggregate(completed.validate()).unwrap_or_default(),
        Err(error) => error,
    }
}

#[test]
fn arguments_set_values() {
    for (arguments, flag, text) in [
        ("", "secure-port", "6443"),
        ("--secure-port=1", "secure-port", "1"),
        ("--secure-port 0x10", "secure-port", "16"),
        ("--secure_port=2", "secure-port", "2"),
        ("--secure-port=1 --secure-port=2", "secure-port", "2"),
        ("--profiling", "profiling", "true"),
        ("--profiling=false", "profiling", "false"),
        ("--profiling --secure-port 5", "secure-port", "5"),
        ("-v 2", "v", "2"),
        ("-v2", "v", "2"),
        ("-v=2", "v", "2"),
        ("--v=2", "v", "2"),
        ("--vmodule=a=1 --vmodule=b*=2", "vmodule", "a=1,b*=2"),
        ("--etcd-servers=a,b --etcd-servers=c", "etcd-servers", "[a,b,c]"),
        (
            "--service-account-issuer=a,b --service-account-issuer=c",
            "service-account-issuer",
            "[\"a,b\",c]",
        ),
        ("--kubelet-preferred-address-types=X", "kubelet-preferred-address-types", "[X]"),
        (
            "--oidc-required-claim=a=b --oidc-required-claim=c=d,e",
            "oidc-required-claim",
            "a=b,c=d,e",
        ),
        ("--runtime-config=b/v1=true,a/v1", "runtime-config", "a/v1=,b/v1=true"),
        ("--event-ttl=90m", "event-ttl", "1h30m0s"),
        ("--log-json-info-buffer-size=2Ki", "log-json-info-buffer-size", "2Ki"),
        ("--bind-address=::ffff:1.2.3.4", "bind-address", "1.2.3.4"),
        ("--service-node-port-range=100+5", "service-node-port-range", "100-105"),
        ("--tls-sni-cert-key=a,b:c --tls-sni-cert-key=d,e", "tls-sni-cert-key", "[a,b:c;d,e]"),
        ("--tls-curve-preferences=29,4588", "tls-curve-preferences", "[29,4588]"),
        ("--audit-log-batch-throttle-qps=2.5", "audit-log-batch-throttle-qps", "2.5"),
        ("--storage=memory", "storage", "memory"),
    ] {
        let mut options = ServerRunOptions::default();
        let arguments_list = arguments.split_whitespace().map(str::to_owned).collect();
        options.parse(arguments_list).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        let flags = options.flags();
        let (_, value) = flags.iter().find(|(found, _)| found.name() == flag).unwrap();
        assert_eq!(value.text(), text, "{arguments}");
    }
}

#[test]
fn arguments_that_cannot_be_read() {
    for (arguments, message) in [
        ("--foo", "unknown flag: --foo"),
        ("--foo_bar=1", "unknown flag: --foo_bar"),
        ("-x", "unknown shorthand flag: 'x' in -x"),
        ("-hx", "unknown shorthand flag: 'x' in -x"),
        ("--secure-port", "flag needs an argument: --secure-port"),
        ("-v", "flag needs an argument: 'v' in -v"),
        ("---x", "bad flag syntax: ---x"),
        ("--=x", "bad flag syntax: --=x"),
        (
            "--secure-port=x",
            "invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": \
             invalid syntax",
        ),
        (
            "-vx",
            "invalid argument \"x\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"x\": \
             invalid syntax",
        ),
        (
            "--profiling=x",
            "invalid argument \"x\" for \"--profiling\" flag: strconv.ParseBool: parsing \"x\": \
             invalid syntax",
        ),
        (
            "--request-timeout=5",
            "invalid argument \"5\" for \"--request-timeout\" flag: time: missing unit in duration \
             \"5\"",
        ),
        (
            "--bind-address=x",
            "invalid argument \"x\" for \"--bind-address\" flag: failed to parse IP: \"x\"",
        ),
        (
            "--storage=disk",
            "invalid argument \"disk\" for \"--storage\" flag: must be one of embedded, memory, etcd",
        ),
        (
            "--version=v1.35.0",
            "invalid argument \"v1.35.0\" for \"--version\" flag: version \"v1.35.0\" must match \
             major/minor/patch of default version \"v1.36.3+kevel\"",
        ),
    ] {
        assert_eq!(mistake(arguments), message, "{arguments}");
    }
}

#[test]
fn a_server_without_flags_keeps_everything_in_its_data_directory() {
    let completed = complete("").unwrap();
    assert_eq!(completed.validate(), [""; 0]);
    assert_eq!(completed.storage, StorageKind::Embedded);
    assert_eq!(completed.own_pki.as_deref(), Some("./kevel-data/pki"));
    assert_eq!(completed.flags.misc.service_account_signing_key_file, "./kevel-data/pki/sa.key");
    assert_eq!(*completed.flags.authorization.authorization_mode, ["AlwaysAllow"]);
    assert!(!completed.flags.authentication.anonymous_auth);
    assert_eq!(completed.service_ips.api_server.to_string(), "10.0.0.1");
    assert_eq!(completed.external_host, "10.1.1.1");
    let cert = completed.generated_cert.unwrap();
    assert_eq!(cert.cert_file, "./kevel-data/pki/apiserver.crt");
    assert_eq!(cert.alternate_dns.last().unwrap(), "localhost");
    assert_eq!(cert.alternate_ips, [completed.service_ips.api_server]);
}

#[test]
fn a_server_on_etcd_needs_what_the_reference_needs() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("sa.key");
    fs::write(&key, "a key").unwrap();
    let key = key.display();
    let completed = complete(&format!(
        "--etcd-servers=http://127.0.0.1:2379 --service-account-issuer=https://x \
         --service-account-key-file={key} --service-account-signing-key-file={key} \
         --authorization-mode=Node,RBAC --request-timeout=2m --bind-address=10.2.2.2 \
         --service-cluster-ip-range=10.96.0.0/12,fd00::/108 --disable-admission-plugins=LimitRanger \
         --enable-admission-plugins=NodeRestriction"
    ));
    let completed = completed.unwrap();
    assert_eq!(completed.validate(), [""; 0]);
    assert_eq!(completed.storage, StorageKind::Etcd);
    assert_eq!(completed.own_pki, None);
    assert!(completed.flags.authentication.anonymous_auth);
    assert_eq!(*completed.flags.authentication.api_audiences, ["https://x"]);
    assert_eq!(completed.events_history_window.to_string(), "2m15s");
    assert_eq!(completed.service_ips.secondary.unwrap().to_string(), "fd00::/108");
    let plugins = &completed.admission_plugins;
    assert!(plugins.contains(&"NodeRestriction") && !plugins.contains(&"LimitRanger"));
    let cert = completed.generated_cert.unwrap();
    assert_eq!(cert.key_file, "/var/run/kubernetes/apiserver.key");
    assert_eq!(cert.alternate_ips.last().unwrap().to_string(), "10.2.2.2");
}

#[test]
fn mistakes_are_told_as_the_reference_tells_them() {
    for (arguments, message) in [
        (
            "--storage=memory --etcd-servers=http://a",
            "--etcd-servers can only be specified with --storage=etcd",
        ),
        (
            "--storage=memory --etcd-servers-overrides=/events#http://a",
            "--etcd-servers-overrides can only be specified with --storage=etcd",
        ),
        (
            "--secure-port=0",
            "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
        ),
        (
            "--max-requests-inflight=-1 --shutdown-delay-duration=-1s --goaway-chance=1",
            "[--max-requests-inflight can not be negative value, --goaway-chance can not be less \
             than 0 or greater than 0.02, --shutdown-delay-duration can not be negative value]",
        ),
        (
            "--max-requests-inflight=0 --max-mutating-requests-inflight=0",
            "invalid configuration: MaxRequestsInFlight=0 and MaxMutatingRequestsInFlight=0; they \
             must add up to something positive",
        ),
        ("--authorization-mode=Foo", "authorization-mode \"Foo\" is not a valid mode"),
        (
            "--authorization-mode=RBAC,RBAC",
            "authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once",
        ),
        (
            "--authorization-config=x --authorization-mode=RBAC",
            "--authorization-config can not be specified when --authorization-mode or \
             --authorization-webhook-* flags are defined",
        ),
        (
            "--storage=etcd",
            "[--etcd-servers must be specified, service-account-issuer is a required flag, either \
             `--service-account-key-file` or `--service-account-signing-endpoint` must be set, \
             --service-account-signing-key-file and --service-account-issuer are required flags]",
        ),
        (
            "--service-account-issuer=x",
            "[either `--service-account-key-file` or `--service-account-signing-endpoint` must be \
             set, --service-account-signing-key-file, --service-account-issuer, and \
             --api-audiences should be specified together]",
        ),
        (
            "--service-account-key-file=x",
            "[service-account-issuer is a required flag, --service-account-signing-key-file and \
             --service-account-issuer are required flags]",
        ),
        (
            "--service-account-max-token-expiration=1m",
            "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds",
        ),
        (
            "--oidc-client-id=x",
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags \
             are set",
        ),
        (
            "--admission-control=Foo --enable-admission-plugins=Bar",
            "[admission-control and enable-admission-plugins/disable-admission-plugins flags are \
             mutually exclusive, admission-control plugin \"Foo\" is unknown, \
             enable-admission-plugins plugin \"Bar\" is unknown]",
        ),
        (
            "--enable-admission-plugins=PodSecurity,Priority \
             --disable-admission-plugins=Priority,PodSecurity",
            "[PodSecurity Priority] in enable-admission-plugins and disable-admission-plugins \
             overlapped",
        ),
        ("--feature-gates=Foo=true", "unrecognized feature gate: Foo"),
        (
            "--emulated-version=1.30",
            "[emulation version 1.30 is not between [1.33, 1.36.0], minCompatibilityVersion \
             version 1.33 is not between [1.33, 1.30]]",
        ),
        (
            "--emulation-forward-compatible",
            "ServerRunOptions.EmulationForwardCompatible cannot be set to true if the emulation \
             version is the same as the binary version",
        ),
        ("--runtime-config=foo/v1=true", "unknown api groups foo/v1"),
        (
            "--runtime-config=api/ga=false",
            "--runtime-config=api/ga=false conflicts with --enable-priority-and-fairness=true",
        ),
        (
            "--service-cluster-ip-range=fd00::/108",
            "service IP family \"fd00::/108\" must match public address family \"10.1.1.1\"",
        ),
        (
            "--kubernetes-service-node-port=80",
            "kubernetes service node port range 30000-32767 doesn't contain 80",
        ),
        (
            "--coordinated-leadership-retry-period=1h",
            "--coordinated-leadership-renew-deadline must be greater than \
             --coordinated-leadership-retry-period",
        ),
        ("--tls-min-version=SSLv3", "unknown tls version \"SSLv3\""),
        ("--tls-cipher-suites=NULL", "Cipher suite NULL not supported or doesn't exist"),
        (
            "--encryption-provider-config-automatic-reload",
            "--encryption-provider-config-automatic-reload must be set with \
             --encryption-provider-config",
        ),
        ("--watch-cache-sizes=pods", "invalid value of watch cache size: pods"),
        (
            "--show-hidden-metrics-for-version=1.34",
            "metrics.showHiddenMetricsForVersion: Invalid value: \"1.34\": must be omitted or have \
             the value '1.35'; only the previous minor version is allowed",
        ),
        (
            "--cors-allowed-origins=example.com",
            "--cors-allowed-origins has an invalid regular expression: regular expression does not \
             pin to start/end of host in the origin header, help: tie each expression to the start \
             of the host, with '^' or '//', and to its end, with '$' or ':', as in \
             '//example\\.com(:|$)'",
        ),
    ] {
        assert_eq!(mistake(arguments), message, "{arguments}");
    }
}

/// A closed feature stays closed: a server that cannot do it does not start.
#[test]
fn what_would_be_left_open_is_refused() {
    for (arguments, message) in [
        (
            "--feature-gates=ServiceCIDRStatusFieldWiping=false",
            "--feature-gates=ServiceCIDRStatusFieldWiping=false is not supported by this server: it \
             acts as if the feature were always on",
        ),
        (
            "--feature-gates=NativeHistograms=true",
            "--feature-gates=NativeHistograms=true is not supported by this server: it acts as \
             if the feature were always off",
        ),
        // What is so anyway may be said.
        ("--enable-admission-plugins=ValidatingAdmissionWebhook", ""),
        ("--feature-gates=ServiceCIDRStatusFieldWiping=true", ""),
        ("--feature-gates=AllAlpha=true,AllBeta=true", ""),
        ("--feature-gates=ConstrainedImpersonation=false", ""),
    ] {
        assert_eq!(mistake(arguments), message, "{arguments}");
    }
}

/// Flags without an effect, and the reason why this is safe. All others are effective or refused.
const HARMLESS: &[(&str, &str)] =
    &[("contention-profiling", "profiles"), ("enable-logs-handler", "nothing is served")];

#[test]
fn security_does_not_rest_on_flags_without_effect() {
    let options = ServerRunOptions::default();
    let flags = options.flags().into_iter();
    let pending = flags.filter(|(flag, _)| flag.facts.state == State::Pending);
    let pending: Vec<String> = pending.map(|(flag, _)| flag.name()).collect();
    let harmless: Vec<&str> = HARMLESS.iter().map(|(name, _)| *name).collect();
    assert_eq!(pending, harmless);
}

#[test]
fn what_a_feature_keeps_safe_is_served_with_it_only() {
    let beta = "--runtime-config=certificates.k8s.io/v1beta1=true";
    let gate = "--feature-gates=ClusterTrustBundle=true";
    for (arguments, served) in
        [(beta.to_owned(), false), (gate.to_owned(), false), (format!("{beta} {gate}"), true)]
    {
        let config = complete(&arguments).unwrap().resource_config();
        let found = config.enabled("certificates.k8s.io", "v1beta1", "clustertrustbundles");
        assert_eq!(found, served, "{arguments}");
        assert!(!config.enabled("certificates.k8s.io", "v1beta1", "podcertificaterequests"));
    }
}

#[test]
fn authorities_of_clients_and_of_proxies_are_not_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bodies: &[&str]| {
        let path = directory.path().join(name);
        let block = |body: &&str| {
            format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
        };
        fs::write(&path, bodies.iter().map(block).collect::<String>()).unwrap();
        path.display().to_string()
    };
    let (clients, proxies) = (file("clients", &["AAAA", "BBBB"]), file("proxies", &["BB\nBB"]));
    let flags = format!("--client-ca-file={clients} --requestheader-client-ca-file={proxies}");
    assert!(mistake(&flags).contains("contain overlapping certificates"));
    assert_eq!(mistake(&format!("{flags} --requestheader-allowed-names=proxy")), "");
}
