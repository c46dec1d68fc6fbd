//! Base64: as in Go's `[]byte` fields in JSON (standard alphabet, padded), and in the URL alphabet.

use compact_str::CompactString;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes.
///
/// ```
/// assert_eq!(kevel_codec::base64::encode(b"hello"), "aGVsbG8=");
/// ```
pub fn encode(bytes: &[u8]) -> CompactString {
    let mut text = CompactString::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().enumerate().fold(0u32, |g, (i, b)| g | u32::from(*b) << (16 - 8 * i));
        for place in 0..4 {
            let sextet = (group >> (18 - 6 * place)) as usize & 63;
            text.push(if place <= chunk.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    text
}

/// Decodes a text and appends the bytes. Line breaks are skipped, as in Go; the error is the position in Go's `illegal
/// base64 data at input byte N`.
///
/// ```
/// let mut bytes = Vec::new();
/// assert_eq!(kevel_codec::base64::decode_into("aGVs\nbG8=", &mut bytes), Ok(()));
/// assert_eq!(bytes, b"hello");
/// assert_eq!(kevel_codec::base64::decode_into("aG!s", &mut bytes), Err(2));
/// ```
pub fn decode_into(text: &str, bytes: &mut Vec<u8>) -> Result<(), usize> {
    decode_bytes_into(text.as_bytes(), bytes)
}

/// Decodes a text that may not be UTF-8.
pub(crate) fn decode_bytes_into(text: &[u8], bytes: &mut Vec<u8>) -> Result<(), usize> {
    bytes.reserve(text.len() / 4 * 3);
    let mut at = 0;
    // Whole groups without padding or line breaks: usually all of a text but its end.
    while let Some(&[a, b, c, d]) = text.get(at..at + 4) {
        let [a, b, c, d] = [a, b, c, d].map(|byte| u32::from(SEXTETS[byte as usize]));
        if (a | b | c | d) > 63 {
            break;
        }
        let group = a << 18 | b << 12 | c << 6 | d;
        bytes.extend_from_slice(&[(group >> 16) as u8, (group >> 8) as u8, group as u8]);
        at += 4;
    }
    decode_slowly(text, at, bytes)
}

/// Encodes bytes in the URL alphabet, without padding, as in JSON web tokens.
///
/// ```
/// assert_eq!(kevel_codec::base64::encode_url(b"???"), "Pz8_");
/// ```
pub fn encode_url(bytes: &[u8]) -> String {
    encode(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

/// Decodes the form of [`encode_url`]; `None` if the text is not in it.
///
/// ```
/// assert_eq!(kevel_codec::base64::decode_url("Pz8_").as_deref(), Some(&b"???"[..]));
/// assert_eq!(kevel_codec::base64::decode_url("YQ=="), None);
/// ```
pub fn decode_url(text: &str) -> Option<Vec<u8>> {
    let ours = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !text.bytes().all(ours) {
        return None;
    }
    let mut text = text.replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    let mut bytes = Vec::new();
    decode_into(&text, &mut bytes).ok()?;
    Some(bytes)
}

/// Decodes character by character, from the start of a group on.
fn decode_slowly(text: &[u8], mut at: usize, bytes: &mut Vec<u8>) -> Result<(), usize> {
    let (mut group, mut digits) = (0u32, 0);
    while let Some(&byte) = text.get(at) {
        let position = at;
        at += 1;
        match (byte, SEXTETS[byte as usize]) {
            (b'\n' | b'\r', _) => {}
            (b'=', _) => return padding(text, position, group, digits, bytes),
            (_, NONE) => return Err(position),
            (_, sextet) => {
                group = group << 6 | u32::from(sextet);
                digits += 1;
                if digits == 4 {
                    bytes.extend_from_slice(&[
                        (group >> 16) as u8,
                        (group >> 8) as u8,
                        group as u8,
                    ]);
                    (group, digits) = (0, 0);
                }
            }
        }
    }
    // An incomplete group is reported where it began, counting digits backwards.
    if digits == 0 { Ok(()) } else { Err(at - digits) }
}

/// Decodes the end of a text from its first `=` on.
fn padding(
    text: &[u8],
    position: usize,
    group: u32,
    digits: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), usize> {
    let mut rest = (position + 1..text.len()).filter(|&i| !matches!(text[i], b'\n' | b'\r'));
    match digits {
        2 => {
            match rest.next() {
                None => return Err(text.len()),
                Some(i) if text[i] != b'=' => return Err(i - 1),
                Some(_) => {}
            }
            bytes.push((group >> 4) as u8);
        }
        3 => bytes.extend_from_slice(&[(group >> 10) as u8, (group >> 2) as u8]),
        _ => return Err(position),
    }
    rest.next().map_or(Ok(()), Err)
}

/// Marks a character that is no digit.
const NONE: u8 = 0xff;

/// Value of each digit.
const SEXTETS: [u8; 256] = {
    let mut sextets = [NONE; 256];
    let mut i = 0;
    while i < ALPHABET.len() {
        sextets[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    sextets
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (b"\xff\xfe\xfd\xfc", "//79/A=="),
        ] {
            assert_eq!(encode(bytes), text);
            let mut decoded = Vec::new();
            assert_eq!(decode_into(text, &mut decoded), Ok(()));
            assert_eq!(decoded, bytes);
        }
    }

    #[test]
    fn errors_name_the_position_that_go_names() {
        for (text, expected) in [
            ("Z", Err(0)),
            ("Zg", Err(0)),
            ("Zg=", Err(3)),
            ("Zg=x", Err(2)),
            ("Zg==x", Err(4)),
            ("Z===", Err(1)),
            ("=", Err(0)),
            ("Zm9v!", Err(4)),
            ("Zm9vZ", Err(4)),
            ("Zm 9v", Err(2)),
            ("Zm9v\nZ", Err(5)),
            ("Zm9vZ\nm", Err(5)),
            ("Zm9vZm8", Err(4)),
            ("Zm\r\n9v\n", Ok(())),
            ("Zg=\n=\n", Ok(())),
        ] {
            assert_eq!(decode_into(text, &mut Vec::new()), expected, "{text:?}");
        }
    }
}
