//! Percent-encoding of paths and queries, decoded and encoded as Go does.

/// Most parameters of a query: Go's limit. A query with more has none.
const MAX_PARAMETERS: usize = 10_000;

/// Decoded parameters of a query, in order. Malformed ones are left out: with a semicolon, or with an invalid `%`
/// escape.
pub fn pairs(query: &str) -> Vec<(String, String)> {
    let read = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((unescape(key, true)?, unescape(value, true)?))
    };
    let pairs = || query.split('&');
    if pairs().count() > MAX_PARAMETERS {
        return Vec::new();
    }
    pairs().filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(read).collect()
}

/// The first value of a parameter.
pub fn first<'q>(pairs: &'q [(String, String)], name: &str) -> Option<&'q str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Decodes percent-encoding; `None` for an invalid `%` escape. `plus` decodes `+` as a space, as in queries. Bytes that
/// are not UTF-8 are replaced; no name has such characters.
pub fn unescape(text: &str, plus: bool) -> Option<String> {
    if !text.bytes().any(|b| b == b'%' || (plus && b == b'+')) {
        return Some(text.to_owned());
    }
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    let hex = |byte: Option<u8>| byte.and_then(|b| (b as char).to_digit(16));
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => (hex(bytes.next())? * 16 + hex(bytes.next())?) as u8,
            b'+' if plus => b' ',
            byte => byte,
        });
    }
    let text = String::from_utf8(out);
    Some(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into()))
}

/// Encodes a decoded path.
pub fn escape_path(path: &str) -> String {
    escaped(path, |byte| b"$&+,/:;=@".contains(&byte))
}

/// Encodes parameters as a query: sorted by name, those of one name in their order.
pub fn encode(pairs: &[(String, String)]) -> String {
    let escape = |text: &str| escaped(text, |byte| byte == b' ').replace(' ', "+");
    let mut pairs: Vec<_> = pairs.iter().collect();
    pairs.sort_by_key(|(key, _)| key);
    let pairs = pairs.iter().map(|(key, value)| format!("{}={}", escape(key), escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn escaped(text: &str, kept: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || kept(byte) {
            true => out.push(byte.into()),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        for (query, expected) in [
            ("", vec![]),
            ("a=b&c", vec![("a", "b"), ("c", "")]),
            ("a=1%2C2&b=x+y&%61=z", vec![("a", "1,2"), ("b", "x y"), ("a", "z")]),
            ("&&=", vec![("", "")]),
            // Malformed parameters are left out.
            ("a=%zz&b=%4&c=%&d=1&%=e", vec![("d", "1")]),
            ("a=1;b=2&c=3", vec![("c", "3")]),
        ] {
            let found = pairs(query);
            let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(found, expected, "{query}");
        }
        assert_eq!(pairs(&"a=1&".repeat(MAX_PARAMETERS)), []);
    }

    #[test]
    fn what_is_sent_is_what_was_read() {
        let pairs = pairs("b=x+y&a=%26&b=%zz&b=1;2&b=1%2B&c");
        assert_eq!(encode(&pairs), "a=%26&b=x+y&b=1%2B&c=");
        let path = unescape("/apis/a.io/v1/things/x%2fy%3Fz%20(+)", false).unwrap();
        assert_eq!(path, "/apis/a.io/v1/things/x/y?z (+)");
        assert_eq!(escape_path(&path), "/apis/a.io/v1/things/x/y%3Fz%20%28+%29");
        assert_eq!(unescape("/a%2", false), None);
    }
}
