//! Certificate signing requests (PKCS #10).

use super::asn1::{self, Asn1, Fields};
use super::certificate::{AltNames, Name, SUBJECT_ALT_NAME};
use super::der::{self, Reader};
use super::pem_block::PemBlock;
use super::public_key::{PublicKey, SignatureAlgorithm};

/// 1.2.840.113549.1.9.14: the attribute with the requested extensions.
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];

/// A certificate signing request, parsed as strictly as by the reference.
#[derive(Clone, Copy, Debug)]
pub struct CertificateRequest<'a> {
    /// Signed bytes: the request without algorithm and signature.
    signed: &'a [u8],
    subject: &'a [u8],
    key: &'a [u8],
    attributes: &'a [u8],
    /// The key to certify; the request is signed with it.
    pub public_key: PublicKey<'a>,
    algorithm: SignatureAlgorithm,
    signature: &'a [u8],
}

impl<'a> CertificateRequest<'a> {
    /// DER of the request that is the first block of a PEM text.
    pub fn from_pem(pem: &[u8]) -> Result<Vec<u8>, String> {
        match PemBlock::first(pem) {
            Some((block, _)) if block.label == "CERTIFICATE REQUEST" => Ok(block.contents),
            _ => Err("PEM block type must be CERTIFICATE REQUEST".to_owned()),
        }
    }

    /// Parses a DER-encoded request.
    pub fn parse(request: &'a [u8]) -> Result<Self, String> {
        let mut outer = Fields::new(request);
        let whole = outer.read(asn1::SEQUENCE, "certificateRequest")?;
        let mut fields = Fields::new(whole.contents);
        let info = fields.read(asn1::SEQUENCE, "tbsCertificateRequest")?;
        let (subject, key, attributes) = parse_info(info.contents)?;
        let (identifier, parameters) = algorithm(&mut fields)?;
        let signature = bit_string(&mut fields)?;
        if !outer.rest().is_empty() {
            return Err("asn1: syntax error: trailing data".to_owned());
        }
        let public_key = PublicKey::parse(key)?;
        check_subject(subject)?;
        check_extensions(attributes)?;
        let algorithm = SignatureAlgorithm::of(identifier, parameters);
        Ok(CertificateRequest {
            signed: info.whole,
            subject: subject.contents,
            key,
            attributes,
            public_key,
            algorithm,
            signature,
        })
    }

    /// The subject of the request.
    pub fn subject(&self) -> Name {
        Name::read(self.subject)
    }

    /// The subject's name, DER-encoded, without the outer SEQUENCE.
    pub(super) fn raw_subject(&self) -> &'a [u8] {
        self.subject
    }

    /// The public key with its algorithm, DER-encoded.
    pub(super) fn raw_public_key(&self) -> &'a [u8] {
        self.key
    }

    /// The requested alternative names.
    pub fn alt_names(&self) -> AltNames {
        let mut asked = extensions(self.attributes).into_iter();
        let asked = asked.find(|(identifier, _)| *identifier == SUBJECT_ALT_NAME);
        asked.map(|(_, value)| AltNames::read(value)).unwrap_or_default()
    }

    /// Verifies the request's signature with its public key.
    pub fn check_signature(&self) -> Result<(), String> {
        self.public_key.verify(self.algorithm, self.signed, self.signature)
    }
}

/// Subject of the request that is the first block of a PEM text.
pub fn requested_subject(pem: &[u8]) -> Result<Name, String> {
    let request = CertificateRequest::from_pem(pem)?;
    CertificateRequest::parse(&request).map(|request| request.subject())
}

/// Subject, key and attributes of a request.
fn parse_info(info: &[u8]) -> Result<(Asn1<'_>, &[u8], &[u8]), String> {
    let mut fields = Fields::new(info);
    let version = fields.read(asn1::INTEGER, "int")?.contents;
    let problem = match version {
        [] => Some("empty integer"),
        [0, 0..0x80, ..] | [0xff, 0x80..=0xff, ..] => Some("integer not minimally-encoded"),
        // A certificate in place of a request has its serial number here.
        long if long.len() > 8 => Some("integer too large"),
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(format!("asn1: structure error: {problem}"));
    }
    let subject = fields.any()?;
    let key = fields.read(asn1::SEQUENCE, "publicKeyInfo")?;
    let mut inner = Fields::new(key.contents);
    algorithm(&mut inner)?;
    bit_string(&mut inner)?;
    let attributes = fields.read(asn1::CONTEXT_0, "")?.contents;
    let mut each = Fields::new(attributes);
    while !each.rest().is_empty() {
        each.any()?;
    }
    Ok((subject, key.whole, attributes))
}

/// Identifier and parameters of an algorithm.
fn algorithm<'a>(fields: &mut Fields<'a>) -> Result<(&'a [u8], &'a [u8]), String> {
    let algorithm = fields.read(asn1::SEQUENCE, "AlgorithmIdentifier")?;
    let mut inner = Fields::new(algorithm.contents);
    let identifier = inner.read(asn1::OBJECT_IDENTIFIER, "ObjectIdentifier")?.contents;
    if identifier.is_empty() {
        return Err("asn1: structure error: zero length OBJECT IDENTIFIER".to_owned());
    }
    let parameters = match inner.rest() {
        [] => &[],
        _ => inner.any()?.whole,
    };
    Ok((identifier, parameters))
}

