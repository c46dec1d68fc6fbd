//! The server's own certificate authority.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use kevel_clock::Clock;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::ca_bundle::CaBundle;
use super::certificate::{AltNames, Certificate};
use super::files::{Batch, Readable};
use super::verify::{Purpose, Roots};

/// Validity of the CA certificate.
const AUTHORITY_LASTS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// Validity of issued certificates.
const CERTIFICATE_LASTS: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Remaining validity below which a certificate is renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Certificates are valid from before they were issued: clocks differ.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// A certificate authority with an ECDSA P-256 key, which is generated and used in a fraction of a millisecond.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    bundle: CaBundle,
    clock: Clock,
}

/// The subject and usage of a certificate.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A serving certificate for these names.
    Server {
        /// Common name.
        common_name: String,
        /// Subject alternative names.
        names: AltNames,
    },
    /// A client certificate of a user in these groups.
    Client {
        /// Name of the user.
        common_name: String,
        /// Groups of the user.
        organizations: Vec<String>,
    },
}

/// A certificate and its key, both PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its private key (PKCS #8).
    pub key: String,
}

impl Authority {
    /// A new authority in memory.
    pub fn new(common_name: &str, clock: &Clock) -> Result<Self, String> {
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let params = authority_params(common_name, clock.now());
        let pem = params.self_signed(&key).map_err(|error| error.to_string())?.pem();
        let bundle = CaBundle::parse(pem.as_bytes())?;
        Ok(Authority { issuer: Issuer::new(params, key), pem, bundle, clock: clock.clone() })
    }

    /// The authority of two files, which are added to the batch if neither exists.
    pub(super) fn load_or_create(
        common_name: &str,
        certificate: &Path,
        key: &Path,
        batch: &mut Batch,
        clock: &Clock,
    ) -> Result<Self, String> {
        match (certificate.exists(), key.exists()) {
            (false, false) => {
                let authority = Authority::new(common_name, clock)?;
                batch.add(key, authority.issuer.key().serialize_pem(), Readable::ByOwner);
                batch.add(certificate, authority.pem.as_str(), Readable::ByOwner);
                Ok(authority)
            }
            (true, true) => Authority::load(common_name, certificate, key, clock),
            (_, false) => Err(format!("{}: the key of the certificate is missing", key.display())),
            (false, _) => {
                Err(format!("{}: the certificate of the key is missing", certificate.display()))
            }
        }
    }

    fn load(
        common_name: &str,
        certificate: &Path,
        key: &Path,
        clock: &Clock,
    ) -> Result<Self, String> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let pem = read(certificate)?;
        let key_pair = KeyPair::from_pem(&read(key)?)
            .map_err(|error| format!("{}: {error}", key.display()))?;
        let bundle = CaBundle::parse(pem.as_bytes())
            .map_err(|error| format!("{}: {error}", certificate.display()))?;
        let params = authority_params(common_name, clock.now());
        // A key that does not belong to the CA certificate would sign certificates that fail verification.
        let own = params.self_signed(&key_pair).map_err(|error| error.to_string())?;
        let expected = Certificate::read(own.der());
        let found = CertificateDer::from_pem_slice(pem.as_bytes()).ok();
        let found = found.as_deref().and_then(Certificate::read);
        let identity = |certificate: Certificate<'_>| {
            (certificate.raw_subject().to_vec(), certificate.public_key().to_vec())
        };
        if found.map(identity) != expected.map(identity) {
            return Err(format!(
                "{}: not the certificate of {} with the name {common_name}",
                certificate.display(),
                key.display()
            ));
        }
        Ok(Authority { issuer: Issuer::new(params, key_pair), pem, bundle, clock: clock.clone() })
    }

    /// The CA certificate, as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The CA certificate, as trusted roots.
    pub fn roots(&self) -> &Arc<Roots> {
        self.bundle.roots()
    }

    /// Generates a key and issues a certificate for it.
    pub fn issue(&self, subject: &Subject) -> Result<Issued, String> {
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let params = subject.params(self.clock.now())?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(|e| e.to_string())?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Certificate and key of two files. They are issued again if they do not exist, are of another authority or
    /// subject, do not belong together, or expire soon.
    pub(super) fn ensure(
        &self,
        subject: &Subject,
        certificate: &Path,
        key: &Path,
        batch: &mut Batch,
    ) -> Result<Issued, String> {
        let found = (fs::read_to_string(certificate), fs::read_to_string(key));
        if let (Ok(certificate), Ok(key)) = found {
            let issued = Issued { certificate, key };
            if self.still_good(subject, &issued) {
                return Ok(issued);
            }
        }
        let issued = self.issue(subject)?;
        batch.add(key, issued.key.as_str(), Readable::ByOwner);
        batch.add(certificate, issued.certificate.as_str(), Readable::ByOwner);
        Ok(issued)
    }

    fn still_good(&self, subject: &Subject, issued: &Issued) -> bool {
        let der = CertificateDer::from_pem_slice(issued.certificate.as_bytes());
        let (Ok(der), Ok(key)) = (der, KeyPair::from_pem(&issued.key)) else { return false };
        let Some(certificate) = Certificate::read(&der) else { return false };
        let now = self.clock.now();
        let fresh = certificate
            .not_after()
            .is_some_and(|end| end.duration_since(now).is_ok_and(|left| left > RENEWED_BEFORE));
        let shown = [Bytes::copy_from_slice(&der)];
        let of_this_authority = self.bundle.verifier().verify(&shown, subject.purpose(), now, None);
        let of_this_key = key.subject_public_key_info() == certificate.public_key();
        fresh && of_this_authority.is_ok() && of_this_key && subject.is_of(&certificate)
    }
}

