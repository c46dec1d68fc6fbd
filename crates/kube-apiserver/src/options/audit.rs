//! Flags of the audit log and its webhook.

use crate::flags::{EFFECTIVE, section};
use kevel_api::duration::Duration;
use kevel_api::quote::quote;

section! {
    /// Options of the audit log and its webhook.
    Audit, "auditing" {
        /// Number of events that wait to be written before more are dropped. Batch mode only.
        audit_log_batch_buffer_size: i64 = "10000", EFFECTIVE;
        /// Number of events that are written at a time. Batch mode only.
        audit_log_batch_max_size: i64 = "1", EFFECTIVE;
        /// After how long a batch that is not full is written. Batch mode only.
        audit_log_batch_max_wait: Duration = "0s", EFFECTIVE;
        /// Number of batches that may be written at once after a pause. Batch mode only.
        audit_log_batch_throttle_burst: i64 = "0", EFFECTIVE;
        /// Limit the rate of batches. Batch mode only.
        audit_log_batch_throttle_enable: bool = "false", EFFECTIVE;
        /// Average number of batches per second. Batch mode only.
        audit_log_batch_throttle_qps: f32 = "0", EFFECTIVE;
        /// Compress old log files with gzip.
        audit_log_compress: bool = "false", EFFECTIVE;
        /// Form of the log: json, an object per event, or legacy, a line of text per event.
        audit_log_format: String = "json", EFFECTIVE;
        /// Days for which old log files are kept, by the date in their names; 0 keeps them.
        audit_log_maxage: i64 = "366", EFFECTIVE;
        /// Number of old log files that are kept; 0 keeps them all.
        audit_log_maxbackup: i64 = "100", EFFECTIVE;
        /// Megabytes after which a new log file is begun; 0 goes on with one file.
        audit_log_maxsize: i64 = "100", EFFECTIVE;
        /// Time of writing events: batch (later, in batches), blocking (before the answer) or blocking-strict (before
        /// the answer, and a request whose receipt cannot be logged fails).
        audit_log_mode: String = "blocking", EFFECTIVE;
        /// File for the audit log; '-' is standard output. Without it there is no audit log.
        audit_log_path: String, EFFECTIVE;
        /// Cut events and batches that are too large.
        audit_log_truncate_enabled: bool = "false", EFFECTIVE;
        /// Bytes above which a batch is split.
        audit_log_truncate_max_batch_size: i64 = "10485760", EFFECTIVE;
        /// Bytes above which an event loses its request and response, and is dropped if that does
        /// not suffice.
        audit_log_truncate_max_event_size: i64 = "102400", EFFECTIVE;
        /// Group and version of the events in the log.
        audit_log_version: String = "audit.k8s.io/v1", EFFECTIVE;
        /// File with the policy that says which requests are audited and how much of them. Without
        /// it nothing is.
        audit_policy_file: String, EFFECTIVE;
        /// Number of events that wait to be sent before more are dropped. Batch mode only.
        audit_webhook_batch_buffer_size: i64 = "10000", EFFECTIVE;
        /// The old name of --audit-webhook-initial-backoff.
        audit_webhook_batch_initial_backoff: Duration = "10s", EFFECTIVE
            .deprecated("Deprecated, use --audit-webhook-initial-backoff instead.")
            .hidden();
        /// Number of events that are sent at a time. Batch mode only.
        audit_webhook_batch_max_size: i64 = "400", EFFECTIVE;
        /// After how long a batch that is not full is sent. Batch mode only.
        audit_webhook_batch_max_wait: Duration = "30s", EFFECTIVE;
        /// Number of batches that may be sent at once after a pause. Batch mode only.
        audit_webhook_batch_throttle_burst: i64 = "15", EFFECTIVE;
        /// Limit the rate of batches. Batch mode only.
        audit_webhook_batch_throttle_enable: bool = "true", EFFECTIVE;
        /// Average number of batches per second. Batch mode only.
        audit_webhook_batch_throttle_qps: f32 = "10", EFFECTIVE;
        /// Kubeconfig file of the audit webhook.
        audit_webhook_config_file: String, EFFECTIVE;
        /// First delay before a failed request is repeated.
        audit_webhook_initial_backoff: Duration = "10s", EFFECTIVE;
        /// Time of sending events: batch (later, in batches), blocking (before the answer) or blocking-strict (before
        /// the answer, and a request whose receipt cannot be sent fails).
        audit_webhook_mode: String = "batch", EFFECTIVE;
        /// Cut events and batches that are too large.
        audit_webhook_truncate_enabled: bool = "false", EFFECTIVE;
        /// Bytes above which a batch is split.
        audit_webhook_truncate_max_batch_size: i64 = "10485760", EFFECTIVE;
        /// Bytes above which an event loses its request and response, and is dropped if that does
        /// not suffice.
        audit_webhook_truncate_max_event_size: i64 = "102400", EFFECTIVE;
        /// Group and version of the events that are sent.
        audit_webhook_version: String = "audit.k8s.io/v1", EFFECTIVE;
    }
}

