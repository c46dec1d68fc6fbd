//! Flags of every API server, whatever it serves.

use crate::flags::{EFFECTIVE, Multimap, Strings, section};
use kevel_api::duration::Duration;
use std::net::IpAddr;

section! {
    /// Options of every API server, whatever it serves.
    GenericServerRun, "generic" {
        /// IP address at which the other members of the cluster reach this server. Without it,
        /// --bind-address is announced, or the address of the host's default interface if that
        /// is unspecified.
        advertise_address: Option<IpAddr>, EFFECTIVE;
        /// Regular expressions for the origins that may use the API from a browser (CORS), comma
        /// separated. An expression must be tied to the start of the host, with '^' or '//', and
        /// to its end, with '$' or ':', as in '//example\.com(:|$)'. Without any, CORS is off.
        cors_allowed_origins: Strings, EFFECTIVE;
        /// Version whose APIs and features to show instead of the server's own, as major.minor or
        /// kube=major.minor, from 1.33 to 1.36.
        emulated_version: Strings, EFFECTIVE;
        /// Also serve the versions of beta and stable APIs that came after the emulated version
        /// and are preferred over those enabled. Only with an emulated version below the server's.
        emulation_forward_compatible: bool = "false", EFFECTIVE;
        /// Host name for the URLs that lead back to this server, as in OpenID discovery.
        external_hostname: String, EFFECTIVE;
        /// Features to switch on or off, as name=true or name=false, comma separated; may be
        /// repeated. A name may follow 'kube:'. AllAlpha and AllBeta switch every feature of that
        /// stage that is not named itself.
        feature_gates: Multimap, EFFECTIVE;
        /// Share of HTTP/2 requests that are answered with GOAWAY, so that clients reconnect and spread over the
        /// servers behind a load balancer: 0 (none) to 0.02. Leave it at 0 for a single server.
        goaway_chance: f64 = "0", EFFECTIVE;
        /// Time after the start during which post-start hooks that are still running do not fail /livez.
        livez_grace_period: Duration = "0s", EFFECTIVE;
        /// Limit of mutating requests in flight, 0 for none. With priority and fairness, the sum
        /// of this and --max-requests-inflight is the server's concurrency, and must be positive.
        max_mutating_requests_inflight: i64 = "200", EFFECTIVE;
        /// Limit of read requests in flight, 0 for none. With priority and fairness, the sum of
        /// this and --max-mutating-requests-inflight is the server's concurrency, and must be
        /// positive.
        max_requests_inflight: i64 = "400", EFFECTIVE;
        /// Oldest version of the control plane's components that this server must get along with,
        /// as major.minor or kube=major.minor. Not above the emulated version; one minor version
        /// below it unless given.
        min_compatibility_version: Strings, EFFECTIVE;
        /// Least seconds that a watch is kept open; each gets a random time above it, so that they do not end together.
        min_request_timeout: i64 = "1800", EFFECTIVE;
        /// Timeout of a request, unless its kind has a limit of its own.
        request_timeout: Duration = "1m0s", EFFECTIVE;
        /// Serve the group versions that --runtime-config enables even if they came after the
        /// emulated version; otherwise such a group version is an error. Only with an emulated
        /// version below the server's.
        runtime_config_emulation_forward_compatible: bool = "false", EFFECTIVE;
        /// Time for which the server goes on serving after the signal to stop. Meanwhile /readyz fails, so that load
        /// balancers can remove the server; /healthz and /livez succeed.
        shutdown_delay_duration: Duration = "0s", EFFECTIVE;
        /// While requests in flight are finished at shutdown, keep listening and answer new ones
        /// with 429, Retry-After and Connection: close, instead of refusing connections.
        shutdown_send_retry_after: bool = "false", EFFECTIVE;
        /// Longest wait at shutdown for watches to end, a few at a time. 0 does not wait for them.
        shutdown_watch_termination_grace_period: Duration = "0s", EFFECTIVE;
        /// Timeout of readiness for the setup of the storage.
        storage_initialization_timeout: Duration = "1m0s", EFFECTIVE;
        /// Directives of the Strict-Transport-Security header, comma separated: max-age=SECONDS,
        /// includeSubDomains, preload. Without any, the header is not sent.
        strict_transport_security_directives: Strings, EFFECTIVE;
    }
}

impl GenericServerRun {
    /// Validation errors of these options alone.
    pub(super) fn validate(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (negative, message) in [
            (self.livez_grace_period.0 < 0, "--livez-grace-period can not be a negative value"),
            (self.max_requests_inflight < 0, "--max-requests-inflight can not be negative value"),
            (
                self.max_mutating_requests_inflight < 0,
                "--max-mutating-requests-inflight can not be negative value",
            ),
            (self.request_timeout.0 < 0, "--request-timeout can not be negative value"),
            (
                !(0.0..=0.02).contains(&self.goaway_chance),
                "--goaway-chance can not be less than 0 or greater than 0.02",
            ),
            (self.min_request_timeout < 0, "--min-request-timeout can not be negative value"),
            (
                self.storage_initialization_timeout.0 < 0,
                "--storage-initialization-timeout can not be negative value",
            ),
            (
                self.shutdown_delay_duration.0 < 0,
                "--shutdown-delay-duration can not be negative value",
            ),
            (
                self.shutdown_watch_termination_grace_period.0 < 0,
                "shutdown-watch-termination-grace-period, if provided, can not be a negative value",
            ),
        ] {
            if negative {
                errors.push(message.to_owned());
            }
        }
        let directives = self.strict_transport_security_directives.iter();
        errors.extend(directives.filter_map(|directive| hsts_error(directive)).map(str::to_owned));
        errors.extend(self.cors_allowed_origins.iter().filter_map(|origin| cors_error(origin)));
        errors
    }
}

/// Error of an HSTS directive (RFC 6797, section 6.1).
fn hsts_error(directive: &str) -> Option<&'static str> {
    if directive.trim().is_empty() {
        return Some("empty value in strict-transport-security-directives");
    }
    let max_age = directive.strip_prefix("max-age=").is_some_and(|seconds| !seconds.contains('='));
    if max_age || matches!(directive, "includeSubDomains" | "preload") {
        return None;
    }
    Some(
        "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, \
         includeSubDomains, preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more \
         information",
    )
}

/// Error of a CORS origin expression. An expression that is not anchored at both ends would match hosts that merely
/// contain the intended one.
fn cors_error(expression: &str) -> Option<String> {
    const HELP: &str = "tie each expression to the start of the host, with '^' or '//', and to its \
                        end, with '$' or ':', as in '//example\\.com(:|$)'";
    let problem = match kevel_regexp::Regexp::new(expression) {
        _ if expression.is_empty() => {
            return Some(format!("empty value in --cors-allowed-origins, help: {HELP}"));
        }
        Err(error) => error.to_string(),
        Ok(_) => {
            let start = expression.contains('^') || expression.contains("//");
            let end = expression.contains(['$', ':']);
            if start && end {
                return None;
            }
            "regular expression does not pin to start/end of host in the origin header".to_owned()
        }
    };
    Some(format!(
        "--cors-allowed-origins has an invalid regular expression: {problem}, help: {HELP}"
    ))
}
