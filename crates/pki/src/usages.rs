//! Usages of certificates, by the names of the certificates API.

use kevel_api::quote::quote;

use super::der::{self, element};

/// Key usages by name, with their bit.
const KEY_USAGES: &[(&str, u32)] = &[
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Extended key usages by name, in Go's order, with their object identifiers.
const EXTENDED: &[(&str, &[u8])] = &[
    ("any", &[0x55, 0x1d, 37, 0]),
    ("server auth", &[0x2b, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[0x2b, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[0x2b, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[0x2b, 6, 1, 5, 5, 7, 3, 4]),
    ("s/mime", &[0x2b, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[0x2b, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[0x2b, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[0x2b, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[0x2b, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[0x2b, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 10, 3, 3]),
    ("netscape sgc", &[0x60, 0x86, 0x48, 1, 0x86, 0xf8, 0x42, 4, 1]),
];

/// Usages of a certificate.
#[derive(Debug, Default)]
pub(super) struct KeyUsages {
    /// Bits of the key usage, bit 0 first.
    bits: u16,
    extended: Vec<&'static [u8]>,
}

/// Usages that the certificates API does not know.
#[derive(Debug, thiserror::Error)]
#[error("unrecognized usage values: [{}]", quoted(.0))]
pub struct UnknownUsages(Vec<String>);

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| quote(name)).collect();
    quoted.join(" ")
}

impl KeyUsages {
    /// Usages of these names.
    pub fn of(names: &[&str]) -> Result<Self, UnknownUsages> {
        let mut usages = KeyUsages::default();
        let mut unknown = Vec::new();
        for name in names {
            let bit = KEY_USAGES.iter().find(|(known, _)| known == name);
            let known = EXTENDED.iter().any(|(known, _)| known == name);
            match bit {
                Some((_, bit)) => usages.bits |= 0x8000 >> bit,
                None if known => {}
                None => unknown.push((*name).to_owned()),
            }
        }
        for (name, identifier) in EXTENDED {
            if names.contains(name) && !usages.extended.contains(identifier) {
                usages.extended.push(identifier);
            }
        }
        if unknown.is_empty() { Ok(usages) } else { Err(UnknownUsages(unknown)) }
    }

    /// BIT STRING of the key usage, without zeros at its end.
    pub fn key_usage(&self) -> Option<Vec<u8>> {
        let [first, second] = self.bits.to_be_bytes();
        let (bytes, last): (&[u8], u8) = match (first, second) {
            (0, 0) => return None,
            (first, 0) => (&[first], first),
            (first, second) => (&[first, second], second),
        };
        let unused = u8::try_from(last.trailing_zeros()).unwrap_or(0);
        Some(element(der::BIT_STRING, &[&[unused], bytes]))
    }

    /// SEQUENCE of the extended key usages.
    pub fn extended(&self) -> Option<Vec<u8>> {
        let identifiers = self.extended.iter();
        let identifiers: Vec<u8> =
            identifiers.flat_map(|oid| element(der::OBJECT_IDENTIFIER, &[oid])).collect();
        (!identifiers.is_empty()).then(|| element(der::SEQUENCE, &[&identifiers]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_usages_are_the_shortest_bits() {
        for (names, bits) in [
            (&["digital signature", "client auth"][..], Some(vec![3, 2, 7, 0x80])),
            (&["signing", "key encipherment"], Some(vec![3, 2, 5, 0xa0])),
            (&["decipher only"], Some(vec![3, 3, 7, 0, 0x80])),
            (&["client auth"], None),
        ] {
            assert_eq!(KeyUsages::of(names).unwrap().key_usage(), bits, "{names:?}");
        }
        let twice = KeyUsages::of(&["s/mime", "email protection"]).unwrap();
        assert_eq!(twice.extended.len(), 1);
    }
}