impl Subject {
    fn params(&self, now: SystemTime) -> Result<CertificateParams, String> {
        let mut params = CertificateParams::default();
        let mut name = DistinguishedName::new();
        let usage = match self {
            Subject::Server { common_name, names } => {
                name.push(DnType::CommonName, common_name.as_str());
                params.subject_alt_names = alt_names(names)?;
                ExtendedKeyUsagePurpose::ServerAuth
            }
            Subject::Client { common_name, organizations } => {
                for organization in organizations {
                    name.push(DnType::OrganizationName, organization.as_str());
                }
                name.push(DnType::CommonName, common_name.as_str());
                ExtendedKeyUsagePurpose::ClientAuth
            }
        };
        params.distinguished_name = name;
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        valid_for(&mut params, now, CERTIFICATE_LASTS);
        Ok(params)
    }

    fn purpose(&self) -> Purpose {
        match self {
            Subject::Server { .. } => Purpose::ServerAuth,
            Subject::Client { .. } => Purpose::ClientAuth,
        }
    }

    fn is_of(&self, certificate: &Certificate<'_>) -> bool {
        let subject = certificate.subject();
        match self {
            Subject::Server { common_name, names } => {
                let found = certificate.alt_names();
                subject.common_name == *common_name
                    && names.dns_names.iter().all(|name| found.dns_names.contains(name))
                    && names.ips.iter().all(|ip| found.ips.contains(ip))
            }
            Subject::Client { common_name, organizations } => {
                subject.common_name == *common_name && subject.organizations == *organizations
            }
        }
    }
}

fn authority_params(common_name: &str, now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    valid_for(&mut params, now, AUTHORITY_LASTS);
    params
}

fn valid_for(params: &mut CertificateParams, now: SystemTime, duration: Duration) {
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + duration).into();
}

fn alt_names(names: &AltNames) -> Result<Vec<SanType>, String> {
    let dns = names.dns_names.iter().map(|name| {
        let name = Ia5String::try_from(name.as_str());
        name.map(SanType::DnsName).map_err(|error| error.to_string())
    });
    let ips = names.ips.iter().map(|ip: &IpAddr| Ok(SanType::IpAddress(*ip)));
    dns.chain(ips).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(names: &[&str]) -> Subject {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let names =
            AltNames { dns_names: names, ips: vec![[127, 0, 0, 1].into()], ..AltNames::default() };
        Subject::Server { common_name: "kube-apiserver".into(), names }
    }

    #[test]
    fn a_certificate_is_kept_while_it_fits() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let load = |name| {
            let mut batch = Batch::default();
            let loaded = Authority::load_or_create(
                name,
                &path("ca.crt"),
                &path("ca.key"),
                &mut batch,
                &Clock::system(),
            );
            batch.write().and(loaded)
        };
        let ensure = |authority: &Authority, names: &[&str]| {
            let (crt, key) = (path("apiserver.crt"), path("apiserver.key"));
            let before = fs::read(&crt).ok();
            let mut batch = Batch::default();
            authority.ensure(&server(names), &crt, &key, &mut batch).unwrap();
            batch.write().unwrap();
            before != fs::read(&crt).ok()
        };
        let authority = load("kubernetes").unwrap();
        assert!(ensure(&authority, &["localhost"]));
        let again = load("kubernetes").unwrap();
        assert_eq!(again.pem(), authority.pem());
        assert!(!ensure(&again, &["localhost"]));
        assert!(ensure(&again, &["localhost", "other"]), "for more names");
        assert!(!ensure(&again, &["localhost"]), "for fewer names it is good as well");
        fs::write(path("apiserver.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
        assert!(ensure(&again, &["localhost"]), "with another key");
        fs::remove_file(path("apiserver.key")).unwrap();
        assert!(ensure(&again, &["localhost"]), "without its key");
        assert!(
            ensure(&Authority::new("kubernetes", &Clock::system()).unwrap(), &["localhost"]),
            "of another"
        );
        assert!(load("another").unwrap_err().contains("not the certificate of"));
        fs::remove_file(path("ca.key")).unwrap();
        assert!(load("kubernetes").unwrap_err().contains("is missing"));
    }

    #[test]
    fn what_is_issued_is_read_back() {
        let authority = Authority::new("kubernetes", &Clock::system()).unwrap();
        let issued = authority.issue(&server(&["localhost", "kubernetes"])).unwrap();
        let der = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        let certificate = Certificate::read(&der).unwrap();
        assert_eq!(certificate.subject().common_name, "kube-apiserver");
        assert_eq!(certificate.alt_names().dns_names, ["localhost", "kubernetes"]);
        assert_eq!(certificate.alt_names().ips, [IpAddr::from([127, 0, 0, 1])]);
        let left = certificate.not_after().unwrap().duration_since(Clock::system().now()).unwrap();
        assert_eq!(left.as_secs().div_ceil(24 * 60 * 60), 365);
        assert!(certificate.not_before().unwrap() < Clock::system().now());
        assert!(certificate.identifier().contains("SKID=, AKID="), "{}", certificate.identifier());
    }
}
