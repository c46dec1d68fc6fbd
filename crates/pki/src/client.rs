//! Client certificates, and the user that a verified one names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::ca_bundle::CaBundle;
use super::certificate::Certificate;
use super::dynamic::Dynamic;
use super::verify::Purpose;

/// The user that a client certificate names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Name of the user (CN). Without one the certificate authenticates no user.
    pub common_name: String,
    /// Groups of the user (O).
    pub organizations: Vec<String>,
    /// uid of the user; empty if the certificate has none.
    pub uid: String,
    /// Credential ID (upstream: `authentication.kubernetes.io/credential-id`): `X509SHA256=` and the certificate's
    /// hash.
    pub credential_id: String,
}

/// Verifies a client's certificate chain, its own certificate first: signed by a CA of the bundle, valid now, and
/// allowed for client authentication.
///
/// The time is bounded whatever the client presents: path building has a budget of signature checks.
pub fn verify_client(
    certificates: &[Bytes],
    roots: &CaBundle,
    now: SystemTime,
) -> Result<ClientIdentity, String> {
    judge(certificates, roots, now).map(|(identity, _)| identity)
}

/// The client, and the end of validity of its chain.
fn judge(
    certificates: &[Bytes],
    roots: &CaBundle,
    now: SystemTime,
) -> Result<(ClientIdentity, Option<SystemTime>), String> {
    let own = certificates.first().ok_or("no certificate")?;
    let read = Certificate::read(own).ok_or("x509: malformed certificate")?;
    let verified = roots.verifier().verify(certificates, Purpose::ClientAuth, now, None);
    let chain = verified
        .map_err(|error| format!("verifying certificate {} failed: {error}", read.identifier()))?;
    let end = chain.0.iter().map(|certificate| certificate.not_after).min();
    let subject = read.subject();
    let uid = match subject.uids.as_slice() {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err("UID cannot be an empty string".to_owned()),
        [uid] => uid.clone(),
        uids => return Err(format!("expected 1 UID, but found multiple: [{}]", uids.join(" "))),
    };
    let identity = ClientIdentity {
        common_name: subject.common_name,
        organizations: subject.organizations,
        uid,
        credential_id: credential_id(own),
    };
    Ok((identity, end))
}

fn credential_id(certificate: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, certificate);
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("X509SHA256={hex}")
}

/// Time for which a verification is cached, unless the CA bundle changes or the chain expires before.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum number of cached verifications.
const MOST_REMEMBERED: usize = 1024;

/// Verifier of client certificates with a CA bundle that may change. Caches results: verifying signatures for each
/// request would cost more than most requests.
#[derive(Debug)]
pub struct ClientVerifier {
    roots: Arc<Dynamic<CaBundle>>,
    remembered: Mutex<VerifiedClients>,
}

#[derive(Debug, Default)]
struct VerifiedClients {
    roots: Option<Arc<CaBundle>>,
    clients: HashMap<Vec<Bytes>, (SystemTime, Arc<ClientIdentity>)>,
}

impl ClientVerifier {
    /// A verifier with this CA bundle.
    pub fn new(roots: Arc<Dynamic<CaBundle>>) -> Self {
        ClientVerifier { roots, remembered: Mutex::default() }
    }

    /// Verifies a chain like [`verify_client`], with a cache.
    pub fn verify(
        &self,
        certificates: &[Bytes],
        now: SystemTime,
    ) -> Result<Arc<ClientIdentity>, String> {
        let roots = self.roots.current();
        if let Some(identity) = self.remembered(&roots, certificates, now) {
            return Ok(identity);
        }
        let (identity, end) = judge(certificates, &roots, now)?;
        let identity = Arc::new(identity);
        let until = end.map_or(now, |end| end.min(now + REMEMBERED));
        let mut remembered = self.lock();
        // The CA bundle may have changed meanwhile; this result is for the old one.
        if remembered.roots.as_ref().is_some_and(|known| Arc::ptr_eq(known, &roots)) {
            if remembered.clients.len() >= MOST_REMEMBERED {
                remembered.clients.clear();
            }
            remembered.clients.insert(certificates.to_vec(), (until, identity.clone()));
        }
        Ok(identity)
    }

    fn remembered(
        &self,
        roots: &Arc<CaBundle>,
        certificates: &[Bytes],
        now: SystemTime,
    ) -> Option<Arc<ClientIdentity>> {
        let mut remembered = self.lock();
        if !remembered.roots.as_ref().is_some_and(|known| Arc::ptr_eq(known, roots)) {
            *remembered = VerifiedClients { roots: Some(roots.clone()), clients: HashMap::new() };
        }
        let (until, identity) = remembered.clients.get(certificates)?;
        (now < *until).then(|| identity.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VerifiedClients> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use kevel_clock::Clock;
    use rcgen::{
        CertificateParams, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };

    use super::super::der::{self, Reader};
    use super::*;

    struct Ca {
        issuer: Issuer<'static, KeyPair>,
        bundle: CaBundle,
    }

    fn ca(name: &str) -> Ca {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let bundle = CaBundle::parse(pem.as_bytes()).unwrap();
        Ca { issuer: Issuer::new(params, key), bundle }
    }

    fn client(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "jane");
        params.distinguished_name.push(DnType::OrganizationName, "devs");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        params
    }

    fn issue(ca: &Ca, params: CertificateParams) -> Vec<Bytes> {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &ca.issuer).unwrap();
        vec![Bytes::copy_from_slice(certificate.der())]
    }

