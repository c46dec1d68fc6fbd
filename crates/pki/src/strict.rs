//! Strict parsing of certificates, as the reference parses those that a signer has issued.

use super::certificate::{AltNames, Certificate, SUBJECT_ALT_NAME, time};
use super::der::{self, Element, Reader};
use super::public_key::PublicKey;

const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];

/// Version 3, which is encoded as 2.
const VERSION_3: u8 = 2;

impl<'a> Certificate<'a> {
    /// Parses a certificate strictly, and returns the bytes behind it.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), String> {
        let mut reader = Reader(bytes);
        let mut outer = reader.open(der::SEQUENCE).ok_or("x509: malformed certificate")?;
        let mut inner = outer.open(der::SEQUENCE).ok_or("x509: malformed tbs certificate")?;
        let version = version(&mut inner)?;
        let serial = inner.read(der::INTEGER).filter(|serial| !serial.contents.is_empty());
        let serial = serial.ok_or("x509: malformed serial number")?.contents;
        if serial.first().is_some_and(|first| *first >= 0x80) {
            return Err("x509: negative serial number".to_owned());
        }
        let algorithm = inner.read(der::SEQUENCE);
        let algorithm = algorithm.ok_or("x509: malformed signature algorithm identifier")?;
        let outside = outer.read(der::SEQUENCE).ok_or("x509: malformed algorithm identifier")?;
        if algorithm.contents != outside.contents {
            return Err(
                "x509: inner and outer signature algorithm identifiers don't match".to_owned()
            );
        }
        Reader(algorithm.contents).read(der::OBJECT_IDENTIFIER).ok_or("x509: malformed OID")?;
        let issuer = inner.read(der::SEQUENCE).ok_or("x509: malformed issuer")?;
        check_name(issuer.contents)?;
        let mut times = inner.open(der::SEQUENCE).ok_or("x509: malformed validity")?;
        check_time(times.next())?;
        check_time(times.next())?;
        let subject = inner.read(der::SEQUENCE).ok_or("x509: malformed issuer")?.contents;
        check_name(subject)?;
        let public_key = inner.read(der::SEQUENCE).ok_or("x509: malformed spki")?.whole;
        PublicKey::parse(public_key)?;
        if version == VERSION_3 {
            check_list(&mut inner)?;
        }
        let signature = outer.read(der::BIT_STRING).filter(|bits| !bits.contents.is_empty());
        signature.ok_or("x509: malformed signature")?;
        let certificate = Certificate::read(bytes).ok_or("x509: malformed certificate")?;
        certificate.check_extensions()?;
        Ok((certificate, reader.0))
    }

    /// Whether basic constraints mark it as a CA.
    pub fn is_authority(&self) -> bool {
        let constraints = self.extension(BASIC_CONSTRAINTS);
        let constraints = constraints.and_then(|value| Reader(value).open(der::SEQUENCE));
        let authority = constraints.and_then(|mut fields| fields.read(der::BOOLEAN));
        authority.is_some_and(|flag| flag.contents == [0xff])
    }

    /// Checks that each extension comes once, and that the known ones are well formed.
    fn check_extensions(&self) -> Result<(), String> {
        let mut seen: Vec<&[u8]> = Vec::new();
        for extension in Reader(self.extensions) {
            let mut fields = Reader(extension.contents);
            let identifier = fields.read(der::OBJECT_IDENTIFIER);
            let identifier = identifier.ok_or("x509: malformed extension OID field")?.contents;
            let _critical = fields.read(der::BOOLEAN);
            let value = fields.read(der::OCTET_STRING);
            let value = value.ok_or("x509: malformed extension value field")?.contents;
            check_extension(identifier, value)?;
            seen.push(identifier);
        }
        seen.sort_unstable();
        match seen.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!(
                "x509: certificate contains duplicate extension with OID \"{}\"",
                dotted(pair[0])
            )),
            None => Ok(()),
        }
    }
}

