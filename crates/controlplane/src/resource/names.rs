//! Validation of names of drivers, pools, devices and attributes.

use kevel_api::name;

use crate::pod::volume_source;
use crate::validation::Field;

/// Maximum length of a pool name, the same as of a node name.
const MAX_POOL: usize = 253;
/// Maximum length of the domain of an attribute or a capacity.
pub(super) const MAX_DOMAIN: usize = 63;
/// Maximum length of the name of an attribute or a capacity in its domain.
pub(super) const MAX_ID: usize = 32;
/// Maximum length of a key in an error path; of a longer one the middle is left out.
pub(super) const MAX_QUALIFIED: usize = MAX_DOMAIN + 1 + MAX_ID;

/// Checks the name of a driver.
pub(super) fn driver(driver: Field) {
    volume_source::csi_driver_name(driver);
}

/// Checks the name of a pool: DNS subdomains separated by slashes.
pub(super) fn pool(pool: Field) {
    if !pool.must("") {
        return;
    }
    if pool.len() > MAX_POOL {
        pool.too_long(MAX_POOL);
    }
    for part in pool.str().split('/') {
        for problem in name::is_dns1123_subdomain(part) {
            pool.invalid_as(part, problem);
        }
    }
}

/// Checks the name of a device, a request or a counter.
pub(super) fn label(label: Field) {
    label.form(name::is_dns1123_label);
}

/// Checks an optional node name; true if there is one.
pub(super) fn node(node: Field, empty: &'static str) -> bool {
    match node.get() {
        None => false,
        Some(_) if node.is_empty() => {
            node.invalid(empty);
            false
        }
        Some(_) => {
            node.object_name(name::name_is_dns_subdomain);
            true
        }
    }
}

/// Checks the name of an attribute or a capacity, with or without a domain. Errors of a map's key are reported at the
/// map.
pub(super) fn qualified(place: Field, name: &str) {
    let mut parts = name.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(id), None, _) => identifier(place, id),
        (Some(domain), Some(id), None) => {
            if domain.is_empty() {
                place.invalid_as("", "the domain must not be empty");
            } else {
                driver(place.with(Some(&domain.into())));
            }
            if id.is_empty() {
                place.invalid_as("", "the name must not be empty");
            } else {
                identifier(place, id);
            }
        }
        // The reference accepts anything with more slashes.
        _ => {}
    }
}

/// Checks the name of an attribute or a capacity with a domain.
pub(super) fn fully_qualified(name: Field) {
    qualified(name, name.str());
    if !name.str().contains('/') {
        name.invalid_as(
            name.bad_value_as_json(),
            "a fully qualified name must be a domain and a name separated by a slash",
        );
    }
}

fn identifier(place: Field, id: &str) {
    if id.len() > MAX_ID {
        place.too_long(MAX_ID);
    }
    for problem in name::is_c_identifier(id) {
        place.invalid_as(id, problem);
    }
}

/// Checks an optional share ID.
pub(super) fn share_id(id: Field) {
    if id.is_absent() {
        return;
    }
    if let Err(why) = uuid_form(id.str()) {
        id.invalid(format!("error validating uid: {why}"));
    } else if id.len() != UUID || id.str() != id.str().to_lowercase() {
        id.invalid(
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with \
             lowercase hexadecimal characters",
        );
    }
}

/// Length of a UUID with its hyphens.
const UUID: usize = 36;
const URN: &str = "urn:uuid:";

/// Checks that a text is a UUID in one of the forms that Go's uuid package parses.
fn uuid_form(text: &str) -> Result<(), String> {
    const INVALID: &str = "invalid UUID format";
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    let bytes = text.as_bytes();
    let plain = match bytes.len() {
        UUID => bytes,
        length if length == UUID + URN.len() => {
            let (prefix, rest) = bytes.split_at(URN.len());
            if !prefix.eq_ignore_ascii_case(URN.as_bytes()) {
                let prefix = kevel_api::quote::quote(&String::from_utf8_lossy(prefix));
                return Err(format!("invalid urn prefix: {prefix}"));
            }
            rest
        }
        length if length == UUID + 2 => match bytes {
            [b'{', inside @ .., b'}'] => inside,
            _ => return Err("invalid bracketed UUID format".to_owned()),
        },
        length if length == UUID - HYPHENS.len() => {
            let hex = bytes.iter().all(u8::is_ascii_hexdigit);
            return if hex { Ok(()) } else { Err(INVALID.to_owned()) };
        }
        length => return Err(format!("invalid UUID length: {length}")),
    };
    let fits = |(index, byte): (usize, &u8)| match HYPHENS.contains(&index) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    if plain.iter().enumerate().all(fits) { Ok(()) } else { Err(INVALID.to_owned()) }
}

/// Key as error paths show it: of one that is too long, the middle is left out.
pub(super) fn shortened(key: &str, max: usize) -> String {
    const ELLIPSIS: &str = "...";
    if key.len() <= max {
        return key.to_owned();
    }
    let left = max - ELLIPSIS.len();
    let (bytes, begin) = (key.as_bytes(), left.div_ceil(2));
    let (begin, end) = (&bytes[..begin], &bytes[bytes.len() - left / 2..]);
    format!("{}{ELLIPSIS}{}", String::from_utf8_lossy(begin), String::from_utf8_lossy(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        for (text, problem) in [
            (uuid.to_owned(), ""),
            (uuid.replace('-', ""), ""),
            (format!("{{{uuid}}}"), ""),
            (format!("URN:uuid:{uuid}"), ""),
            (format!("urn_uuid:{uuid}"), "invalid urn prefix: \"urn_uuid:\""),
            (format!("({uuid})"), "invalid bracketed UUID format"),
            (uuid.replace('-', "x"), "invalid UUID format"),
            (uuid.replace('1', "x"), "invalid UUID format"),
            (uuid.replace('-', "").replace('1', "x"), "invalid UUID format"),
            ("é".to_owned(), "invalid UUID length: 2"),
            (String::new(), "invalid UUID length: 0"),
        ] {
            assert_eq!(uuid_form(&text).err().unwrap_or_default(), problem, "{text}");
        }
    }

    #[test]
    fn long_keys_lose_their_middle() {
        assert_eq!(shortened("0123456789abcdef", 16), "0123456789abcdef");
        assert_eq!(shortened("0123456789abcdefg", 16), "0123456...bcdefg");
        assert_eq!(shortened(&"é".repeat(9), 16), "ééé\u{fffd}...ééé");
    }
}
