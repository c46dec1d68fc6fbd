//! What the files of structured configuration have in common, and those who say how they were taken up.

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

/// The versions of `apiserver.config.k8s.io` that files may be written in. All have the same fields.
const VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1beta1",
    "apiserver.config.k8s.io/v1alpha1",
];

/// The tree of a file that must be of a kind, and what stands in it twice. `scheme` is what the
/// reference calls the place that knows the kind.
pub fn decode(text: &[u8], kind: &str, scheme: &str) -> Result<(Value, Vec<String>), String> {
    decode_one_of(text, &VERSIONS.map(|version| (version, kind)), scheme)
}

/// The same of a file that may be of several kinds, each with its version.
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

/// What is counted of a file as it changes, by how long that will mean the same.
const BETA: [&str; 2] = [
    "[BETA] Changes of the configuration that were taken up or not.",
    "[BETA] When a change of the configuration was taken up, or not, last.",
];
const ALPHA: [&str; 2] = [
    "[ALPHA] Changes of the configuration that were taken up or not.",
    "[ALPHA] When a change of the configuration was taken up, or not, last.",
];

/// How a file was taken up as it changed, by the reference's names.
#[derive(Debug)]
pub struct Reloads {
    total: Arc<Family<Counter>>,
    last: Arc<Family<Gauge>>,
    info: Arc<Family<Gauge>>,
    /// The hash of the server's ID.
    server: String,
    clock: Clock,
    /// The hash of the text in force.
    text: Mutex<Option<String>>,
}

impl Reloads {
    /// Those of `AuthenticationConfiguration`.
    pub fn authentication(metrics: &Metrics, server_id: &str) -> Self {
        let names = [
            "apiserver_authentication_config_controller_automatic_reloads_total",
            "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
            "apiserver_authentication_config_controller_last_config_info",
        ];
        Reloads::new(metrics, names, BETA, server_id)
    }

    /// Those of `EncryptionConfiguration`.
    pub fn encryption(metrics: &Metrics, server_id: &str) -> Self {
        let names = [
            "apiserver_encryption_config_controller_automatic_reloads_total",
            "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
            "apiserver_encryption_config_controller_last_config_info",
        ];
        Reloads::new(metrics, names, ALPHA, server_id)
    }

    /// Those of `AuthorizationConfiguration`.
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
                "[ALPHA] Which configuration is in force.",
                &["apiserver_id_hash", "hash"],
            )),
            server: sha256(server_id.as_bytes()),
            clock: metrics.clock.clone(),
            text: Mutex::default(),
        }
    }

    /// The text that the server started with.
    pub fn loaded(&self, text: &[u8]) {
        let hash = sha256(text);
        let before = self.text.lock().unwrap_or_else(PoisonError::into_inner).replace(hash.clone());
        if let Some(before) = before.filter(|before| *before != hash) {
            self.info.remove(&[&self.server, &before]);
        }
        self.info.with(&[&self.server, &hash]).set(1);
    }

    /// Another text is in force.
    pub fn succeeded(&self, text: &[u8]) {
        self.record("success");
        self.loaded(text);
    }

    /// Another text was not taken up.
    pub fn failed(&self) {
        self.record("failure");
    }

    fn record(&self, status: &str) {
        self.total.with(&[status, &self.server]).increment();
        self.last.with(&[status, &self.server]).set(Time::now(&self.clock).seconds);
    }
}

/// What metrics tell of a text: `sha256:` and its hash, nothing of no text.
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