impl Audit {
    /// Validation errors of these options; a backend that is off is not validated.
    pub(super) fn validate(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if !self.audit_log_path.is_empty() {
            errors.extend(self.log().errors());
            if !matches!(self.audit_log_format.as_str(), "legacy" | "json") {
                errors.push(format!(
                    "invalid audit log format {}, allowed formats are \"legacy,json\"",
                    self.audit_log_format
                ));
            }
            for (flag, value) in [
                ("audit-log-maxage", self.audit_log_maxage),
                ("audit-log-maxbackup", self.audit_log_maxbackup),
                ("audit-log-maxsize", self.audit_log_maxsize),
            ] {
                if value < 0 {
                    errors.push(format!("--{flag} {value} can't be a negative number"));
                }
            }
        }
        if !self.audit_webhook_config_file.is_empty() {
            errors.extend(self.webhook().errors());
        }
        errors
    }

    /// Options of the log backend.
    pub(crate) fn log(&self) -> Backend<'_> {
        Backend {
            name: "log",
            mode: &self.audit_log_mode,
            buffer_size: self.audit_log_batch_buffer_size,
            max_size: self.audit_log_batch_max_size,
            max_wait: self.audit_log_batch_max_wait,
            throttle: self.audit_log_batch_throttle_enable.then_some((
                self.audit_log_batch_throttle_qps,
                self.audit_log_batch_throttle_burst,
            )),
            truncates: self.audit_log_truncate_enabled,
            truncate: (
                self.audit_log_truncate_max_batch_size,
                self.audit_log_truncate_max_event_size,
            ),
            version: &self.audit_log_version,
        }
    }

    /// Options of the webhook backend.
    pub(crate) fn webhook(&self) -> Backend<'_> {
        Backend {
            name: "webhook",
            mode: &self.audit_webhook_mode,
            buffer_size: self.audit_webhook_batch_buffer_size,
            max_size: self.audit_webhook_batch_max_size,
            max_wait: self.audit_webhook_batch_max_wait,
            throttle: self.audit_webhook_batch_throttle_enable.then_some((
                self.audit_webhook_batch_throttle_qps,
                self.audit_webhook_batch_throttle_burst,
            )),
            truncates: self.audit_webhook_truncate_enabled,
            truncate: (
                self.audit_webhook_truncate_max_batch_size,
                self.audit_webhook_truncate_max_event_size,
            ),
            version: &self.audit_webhook_version,
        }
    }
}

/// Options that the log and webhook backends share.
pub(crate) struct Backend<'a> {
    name: &'static str,
    pub mode: &'a str,
    pub buffer_size: i64,
    pub max_size: i64,
    pub max_wait: Duration,
    /// Batches per second, and at once.
    pub throttle: Option<(f32, i64)>,
    pub truncates: bool,
    /// Largest batch and largest event, in bytes.
    pub truncate: (i64, i64),
    version: &'a str,
}

impl Backend<'_> {
    fn errors(&self) -> impl Iterator<Item = String> {
        [self.batch_error(), self.truncate_error(), self.version_error()].into_iter().flatten()
    }

    fn batch_error(&self) -> Option<String> {
        let name = self.name;
        if !matches!(self.mode, "batch" | "blocking" | "blocking-strict") {
            return Some(format!(
                "invalid audit {name} mode {}, allowed modes are \"batch,blocking,blocking-strict\"",
                self.mode
            ));
        }
        if self.mode != "batch" {
            return None;
        }
        let (qps, burst) = self.throttle.unwrap_or((1.0, 1));
        let (what, value, _) = [
            ("buffer size", self.buffer_size.to_string(), self.buffer_size > 0),
            ("max batch size", self.max_size.to_string(), self.max_size > 0),
            ("throttle QPS", qps.to_string(), qps > 0.0),
            ("throttle burst", burst.to_string(), burst > 0),
        ]
        .into_iter()
        .find(|(_, _, positive)| !positive)?;
        Some(format!("invalid audit batch {name} {what} {value}, must be a positive number"))
    }

    fn truncate_error(&self) -> Option<String> {
        let (name, (batch, event)) = (self.name, self.truncate);
        if event <= 0 {
            return Some(format!(
                "invalid audit truncate {name} max event size {event}, must be a positive number"
            ));
        }
        (batch < event).then(|| {
            format!(
                "invalid audit truncate {name} max batch size {batch}, must be greater than max \
                 event size ({event})"
            )
        })
    }

    fn version_error(&self) -> Option<String> {
        match self.version {
            "audit.k8s.io/v1" => None,
            version if version.matches('/').count() > 1 => {
                Some(format!("unexpected GroupVersion string: {version}"))
            }
            _ => Some(format!(
                "invalid group version, allowed versions are [{}]",
                quote("audit.k8s.io/v1")
            )),
        }
    }
}
