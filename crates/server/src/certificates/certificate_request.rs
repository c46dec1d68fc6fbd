//! Requests for certificates (PKCS #10).

use rustls::pki_types::pem::{PemObject as _, SectionKind};

use super::certificate::Name;
use super::der::{self, Reader};

/// Who a certificate is asked for, in a request that is the first thing in a PEM text.
pub fn requested_subject(pem: &[u8]) -> Result<Name, String> {
    let request = match <(SectionKind, Vec<u8>)>::from_pem_slice(pem) {
        Ok((SectionKind::Csr, request)) => request,
        _ => return Err("PEM block type must be CERTIFICATE REQUEST".to_owned()),
    };
    let subject = || {
        let mut info = Reader(&request).open(der::SEQUENCE)?.open(der::SEQUENCE)?;
        let _version = info.read(der::INTEGER)?;
        info.read(der::SEQUENCE).map(|subject| Name::read(subject.contents))
    };
    subject().ok_or_else(|| "x509: malformed certificate request".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_of_a_request_is_read() {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "system:node:a");
        let key = rcgen::KeyPair::generate().unwrap();
        let request = parameters.serialize_request(&key).unwrap().pem().unwrap();
        assert_eq!(requested_subject(request.as_bytes()).unwrap().common_name, "system:node:a");
        let other = format!("{}{request}", key.serialize_pem());
        for text in ["", "x", other.as_str()] {
            let error = requested_subject(text.as_bytes()).unwrap_err();
            assert_eq!(error, "PEM block type must be CERTIFICATE REQUEST");
        }
        let empty =
            "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n";
        assert!(requested_subject(empty.as_bytes()).is_err());
    }
}
