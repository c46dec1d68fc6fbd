//! Validation of a PodCertificateRequest's status: the signer issues a certificate for the proven key or refuses, once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kevel_api::field_error::BadValue;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_server::certificates::{AltNames, Certificate, CertificateRequest, PemBlock, PublicKey};

use super::bytes;
use crate::validation::Field;

/// Terminal conditions.
const ISSUED: &str = "Issued";
const REFUSED: [&str; 2] = ["Denied", "Failed"];
const KNOWN: &[&str] = &[ISSUED, "Denied", "Failed"];

/// Maximum size of the certificate chain in bytes.
const MAX_CHAIN: usize = 100 << 10;
/// Maximum distance of `notBefore` from now.
const SKEW: Duration = Duration::from_secs(5 * 60);
/// Minimum lifetime of a certificate.
const MIN_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Minimum seconds between `beginRefreshAt` and both ends of the certificate's lifetime.
const MARGIN: i64 = 10 * 60;

/// Checks a change of the status.
pub fn check(request: Field, old: Field) {
    let (status, old_status) = (request.at("status"), old.at("status"));
    let found = request.found();
    check_conditions(status.at("conditions"));
    if request.found() > found {
        return;
    }
    let is = |request: Field, wanted: &[&str]| {
        let conditions = request.down("status.conditions");
        conditions.items().any(|condition| {
            condition.at("status").str() == "True" && wanted.contains(&condition.at("type").str())
        })
    };
    if is(old, KNOWN) {
        same(
            status,
            old_status,
            "immutable after PodCertificateRequest is issued, denied, or failed",
        );
    } else if is(request, &REFUSED) {
        let rest = ["certificateChain", "notBefore", "beginRefreshAt", "notAfter"];
        if rest.iter().any(|field| status.at(field).is_set()) {
            status.invalid_silently(
                "non-condition status fields must be empty when denying or failing the \
                 PodCertificateRequest",
            );
        }
    } else if is(request, &[ISSUED]) {
        // The error has been reported.
        let _ = check_issued(request, old.at("spec"));
    } else {
        let why =
            "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"";
        same(status, old_status, why);
    }
}

fn same(status: Field, old: Field, why: &'static str) {
    if !status.same(&old) {
        status.invalid_silently(why);
    }
}

fn check_conditions(conditions: Field) {
    let mut known = 0;
    for (index, condition) in conditions.items().enumerate() {
        // The reference puts a dot before the index.
        let place = format!("[{index}]");
        let place = conditions.at(&place);
        let (ty, status) = (condition.at("type").str(), condition.at("status").str());
        if !KNOWN.contains(&ty) {
            place.at("type").unsupported_as(ty, KNOWN);
            continue;
        }
        known += 1;
        if known > 1 {
            let why = "There may be at most one condition with type \"Issued\", \"Denied\", or \
                       \"Failed\"";
            place.at("type").invalid_as(ty, why);
        }
        if status != "True" {
            place.at("status").unsupported_as(BadValue::named_string(status), &["True"]);
        }
    }
    conditions.conditions();
}

