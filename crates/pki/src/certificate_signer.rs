//! Signs certificate requests with a CA's key (upstream: `CertificateAuthority.Sign`).

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kevel_api::time::Time;
use kevel_codec::base64;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, SigningKey as _};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::certificate::{self, AltNames, Certificate};
use super::certificate_request::CertificateRequest;
use super::der::{self, Reader, element};
use super::pem_block::PemBlock;
use super::usages::{KeyUsages, UnknownUsages};

/// 1.2.840.10045.4.3.2: ECDSA with SHA-256, the algorithm of the server's own authority.
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
/// Certificates are valid from before they were signed: clocks differ.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// Validity below which the end is not moved by [`BACKDATE`].
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);
/// Bytes of a serial number.
const SERIAL_BYTES: usize = 16;
/// Characters of a line of PEM.
const PEM_LINE: usize = 64;

/// Attributes of a name that certificates keep, in Go's order, by the last number of 2.5.4.x; of some only the last value.
const ATTRIBUTES: &[(u8, bool)] = &[
    (6, true),
    (10, true),
    (11, true),
    (7, true),
    (8, true),
    (9, true),
    (17, true),
    (3, false),
    (5, false),
];

/// Extensions, by the last number of 2.5.29.x.
const KEY_USAGE: u8 = 15;
const EXTENDED_KEY_USAGE: u8 = 37;
const BASIC_CONSTRAINTS: u8 = 19;
const AUTHORITY_KEY_IDENTIFIER: u8 = 35;
const SUBJECT_ALT_NAME: u8 = 17;
const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 14];

/// Signer of certificate requests: a CA with its key.
#[derive(Debug)]
pub struct CertificateSigner {
    certificate: Vec<u8>,
    key: KeyPair,
}

/// Failure to sign a request.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// Certificate or key of the CA cannot be used.
    #[error("unable to use the signing CA: {0}")]
    Authority(String),
    /// The request cannot be parsed.
    #[error("unable to parse certificate request: {0}")]
    Request(String),
    /// The request is not signed with the key that it asks a certificate for.
    #[error("unable to verify certificate request signature: {0}")]
    Signature(String),
    /// Usages that no certificate can have.
    #[error(transparent)]
    Usages(#[from] UnknownUsages),
    /// The CA has expired.
    #[error("the signer has expired: NotAfter={0}")]
    Expired(Time),
    /// No certificate could be signed.
    #[error("failed to sign certificate: {0}")]
    Failed(String),
}

impl CertificateSigner {
    /// Signer with a CA's certificate and key (PEM), the key of ECDSA on P-256 as [`Pki`](crate::Pki) makes it.
    pub fn new(certificate: &str, key: &str) -> Result<Self, SignError> {
        let unusable = |why: &str| SignError::Authority(why.to_owned());
        let (block, _) = PemBlock::first(certificate.as_bytes())
            .ok_or_else(|| unusable("the certificate is not PEM"))?;
        let key = KeyPair::from_pem(key).map_err(|error| unusable(&error.to_string()))?;
        if !key.is_compatible(&PKCS_ECDSA_P256_SHA256) {
            return Err(unusable("the key is not of ECDSA on P-256"));
        }
        if Certificate::read(&block.contents).is_none() {
            return Err(unusable("the certificate cannot be read"));
        }
        Ok(CertificateSigner { certificate: block.contents, key })
    }

    /// Signs a request (DER): a certificate (PEM) with its subject, key and alternative names, for these usages, which
    /// lasts `ttl` at most.
    pub fn sign(
        &self,
        request: &[u8],
        usages: &[&str],
        ttl: Duration,
        now: SystemTime,
    ) -> Result<String, SignError> {
        let read = CertificateRequest::parse(request).map_err(SignError::Request)?;
        read.check_signature().map_err(SignError::Signature)?;
        let usages = KeyUsages::of(usages)?;
        let authority = Certificate::read(&self.certificate);
        let authority = authority.ok_or_else(|| SignError::Authority("unreadable".to_owned()))?;
        let validity = validity(&authority, ttl, now)?;
        let subject = subject(read.raw_subject());
        let extensions = extensions(
            &authority,
            &usages,
            &read.alt_names(),
            subject == element(der::SEQUENCE, &[]),
        );
        let algorithm =
            element(der::SEQUENCE, &[&element(der::OBJECT_IDENTIFIER, &[ECDSA_SHA256])]);
        let signed = element(
            der::SEQUENCE,
            &[
                &element(der::context(0), &[&element(der::INTEGER, &[&[2]])]),
                &serial()?,
                &algorithm,
                &element(der::SEQUENCE, &[authority.raw_subject()]),
                &validity,
                &subject,
                read.raw_public_key(),
                &element(der::context(3), &[&element(der::SEQUENCE, &[&extensions])]),
            ],
        );
        let signature = self.key.sign(&signed);
        let signature = signature.map_err(|error| SignError::Failed(error.to_string()))?;
        let signature = element(der::BIT_STRING, &[&[0], &signature]);
        Ok(pem(&element(der::SEQUENCE, &[&signed, &algorithm, &signature])))
    }
}