    #[test]
    fn a_certificate_of_the_authority_says_who_the_client_is() {
        let ca = ca("kubernetes");
        let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        let uid_value = DnValue::Utf8String("1-2-3".into());
        let chain = issue(&ca, client(|params| params.distinguished_name.push(uid, uid_value)));
        let identity = verify_client(&chain, &ca.bundle, Clock::system().now()).unwrap();
        assert_eq!(identity.common_name, "jane");
        assert_eq!(identity.organizations, ["devs"]);
        assert_eq!(identity.uid, "1-2-3");
        assert_eq!(identity.credential_id.len(), "X509SHA256=".len() + 64);
    }

    /// A version 1 certificate signed by a CA: the fields of a v3 certificate without version and extensions.
    fn issue_v1(ca: &Ca, params: CertificateParams) -> Vec<Bytes> {
        let v3 = issue(ca, params);
        let mut parts = Reader(&v3[0]).open(der::SEQUENCE).unwrap();
        let to_be_signed = parts.open(der::SEQUENCE).unwrap();
        let kept = to_be_signed.filter(|e| ![der::context(0), der::context(3)].contains(&e.tag));
        let kept: Vec<&[u8]> = kept.map(|element| element.whole).collect();
        let to_be_signed = der::element(der::SEQUENCE, &kept);
        let algorithm = parts.read(der::SEQUENCE).unwrap().whole;
        let signature = rcgen::SigningKey::sign(ca.issuer.key(), &to_be_signed).unwrap();
        let signature = der::element(der::BIT_STRING, &[&[0], &signature]);
        vec![der::element(der::SEQUENCE, &[&to_be_signed, algorithm, &signature]).into()]
    }

    #[test]
    fn certificates_without_extensions_are_of_their_authority_s_clients() {
        let (ours, theirs) = (ca("kubernetes"), ca("kubernetes"));
        let identity =
            verify_client(&issue_v1(&ours, client(|_| {})), &ours.bundle, Clock::system().now())
                .unwrap();
        assert_eq!(
            (identity.common_name.as_str(), &*identity.organizations),
            ("jane", &["devs".to_owned()][..])
        );
        let day = Duration::from_secs(86400);
        let now = Clock::system().now();
        let unknown = "x509: certificate signed by unknown authority";
        let expired = "x509: certificate has expired or is not yet valid: current time ";
        let mut forged = issue_v1(&ours, client(|_| {}))[0].to_vec();
        let end = forged.len() - 1;
        forged[end] ^= 1;
        for (chain, expected) in [
            (issue_v1(&ca("other"), client(|_| {})), unknown),
            // Same name, another key.
            (issue_v1(&theirs, client(|_| {})), unknown),
            (vec![forged.into()], unknown),
            (issue_v1(&ours, client(|params| params.not_after = (now - day).into())), expired),
            (issue_v1(&ours, client(|params| params.not_before = (now + day).into())), expired),
        ] {
            let error = verify_client(&chain, &ours.bundle, now).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn other_certificates_are_refused() {
        let (ours, theirs) = (ca("kubernetes"), ca("kubernetes"));
        let day = Duration::from_secs(86400);
        let now = Clock::system().now();
        for (chain, expected) in [
            (issue(&ca("other"), client(|_| {})), "x509: certificate signed by unknown authority"),
            (
                issue(
                    &ours,
                    client(|params| {
                        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
                    }),
                ),
                "x509: certificate specifies an incompatible key usage",
            ),
            (
                issue(&ours, client(|params| params.not_after = (now - day).into())),
                "x509: certificate has expired or is not yet valid: current time ",
            ),
            (
                issue(&ours, client(|params| params.not_before = (now + day).into())),
                "x509: certificate has expired or is not yet valid: current time ",
            ),
            // Same name, another key.
            (issue(&theirs, client(|_| {})), "failed: x509: "),
            (vec![Bytes::from_static(b"rubbish")], "x509: malformed certificate"),
            (vec![], "no certificate"),
        ] {
            let error = verify_client(&chain, &ours.bundle, now).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// A chain expires with the first of its certificates to expire, which may be the CA's.
    #[test]
    fn judgement_ends_with_the_first_certificate_of_its_chain() {
        let now = Clock::system().now();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "ending");
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.not_after = (now + Duration::from_secs(30)).into();
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let bundle = CaBundle::parse(pem.as_bytes()).unwrap();
        let ending = Ca { issuer: Issuer::new(params, key), bundle };
        let chain = issue(&ending, client(|_| {}));
        let (_, end) = judge(&chain, &ending.bundle, now).unwrap();
        assert!(end.unwrap() <= now + Duration::from_secs(30));
        assert!(judge(&chain, &ending.bundle, now + REMEMBERED).is_err());
    }

    #[test]
    fn a_judgement_is_remembered_until_the_authorities_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        let (first, second) = (ca("first"), ca("second"));
        std::fs::write(&path, first.bundle.pem()).unwrap();
        let parse = |files: &[Vec<u8>]| CaBundle::parse(&files[0]);
        let roots = Arc::new(Dynamic::load("client-ca", &[&path], parse).unwrap().impatient());
        let verifier = ClientVerifier::new(roots);
        let chain = issue(&first, client(|_| {}));
        let now = Clock::system().now();
        let judged = verifier.verify(&chain, now).unwrap();
        assert!(Arc::ptr_eq(&judged, &verifier.verify(&chain, now).unwrap()));
        std::fs::write(&path, second.bundle.pem()).unwrap();
        assert!(verifier.verify(&chain, now).is_err());
    }
}