impl AltNames {
    /// Parses the alternative names of a certificate or a request, all of which must be valid.
    pub fn parse(value: &[u8]) -> Result<Self, String> {
        let list = Reader(value).open(der::SEQUENCE);
        let mut list = list.ok_or("x509: invalid subject alternative names")?;
        let mut names = AltNames::default();
        while !list.0.is_empty() {
            let name = list.next().ok_or("x509: invalid subject alternative name")?;
            let text = || {
                let text = std::str::from_utf8(name.contents).ok();
                text.filter(|text| text.is_ascii()).map(str::to_owned)
            };
            match name.tag {
                0x81 => names.emails.push(text().ok_or("x509: SAN rfc822Name is malformed")?),
                0x82 => names.dns_names.push(text().ok_or("x509: SAN dNSName is malformed")?),
                0x86 => {
                    let uri = text().ok_or("x509: SAN uniformResourceIdentifier is malformed")?;
                    names.uris.push(uri);
                }
                0x87 => {
                    let length = name.contents.len();
                    let address = super::certificate::address(name.contents);
                    let address = address.ok_or_else(|| {
                        format!("x509: cannot parse IP address of length {length}")
                    })?;
                    names.ips.push(address);
                }
                _ => {}
            }
        }
        Ok(names)
    }

    /// Whether there is no name of any kind.
    pub fn is_empty(&self) -> bool {
        let AltNames { dns_names, ips, emails, uris } = self;
        dns_names.is_empty() && ips.is_empty() && emails.is_empty() && uris.is_empty()
    }
}

fn version(inner: &mut Reader<'_>) -> Result<u8, String> {
    let Some(mut version) = inner.open(der::context(0)) else { return Ok(0) };
    let version = version.read(der::INTEGER).map(|version| version.contents);
    match version {
        Some([version @ 0..=VERSION_3]) => Ok(*version),
        Some([first, ..]) if *first < 0x80 => Err("x509: invalid version".to_owned()),
        _ => Err("x509: malformed version".to_owned()),
    }
}

fn check_list(inner: &mut Reader<'_>) -> Result<(), String> {
    let Some(element) = inner.find(|element| element.tag == der::context(3)) else {
        return Ok(());
    };
    let list = Reader(element.contents).read(der::SEQUENCE).ok_or("x509: malformed extensions")?;
    let mut each = Reader(list.contents);
    while !each.0.is_empty() {
        each.read(der::SEQUENCE).ok_or("x509: malformed extension")?;
    }
    Ok(())
}