fn serial() -> Result<Vec<u8>, SignError> {
    let mut bytes = [0; SERIAL_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| SignError::Failed("no random numbers".to_owned()))?;
    // Positive, and without leading zeros.
    let digits = bytes.iter().position(|byte| *byte != 0).map_or(&[][..], |at| &bytes[at..]);
    let sign: &[u8] = if digits.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
    Ok(element(der::INTEGER, &[sign, digits]))
}

/// Validity of a certificate, which ends with its CA's at the latest.
fn validity(
    authority: &Certificate<'_>,
    ttl: Duration,
    now: SystemTime,
) -> Result<Vec<u8>, SignError> {
    let end = authority.not_after().unwrap_or(UNIX_EPOCH);
    if end <= now {
        return Err(SignError::Expired(Time { seconds: seconds(end) }));
    }
    let until = if ttl < SHORT { now + ttl } else { now + ttl.saturating_sub(BACKDATE) };
    Ok(element(der::SEQUENCE, &[&moment(now - BACKDATE), &moment(until.min(end))]))
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A time: with two digits of the year until 2049 (RFC 5280).
fn moment(time: SystemTime) -> Vec<u8> {
    let text = Time { seconds: seconds(time) }.to_string();
    let digits: String = text.chars().filter(|char| !"-:T".contains(*char)).collect();
    match digits.strip_prefix("20").filter(|_| digits.as_str() < "2050") {
        Some(short) => element(der::UTC_TIME, &[short.as_bytes()]),
        None => element(der::GENERALIZED_TIME, &[digits.as_bytes()]),
    }
}

/// A request's subject as Go encodes it again: known attributes, one set for all values of an attribute.
fn subject(requested: &[u8]) -> Vec<u8> {
    let found = certificate::attributes(requested);
    let mut sets = Vec::new();
    for (number, several) in ATTRIBUTES {
        let kind = [0x55, 4, *number];
        let mut values: Vec<&str> = found
            .iter()
            .filter(|(of, value)| of == &kind && (*several || !value.is_empty()))
            .map(|(_, value)| value.as_str())
            .collect();
        if !several && values.len() > 1 {
            values.drain(..values.len() - 1);
        }
        let mut encoded: Vec<Vec<u8>> = values
            .into_iter()
            .map(|value| {
                let oid = element(der::OBJECT_IDENTIFIER, &[&kind]);
                element(der::SEQUENCE, &[&oid, &string(value)])
            })
            .collect();
        encoded.sort();
        if !encoded.is_empty() {
            sets.push(element(der::SET, &[&encoded.concat()]));
        }
    }
    element(der::SEQUENCE, &[&sets.concat()])
}

fn string(value: &str) -> Vec<u8> {
    let printable = |byte: u8| byte.is_ascii_alphanumeric() || b"'() +,-./:=?".contains(&byte);
    let tag = if value.bytes().all(printable) { der::PRINTABLE_STRING } else { der::UTF8_STRING };
    element(tag, &[value.as_bytes()])
}

fn extensions(
    authority: &Certificate<'_>,
    usages: &KeyUsages,
    names: &AltNames,
    nameless: bool,
) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(bits) = usages.key_usage() {
        out.push(extension(KEY_USAGE, true, &bits));
    }
    if let Some(purposes) = usages.extended() {
        out.push(extension(EXTENDED_KEY_USAGE, false, &purposes));
    }
    out.push(extension(BASIC_CONSTRAINTS, true, &element(der::SEQUENCE, &[])));
    let identifier = authority.extension(SUBJECT_KEY_IDENTIFIER);
    if let Some(identifier) = identifier.and_then(|value| Reader(value).read(der::OCTET_STRING)) {
        let identifier = element(0x80, &[identifier.contents]);
        let value = element(der::SEQUENCE, &[&identifier]);
        out.push(extension(AUTHORITY_KEY_IDENTIFIER, false, &value));
    }
    let names = alt_names(names);
    if !names.is_empty() {
        out.push(extension(SUBJECT_ALT_NAME, nameless, &element(der::SEQUENCE, &[&names])));
    }
    out.concat()
}