fn bit_string<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8], String> {
    let bits = fields.read(asn1::BIT_STRING, "BitString")?.contents;
    match bits.split_first() {
        None => Err("asn1: syntax error: zero length BIT STRING".to_owned()),
        Some((0, bits)) => Ok(bits),
        Some((padding, [])) if *padding > 0 => invalid_padding(),
        Some((8.., _)) => invalid_padding(),
        Some((_, bits)) => Ok(bits),
    }
}

fn invalid_padding<T>() -> Result<T, String> {
    Err("asn1: syntax error: invalid padding bits in BIT STRING".to_owned())
}

fn check_subject(subject: Asn1<'_>) -> Result<(), String> {
    let mut fields = Fields::new(subject.whole);
    let sets = fields.read(asn1::SEQUENCE, "RDNSequence")?;
    let mut sets = Fields::new(sets.contents);
    while !sets.rest().is_empty() {
        let attributes = sets.read(asn1::SET, "RelativeDistinguishedNameSET")?;
        let mut attributes = Fields::new(attributes.contents);
        while !attributes.rest().is_empty() {
            let attribute = attributes.read(asn1::SEQUENCE, "AttributeTypeAndValue")?;
            let mut attribute = Fields::new(attribute.contents);
            attribute.read(asn1::OBJECT_IDENTIFIER, "ObjectIdentifier")?;
            attribute.any()?;
        }
    }
    Ok(())
}

/// Requested extensions: object identifier and value.
fn extensions(attributes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let asked = Reader(attributes).filter_map(|attribute| {
        let mut attribute = Reader(attribute.contents);
        let kind = attribute.read(der::OBJECT_IDENTIFIER)?.contents;
        (kind == EXTENSION_REQUEST).then_some(())?;
        attribute.open(der::SET)?.open(der::SEQUENCE)
    });
    let read = asked.flatten().filter_map(|extension| {
        let mut extension = Reader(extension.contents);
        let identifier = extension.read(der::OBJECT_IDENTIFIER)?;
        let _critical = extension.read(der::BOOLEAN);
        Some((identifier.contents, extension.read(der::OCTET_STRING)?.contents))
    });
    read.collect()
}

/// Checks that each requested extension comes once, and that the alternative names are valid.
fn check_extensions(attributes: &[u8]) -> Result<(), String> {
    let mut seen: Vec<&[u8]> = Vec::new();
    for (identifier, value) in extensions(attributes) {
        if identifier == SUBJECT_ALT_NAME {
            AltNames::parse(value)?;
        }
        seen.push(identifier);
    }
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    match seen.len() == count {
        true => Ok(()),
        false => {
            Err("x509: certificate request contains duplicate requested extensions".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(algorithm: &'static rcgen::SignatureAlgorithm) -> (Vec<u8>, rcgen::KeyPair) {
        let mut parameters = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "system:node:a");
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let request = parameters.serialize_request(&key).unwrap();
        (request.der().to_vec(), key)
    }

    #[test]
    fn the_subject_of_a_request_is_read() {
        let (der, key) = request(&rcgen::PKCS_ECDSA_P256_SHA256);
        let body = kevel_codec::base64::encode(&der);
        let text = format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n"
        );
        assert_eq!(requested_subject(text.as_bytes()).unwrap().common_name, "system:node:a");
        let other = format!("{}{text}", key.serialize_pem());
        for text in ["", "x", other.as_str()] {
            let error = requested_subject(text.as_bytes()).unwrap_err();
            assert_eq!(error, "PEM block type must be CERTIFICATE REQUEST");
        }
    }

    #[test]
    fn request_must_be_signed_by_its_key() {
        for (algorithm, failure) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, "x509: ECDSA verification failure"),
            (&rcgen::PKCS_ECDSA_P384_SHA384, "x509: ECDSA verification failure"),
            (&rcgen::PKCS_ED25519, "x509: Ed25519 verification failure"),
        ] {
            let (mut der, _) = request(algorithm);
            let read = CertificateRequest::parse(&der).unwrap();
            assert_eq!(read.check_signature(), Ok(()), "{algorithm:?}");
            // Another user's name under the same signature.
            let at = der.windows(6).position(|window| window == b"node:a").unwrap();
            der[at + 5] = b'b';
            let read = CertificateRequest::parse(&der).unwrap();
            assert_eq!(read.subject().common_name, "system:node:b");
            assert_eq!(read.check_signature(), Err(failure.to_owned()), "{algorithm:?}");
        }
    }

    #[test]
    fn invalid_requests_get_the_reference_s_errors() {
        let (whole, _) = request(&rcgen::PKCS_ECDSA_P256_SHA256);
        let longer = [&whole[..], &[0]].concat();
        let mismatch = format!(
            "asn1: structure error: tags don't match (16 vs {{class:0 tag:2 length:1 \
             isCompound:false}}) {{optional:false explicit:false application:false private:false \
             defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} {}",
            "tbsCertificateRequest @2"
        );
        for (der, error) in [
            (&[][..], "asn1: syntax error: sequence truncated"),
            (&[0x30], "asn1: syntax error: truncated tag or length"),
            (&[0x30, 0], "asn1: syntax error: sequence truncated"),
            (&[0x30, 5], "asn1: syntax error: data truncated"),
            (&[0x30, 3, 2, 1, 0], mismatch.as_str()),
            (&longer, "asn1: syntax error: trailing data"),
        ] {
            assert_eq!(CertificateRequest::parse(der).unwrap_err(), error);
        }
    }
}
