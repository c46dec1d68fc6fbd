//! JSON string literals, escaped byte for byte as the reference's encoder escapes them.

/// Appends `s` to `out` as a quoted JSON string.
///
/// Besides the escapes of JSON, `<`, `>`, `&`, U+2028 and U+2029 are escaped, as in Go's encoder, which makes the text
/// safe inside HTML and JavaScript; clients that compare bytes see the difference.
///
/// ```
/// let mut out = Vec::new();
/// kevel_api::json_string::write_json_string(&mut out, "a<b\n");
/// assert_eq!(out, br#""a\u003cb\n""#);
/// ```
pub fn write_json_string(out: &mut Vec<u8>, s: &str) {
    let bytes = s.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut run = 0;
    let mut at = 0;
    while at < bytes.len() {
        at += plain_prefix(&bytes[at..]);
        let Some(&byte) = bytes.get(at) else {
            break;
        };
        let separator;
        let escape: &[u8] = match ESCAPE[usize::from(byte)] {
            HEX => &[b'\\', b'u', b'0', b'0', HEX_DIGITS[byte as usize >> 4], hex_low(byte)],
            SEPARATOR => {
                // U+2028 and U+2029 are E2 80 A8 and E2 80 A9; other characters begin with E2 too.
                let Some([0x80, last @ (0xa8 | 0xa9)]) = bytes.get(at + 1..at + 3) else {
                    at += 1;
                    continue;
                };
                separator = [b'\\', b'u', b'2', b'0', b'2', hex_low(*last)];
                &separator
            }
            letter => &[b'\\', letter],
        };
        out.extend_from_slice(&bytes[run..at]);
        out.extend_from_slice(escape);
        at += if byte == 0xe2 { 3 } else { 1 };
        run = at;
    }
    out.extend_from_slice(&bytes[run..]);
    out.push(b'"');
}

/// Number of leading bytes that need no escape.
#[inline]
fn plain_prefix(bytes: &[u8]) -> usize {
    if all_plain(bytes) {
        return bytes.len();
    }
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let plain = BLOCK * blocks.iter().take_while(|block| is_plain(block)).count();
    let rest = bytes[plain..].iter().take(BLOCK);
    plain + rest.take_while(|&&byte| ESCAPE[usize::from(byte)] == PLAIN).count()
}

/// Whether no byte needs an escape. The last block or word may overlap the one before.
#[inline]
fn all_plain(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk::<BLOCK>() {
        let (blocks, _) = bytes.as_chunks::<BLOCK>();
        return blocks.iter().all(is_plain) && is_plain(last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return is_plain_word(u64::from_le_bytes(*first))
            && is_plain_word(u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let halves = [u32::from_le_bytes(*first), u32::from_le_bytes(*last)];
        return is_plain_word(u64::from(halves[0]) << 32 | u64::from(halves[1]));
    }
    bytes.iter().all(|&byte| ESCAPE[usize::from(byte)] == PLAIN)
}

/// Whether none of eight bytes needs an escape.
#[inline]
fn is_plain_word(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Marks the bytes that are less than a small number.
    let less = |word: u64, than: u64| word.wrapping_sub(ONES * than) & !word & (ONES << 7);
    let equal = |word: u64, to: u8| less(word ^ (ONES * u64::from(to)), 1);
    // Two pairs differ in one bit each: `"` and `&`, `<` and `>`.
    less(word, 0x20)
        | equal(word | (ONES * 0x04), b'&')
        | equal(word | (ONES * 0x02), b'>')
        | equal(word, b'\\')
        | equal(word, 0xe2)
        == 0
}

const BLOCK: usize = 16;

/// Whether no byte of a block needs an escape, in a form that compiles to vector instructions.
fn is_plain(block: &[u8; BLOCK]) -> bool {
    let escaped: [u8; BLOCK] = std::array::from_fn(|i| {
        let byte = block[i];
        u8::from(byte < 0x20)
            | u8::from(byte | 0x04 == b'&')
            | u8::from(byte | 0x02 == b'>')
            | u8::from(byte == b'\\')
            | u8::from(byte == 0xe2)
    });
    u128::from_ne_bytes(escaped) == 0
}

fn hex_low(byte: u8) -> u8 {
    HEX_DIGITS[usize::from(byte & 0xf)]
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Byte without escape.
const PLAIN: u8 = 0;
/// Byte that is written as `\u00XX`.
const HEX: u8 = 1;
/// Byte that may begin U+2028 or U+2029.
const SEPARATOR: u8 = 2;

/// Class of each byte, or the letter that follows the backslash.
const ESCAPE: [u8; 256] = {
    let mut table = [PLAIN; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = HEX;
        control += 1;
    }
    table[0x08] = b'b';
    table[0x0c] = b'f';
    table[b'\n' as usize] = b'n';
    table[b'\r' as usize] = b'r';
    table[b'\t' as usize] = b't';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'<' as usize] = HEX;
    table[b'>' as usize] = HEX;
    table[b'&' as usize] = HEX;
    table[0xe2] = SEPARATOR;
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_as_the_reference() {
        for (text, json) in [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("\"\\/", r#""\"\\/""#),
            ("<a href=\"x\">&", r#""\u003ca href=\"x\"\u003e\u0026""#),
            ("\u{8}\u{c}\n\r\t", r#""\b\f\n\r\t""#),
            ("\0\u{1f}\u{7f}", "\"\\u0000\\u001f\u{7f}\""),
            ("a\u{2028}b\u{2029}", r#""a\u2028b\u2029""#),
            ("\u{2027}\u{202a}€", "\"\u{2027}\u{202a}€\""),
            ("é日😀", "\"é日😀\""),
        ] {
            let mut out = Vec::new();
            write_json_string(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), json, "{text:?}");
        }
    }

    #[test]
    fn blocks_and_single_bytes_agree() {
        for c in (0..0x80).map(char::from).chain(['\u{e9}', '\u{2028}', '\u{2029}', '\u{202a}']) {
            let mut alone = Vec::new();
            write_json_string(&mut alone, &c.to_string());
            let alone = String::from_utf8(alone).unwrap();
            let alone = &alone[1..alone.len() - 1];
            for (before, after) in (0..40).flat_map(|b| [0, 1, 15, 16, 33].map(|a| (b, a))) {
                let (before, after) = ("x".repeat(before), "y".repeat(after));
                let mut out = Vec::new();
                write_json_string(&mut out, &format!("{before}{c}{after}"));
                assert_eq!(String::from_utf8(out).unwrap(), format!("\"{before}{alone}{after}\""));
            }
        }
    }
}