fn check_extension(identifier: &[u8], value: &[u8]) -> Result<(), String> {
    match identifier {
        SUBJECT_ALT_NAME => AltNames::parse(value).map(drop),
        BASIC_CONSTRAINTS => {
            let mut fields =
                Reader(value).open(der::SEQUENCE).ok_or("x509: invalid basic constraints")?;
            match fields.next() {
                None if fields.0.is_empty() => Ok(()),
                Some(Element { tag: der::BOOLEAN, contents: [0 | 0xff], .. })
                | Some(Element { tag: der::INTEGER, .. }) => Ok(()),
                _ => Err("x509: invalid basic constraints".to_owned()),
            }
        }
        KEY_USAGE => {
            Reader(value).read(der::BIT_STRING).ok_or("x509: invalid key usage")?;
            Ok(())
        }
        EXTENDED_KEY_USAGE => {
            let list = Reader(value).open(der::SEQUENCE);
            let mut list = list.ok_or("x509: invalid extended key usages")?;
            while !list.0.is_empty() {
                list.read(der::OBJECT_IDENTIFIER).ok_or("x509: invalid extended key usages")?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_time(element: Option<Element<'_>>) -> Result<(), String> {
    let element = element.ok_or("x509: malformed validity")?;
    let error = match element.tag {
        der::UTC_TIME => "x509: malformed UTCTime",
        der::GENERALIZED_TIME => "x509: malformed GeneralizedTime",
        _ => return Err("x509: unsupported time format".to_owned()),
    };
    time(element).map(|_| ()).ok_or_else(|| error.to_owned())
}

fn check_name(encoded: &[u8]) -> Result<(), String> {
    let mut sets = Reader(encoded);
    while !sets.0.is_empty() {
        let mut set = sets.open(der::SET).ok_or("x509: invalid RDNSequence")?;
        while !set.0.is_empty() {
            let mut attribute =
                set.open(der::SEQUENCE).ok_or("x509: invalid RDNSequence: invalid attribute")?;
            attribute
                .read(der::OBJECT_IDENTIFIER)
                .ok_or("x509: invalid RDNSequence: invalid attribute type")?;
            let value = attribute.next();
            let value = value.ok_or("x509: invalid RDNSequence: invalid attribute value")?;
            if let Some(problem) = text_problem(value) {
                return Err(format!(
                    "x509: invalid RDNSequence: invalid attribute value: {problem}"
                ));
            }
        }
    }
    Ok(())
}

/// Error in the string of a name.
fn text_problem(value: Element<'_>) -> Option<String> {
    let bytes = value.contents;
    let printable = |byte: &u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte);
    let (fine, problem) = match value.tag {
        der::T61_STRING => return None,
        der::UTF8_STRING => (std::str::from_utf8(bytes).is_ok(), "invalid UTF-8 string"),
        der::PRINTABLE_STRING => (bytes.iter().all(printable), "invalid PrintableString"),
        der::BMP_STRING => (is_bmp(bytes), "invalid BMPString"),
        der::IA5_STRING => (bytes.is_ascii(), "invalid IA5String"),
        der::NUMERIC_STRING => {
            let fine = bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b' ');
            (fine, "invalid NumericString")
        }
        tag => return Some(format!("unsupported string type: {tag}")),
    };
    (!fine).then(|| problem.to_owned())
}

/// Whether bytes are a text in UCS-2: without surrogates, and without the code points that stand for no character.
fn is_bmp(bytes: &[u8]) -> bool {
    let (units, rest) = bytes.as_chunks::<2>();
    let mut points = units.iter().map(|unit| u16::from_be_bytes(*unit));
    rest.is_empty()
        && points.all(|point| !matches!(point, 0xd800..=0xdfff | 0xfdd0..=0xfdef | 0xfffe..))
}

/// An object identifier as people write it.
fn dotted(identifier: &[u8]) -> String {
    let mut numbers: Vec<u64> = Vec::new();
    let mut number = 0u64;
    for byte in identifier {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    let first = numbers.first().copied().unwrap_or_default();
    let head = [(first / 40).min(2), first - (first / 40).min(2) * 40];
    let all = head.into_iter().chain(numbers.into_iter().skip(1));
    all.map(|number| number.to_string()).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(authority: bool) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        if authority {
            parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn certificates_are_read() {
        for authority in [false, true] {
            let der = [&certificate(authority)[..], b"more"].concat();
            let (read, rest) = Certificate::parse(&der).unwrap();
            assert_eq!(read.is_authority(), authority);
            assert_eq!(read.alt_names().dns_names, ["a.example"]);
            assert_eq!(rest, b"more");
        }
    }

    /// Every truncation and every changed byte gives an error or a certificate, never a panic.
    #[test]
    fn what_is_damaged_is_told() {
        let whole = certificate(true);
        for length in 0..whole.len() {
            let error = Certificate::parse(&whole[..length]).unwrap_err();
            assert_eq!(error, "x509: malformed certificate", "{length}");
        }
        let mut errors = std::collections::BTreeSet::new();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x25;
            errors.extend(Certificate::parse(&damaged).err());
        }
        for expected in
            ["x509: malformed spki", "x509: malformed issuer", "x509: malformed signature"]
        {
            assert!(errors.iter().any(|error| error == expected), "{expected} in {errors:?}");
        }
    }

    #[test]
    fn text_of_two_bytes_a_letter_has_no_surrogates() {
        for (contents, fine) in [
            (&b"\0a\0b"[..], true),
            (b"\0a\0\0", true),
            (b"", true),
            (b"\0a\0", false),
            (b"\xd8\x3d\xde\0", false),
            (b"\xdf\xff", false),
            (b"\xfd\xd0", false),
            (b"\xff\xfe", false),
            (b"\xff\xff", false),
        ] {
            let element = Element { tag: der::BMP_STRING, contents, whole: contents };
            assert_eq!(text_problem(element).is_none(), fine, "{contents:x?}");
        }
    }

    #[test]
    fn identifiers_are_written_with_dots() {
        assert_eq!(dotted(&[0x55, 0x1d, 17]), "2.5.29.17");
        assert_eq!(dotted(&[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2]), "1.3.6.1.4.1.57683.2");
    }
}
