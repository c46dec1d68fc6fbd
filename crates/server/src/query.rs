//! Query parameters.

/// The decoded pairs of a query, in their order. Pairs that Go's parser refuses are left out.
pub fn pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(key, true), percent_decode(value, true))
        })
        .collect()
}

/// Undoes percent-encoding; what is not valid stays as it is. `plus` reads `+` as a space, as in
/// queries.
pub fn percent_decode(text: &str, plus: bool) -> String {
    if !text.bytes().any(|b| b == b'%' || (plus && b == b'+')) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    let hex = |byte: Option<&u8>| byte.and_then(|b| (*b as char).to_digit(16));
    while let Some(&byte) = bytes.get(at) {
        match (byte, hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', ..) if plus => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into())
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
            ("a=%zz&&=", vec![("a", "%zz"), ("", "")]),
        ] {
            let found = pairs(query);
            let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(found, expected, "{query}");
        }
    }
}