fn extension(number: u8, critical: bool, value: &[u8]) -> Vec<u8> {
    let oid = element(der::OBJECT_IDENTIFIER, &[&[0x55, 0x1d, number]]);
    let critical = if critical { element(der::BOOLEAN, &[&[0xff]]) } else { Vec::new() };
    element(der::SEQUENCE, &[&oid, &critical, &element(der::OCTET_STRING, &[value])])
}

fn alt_names(names: &AltNames) -> Vec<u8> {
    let text = |tag: u8, names: &[String]| {
        names.iter().flat_map(|name| element(tag, &[name.as_bytes()])).collect::<Vec<u8>>()
    };
    let addresses = names.ips.iter().flat_map(|ip| match ip {
        IpAddr::V4(ip) => element(0x87, &[&ip.octets()]),
        IpAddr::V6(ip) => element(0x87, &[&ip.octets()]),
    });
    let addresses: Vec<u8> = addresses.collect();
    [text(0x82, &names.dns_names), text(0x81, &names.emails), addresses, text(0x86, &names.uris)]
        .concat()
}

fn pem(der: &[u8]) -> String {
    let mut out = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let body = base64::encode(der);
    let mut rest: &str = &body;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(PEM_LINE));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

#[cfg(test)]
mod tests {
    use kevel_clock::Clock;

    use super::*;
    use crate::authority::Authority;
    use crate::verify::Purpose;
    use crate::{CaBundle, Subject};

    fn request() -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(rcgen::DnType::CommonName, "system:node:a");
        let key = KeyPair::generate().unwrap();
        params.serialize_request(&key).unwrap().der().to_vec()
    }

    fn signer() -> (CertificateSigner, String) {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("ca.crt"), folder.path().join("ca.key"));
        let mut batch = crate::files::Batch::default();
        let clock = Clock::system();
        let made = Authority::load_or_create("kubernetes", &certificate, &key, &mut batch, &clock);
        let issued = made
            .unwrap()
            .issue(&Subject::Client { common_name: String::new(), organizations: Vec::new() });
        issued.unwrap();
        batch.write().unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap();
        let (certificate, key) = (read(&certificate), read(&key));
        (CertificateSigner::new(&certificate, &key).unwrap(), certificate)
    }

    #[test]
    fn a_signed_certificate_is_trusted_by_its_authority() {
        let (signer, authority) = signer();
        let now = Clock::system().now();
        let hour = Duration::from_secs(60 * 60);
        let signed = signer.sign(&request(), &["client auth", "digital signature"], hour, now);
        let (block, _) = PemBlock::first(signed.unwrap().as_bytes()).unwrap();
        let read = Certificate::read(&block.contents).unwrap();
        assert_eq!(read.subject().common_name, "system:node:a");
        assert_eq!(read.subject().organizations, ["system:nodes"]);
        assert_eq!(read.alt_names().dns_names, ["a.example"]);
        let left = read.not_after().unwrap().duration_since(now).unwrap();
        assert_eq!(left.as_secs().div_ceil(60), 60);
        let shown = [bytes::Bytes::from(block.contents.clone())];
        let bundle = CaBundle::parse(authority.as_bytes()).unwrap();
        let verify = |purpose| bundle.verifier().verify(&shown, purpose, now, None).is_ok();
        assert!(verify(Purpose::ClientAuth) && !verify(Purpose::ServerAuth));
    }

    #[test]
    fn forged_requests_and_unknown_usages_are_refused() {
        let (signer, _) = signer();
        let now = Clock::system().now();
        let sign = |request: &[u8], usage| {
            signer.sign(request, &[usage], SHORT, now).unwrap_err().to_string()
        };
        let mut forged = request();
        let at = forged.windows(6).position(|window| window == b"node:a").unwrap();
        forged[at + 5] = b'b';
        let told = sign(&forged, "client auth");
        assert!(told.starts_with("unable to verify certificate request signature: "), "{told}");
        assert_eq!(sign(&request(), "a b"), r#"unrecognized usage values: ["a b"]"#);
    }
}
