//! Metrics of CertificateSigningRequests that ask for a duration (upstream: `countCSRDurationMetric`).

use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_registry::admission::{Attributes, OnceStored, Plugin};
use kevel_server::certificates::Certificate;
use kevel_server::metrics::{Counter, Description, Family, Metrics};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Difference that a signer may add to dates of certificates, besides a twentieth of the duration.
const BACKDATING: Duration = Duration::from_secs(5 * 60);

/// Counts issued certificates whose duration was asked for, and those that have it.
#[derive(Debug)]
pub struct CsrDurations {
    requested: Arc<Family<Counter>>,
    honored: Arc<Family<Counter>>,
}

impl CsrDurations {
    pub fn new(metrics: &Metrics) -> Self {
        CsrDurations {
            requested: metrics.counter(Description {
                name: "apiserver_certificates_registry_csr_requested_duration_total",
                help: "[ALPHA] Certificates issued for a CertificateSigningRequest with a \
                       duration, by signer.",
                labels: &["signerName"],
            }),
            honored: metrics.counter(Description {
                name: "apiserver_certificates_registry_csr_honored_duration_total",
                help: "[ALPHA] Certificates issued with the requested duration, by signer.",
                labels: &["signerName"],
            }),
        }
    }
}

impl Plugin for CsrDurations {
    fn name(&self) -> &'static str {
        "CsrDurations"
    }

    fn observes_updates(&self) -> bool {
        true
    }

    fn update_stored(&self, attributes: &Attributes<'_>, object: &Value) -> Option<OnceStored> {
        if !attributes.concerns("certificates.k8s.io", "certificatesigningrequests") {
            return None;
        }
        let old = attributes.old?;
        let asked = old.at(&["spec", "expirationSeconds"]).and_then(Value::as_int)?;
        let issued = object.str_at(&["status", "certificate"]);
        if issued.is_empty() || !old.str_at(&["status", "certificate"]).is_empty() {
            return None;
        }
        let signer = signer_label(old.str_at(&["spec", "signerName"]));
        let requested = self.requested.with(&[signer]);
        let honored = is_honored(asked, issued).then(|| self.honored.with(&[signer]));
        Some(Box::new(move || {
            requested.increment();
            honored.into_iter().for_each(|honored| honored.increment());
        }))
    }
}

/// Signers of Kubernetes by name, all others as one: their names are made up by users.
fn signer_label(name: &str) -> &str {
    if name.starts_with("kubernetes.io/") { name } else { "other" }
}

/// Whether a certificate, PEM in base64, is valid for about as many seconds as were asked for.
fn is_honored(asked: i64, issued: &str) -> bool {
    let mut pem = Vec::new();
    if base64::decode_into(issued, &mut pem).is_err() {
        return false;
    }
    let Ok(der) = CertificateDer::from_pem_slice(&pem) else { return false };
    let valid = Certificate::read(&der).and_then(|certificate| {
        certificate.not_after()?.duration_since(certificate.not_before()?).ok()
    });
    let asked = Duration::from_secs(u64::try_from(asked).unwrap_or_default());
    valid.is_some_and(|valid| valid.abs_diff(asked) < BACKDATING + asked / 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_clock::Clock;

    fn issued(seconds: u64) -> String {
        let mut params = rcgen::CertificateParams::default();
        let now = Clock::system().now();
        params.not_before = now.into();
        params.not_after = (now + Duration::from_secs(seconds)).into();
        let key = rcgen::KeyPair::generate().unwrap();
        base64::encode(params.self_signed(&key).unwrap().pem().as_bytes()).into()
    }

    #[test]
    fn durations_are_compared_with_slack() {
        for (asked, valid, expected) in [
            (3600, 3600, true),
            (3600, 3600 + 400, true),
            (3600, 3600 - 400, true),
            (3600, 3600 + 600, false),
            (3600, 7200, false),
            (86400, 86400 + 4500, true),
        ] {
            assert_eq!(is_honored(asked, &issued(valid)), expected, "{asked} {valid}");
        }
        assert!(!is_honored(3600, "bm8gY2VydGlmaWNhdGU="));
        assert_eq!(signer_label("kubernetes.io/kubelet-serving"), "kubernetes.io/kubelet-serving");
        assert_eq!(signer_label("example.com/mine"), "other");
    }
}