/// Checks an issued certificate; `None` if an error was reported.
fn check_issued(request: Field, asked: Field) -> Option<()> {
    let status = request.at("status");
    let chain = status.at("certificateChain");
    let refuse = |why: &'static str| {
        chain.invalid(why);
        None
    };
    if chain.len() > MAX_CHAIN {
        chain.too_long(MAX_CHAIN);
        return None;
    }
    let mut blocks = PemBlock::all(chain.str().as_bytes());
    let Some(leaf) = blocks.next() else {
        return refuse("issued certificate chain must contain at least one certificate");
    };
    if leaf.label != "CERTIFICATE" {
        return refuse("issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
    }
    let Ok((certificate, [])) = Certificate::parse(&leaf.contents) else {
        return refuse("leaf certificate does not parse as valid X.509");
    };
    let found = chain.found();
    check_names(chain, &certificate.alt_names());
    if !is_of_key(&certificate, asked) {
        return refuse("leaf certificate was not issued to the requested public key");
    }
    let consistent = "must be present and consistent with the issued certificate";
    for (field, why) in [
        ("notBefore", consistent),
        ("notAfter", consistent),
        ("beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
    ] {
        status.at(field).must(why);
    }
    if chain.found() > found {
        return None;
    }
    check_times(status, &certificate, asked.at("maxExpirationSeconds").int())?;
    for block in blocks {
        if block.label != "CERTIFICATE" {
            return refuse(
                "issued certificate chain must consist entirely of CERTFICATE PEM blocks",
            );
        }
        if !matches!(Certificate::parse(&block.contents), Ok((_, []))) {
            return refuse("intermediate certificate does not parse as valid X.509");
        }
    }
    Some(())
}

fn check_names(chain: Field, names: &AltNames) {
    for name in &names.dns_names {
        let wrong = |why| chain.invalid_as(name.as_str(), why);
        if name.is_empty() {
            wrong("leaf certificate should not contain empty DNSName");
        }
        if name.contains("..") {
            wrong("leaf certificate's DNSName should not contain '..'");
        }
        if name.starts_with('.') || name.ends_with('.') {
            wrong("leaf certificate's DNSName should not start or end with '.'");
        }
    }
    let address = |email: &str| {
        let parts = email.rsplit_once('@');
        parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
    };
    for email in names.emails.iter().filter(|email| !address(email)) {
        let why = "leaf certificate should not contain invalid EmailAddress";
        chain.invalid_as(email.as_str(), why);
    }
}

/// True if the certificate is for the proven key.
fn is_of_key(certificate: &Certificate<'_>, asked: Field) -> bool {
    let issued = PublicKey::parse(certificate.public_key());
    let (stub, key) = (bytes(asked.at("stubPKCS10Request")), bytes(asked.at("pkixPublicKey")));
    let wanted = match stub.is_empty() {
        true => PublicKey::parse(&key).map_err(str::to_owned),
        false => CertificateRequest::parse(&stub).map(|request| request.public_key),
    };
    matches!((issued, wanted), (Ok(issued), Ok(wanted)) if issued == wanted)
}

fn check_times(status: Field, certificate: &Certificate<'_>, longest: i64) -> Option<()> {
    let [from, to, refresh] =
        ["notBefore", "notAfter", "beginRefreshAt"].map(|name| seconds_of(status.at(name)));
    let (starts, ends) = (certificate.not_before()?, certificate.not_after()?);
    let wrong = |name: &str, why: &'static str| {
        let field = status.at(name);
        field.invalid_as(BadValue::named_string(field.str()), why);
        None
    };
    if from != seconds(starts) {
        return wrong(
            "notBefore",
            "must be set to the NotBefore time encoded in the leaf certificate",
        );
    }
    let now = status.capabilities().clock.now();
    let away = now.duration_since(starts).or_else(|_| starts.duration_since(now));
    if away.is_ok_and(|away| away >= SKEW) {
        let why = "must be set to within 5 minutes of kube-apiserver's current time";
        return wrong("notBefore", why);
    }
    if to != seconds(ends) {
        return wrong(
            "notAfter",
            "must be set to the NotAfter time encoded in the leaf certificate",
        );
    }
    let lifetime = ends.duration_since(starts).unwrap_or_default();
    let chain = status.at("certificateChain");
    let nanoseconds = BadValue::Text(lifetime.as_nanos().to_string());
    if lifetime < MIN_LIFETIME {
        chain.invalid_as(nanoseconds, "leaf certificate lifetime must be >= 1 hour");
        return None;
    }
    if lifetime > Duration::from_secs(longest.unsigned_abs()) {
        chain.invalid_as(
            nanoseconds,
            format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest})"),
        );
        return None;
    }
    if refresh < from + MARGIN {
        return wrong("beginRefreshAt", "must be at least 10 minutes after status.notBefore");
    }
    if refresh > to - MARGIN {
        return wrong("beginRefreshAt", "must be at least 10 minutes before status.notAfter");
    }
    Some(())
}

fn seconds_of(field: Field) -> i64 {
    field
        .get()
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<Time>().ok())
        .map_or(0, |t| t.seconds)
}

fn seconds(time: SystemTime) -> i64 {
    let after = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(after.as_secs()).unwrap_or_default()
}
