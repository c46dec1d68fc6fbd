//! Structured configuration files: decoding, and the metrics of their reloads.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use crate::metrics::{Counter, Description, Family, Gauge, Metrics};
use kevel_api::quote::quote;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_clock::Clock;
use kevel_codec::json::Unknown;
use kevel_codec::yaml;
use ring::digest::{SHA256, digest};

/// Accepted versions of `apiserver.config.k8s.io`. All have the same fields.
const VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1beta1",
    "apiserver.config.k8s.io/v1alpha1",
];

/// Decodes a file of a kind into its tree and the strict-decoding errors. `scheme` is the reference's name of the
/// scheme that registers the kind.
pub fn decode(text: &[u8], kind: &str, scheme: &str) -> Result<(Value, Vec<String>), String> {
    decode_one_of(text, &VERSIONS.map(|version| (version, kind)), scheme)
}

/// Decodes a file like [`decode`], of one of several kinds, each with its version.
pub fn decode_one_of(
    text: &[u8],
    kinds: &[(&str, &str)],
    scheme: &str,
) -> Result<(Value, Vec<String>), String> {
    let decoded = yaml::decode_any(text, Unknown::Report).map_err(|error| error.to_string())?;
    let shown = || String::from_utf8_lossy(text);
    match (decoded.value.str_at(&["apiVersion"]), decoded.value.str_at(&["kind"])) {
        (_, "") => return Err(format!("Object 'Kind' is missing in '{}'", shown())),
        ("", _) => return Err(format!("Object 'apiVersion' is missing in '{}'", shown())),
        found if kinds.contains(&found) => {}
        (version, found) => {
            return Err(format!(
                "no kind {} is registered for version {} in scheme {}",
                quote(found),
                quote(version),
                quote(scheme)
            ));
        }
    }
    Ok((decoded.value, decoded.strict))
}

/// Help texts of the reload metrics, by stability level.
const BETA: [&str; 2] = [
    "[BETA] Reloads of the configuration, by result.",
    "[BETA] Time of the last reload of the configuration, by result.",
];
const ALPHA: [&str; 2] = [
    "[ALPHA] Reloads of the configuration, by result.",
    "[ALPHA] Time of the last reload of the configuration, by result.",
];

/// Reload metrics of a configuration file, by the reference's names.
#[derive(Debug)]
pub struct Reloads {
    total: Arc<Family<Counter>>,
    last: Arc<Family<Gauge>>,
    info: Arc<Family<Gauge>>,
    /// Hash of the server's ID.
    server: String,
    clock: Clock,
    /// Hash of the text in force.
    text: Mutex<Option<String>>,
}

impl Reloads {
    /// Metrics of `AuthenticationConfiguration`.
    pub fn authentication(metrics: &Metrics, server_id: &str) -> Self {
        let names = [
            "apiserver_authentication_config_controller_automatic_reloads_total",
            "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
            "apiserver_authentication_config_controller_last_config_info",
        ];
        Reloads::new(metrics, names, BETA, server_id)
    }

    /// Metrics of `EncryptionConfiguration`.
    pub fn encryption(metrics: &Metrics, server_id: &str) -> Self {
        let names = [
            "apiserver_encryption_config_controller_automatic_reloads_total",
            "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
            "apiserver_encryption_config_controller_last_config_info",
        ];
        Reloads::new(metrics, names, ALPHA, server_id)
    }

    /// Metrics of `AuthorizationConfiguration`.
    pub fn authorization(metrics: &Metrics, server_id: &str) -> Self {
        let names = [
            "apiserver_authorization_config_controller_automatic_reloads_total",
            "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
            "apiserver_authorization_config_controller_last_config_info",
        ];
        Reloads::new(metrics, names, BETA, server_id)
    }

    fn new(
        metrics: &Metrics,
        [total, last, info]: [&'static str; 3],
        [total_help, last_help]: [&'static str; 2],
        server_id: &str,
    ) -> Self {
        const STATUS: &[&str] = &["status", "apiserver_id_hash"];
        let describe = |name, help, labels| Description { name, help, labels };
        Reloads {
            total: metrics.counter(describe(total, total_help, STATUS)),
            last: metrics.gauge(describe(last, last_help, STATUS)),
            info: metrics.gauge(describe(
                info,
                "[ALPHA] Hash of the configuration in effect.",
                &["apiserver_id_hash", "hash"],
            )),
            server: sha256(server_id.as_bytes()),
            clock: metrics.clock.clone(),
            text: Mutex::default(),
        }
    }

    /// Records the text that the server started with.
    pub fn loaded(&self, text: &[u8]) {
        let hash = sha256(text);
        let before = self.text.lock().unwrap_or_else(PoisonError::into_inner).replace(hash.clone());
        if let Some(before) = before.filter(|before| *before != hash) {
            self.info.remove(&[&self.server, &before]);
        }
        self.info.with(&[&self.server, &hash]).set(1);
    }

    /// Records that a changed text is in force.
    pub fn succeeded(&self, text: &[u8]) {
        self.record("success");
        self.loaded(text);
    }

    /// Records that a changed text was rejected.
    pub fn failed(&self) {
        self.record("failure");
    }

    fn record(&self, status: &str) {
        self.total.with(&[status, &self.server]).increment();
        self.last.with(&[status, &self.server]).set(Time::now(&self.clock).seconds);
    }
}

/// Hash of a text for metrics: `sha256:` and the digest; empty for an empty text.
pub fn sha256(text: &[u8]) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut shown = "sha256:".to_owned();
    for byte in digest(&SHA256, text).as_ref() {
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}
