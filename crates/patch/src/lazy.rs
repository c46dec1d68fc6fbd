//! Text of a patched document as the reference's patch library writes it.
//!
//! The library decodes only the parts of a document that a patch touches. Those are written with sorted keys; the rest
//! stays as it was: an object's fields in the order of its type, a patch's values as they were sent. The order decides
//! which error of a document is found first, and errors quote the document.

use kevel_api::value::Value;
use kevel_codec::json::{compact, encode_any, open};

use crate::{json_patch, merge_patch};

/// Limit on the depth of such documents: each level that is touched is scanned once more.
const MAX_LEVELS: usize = 64;

/// Document after a JSON patch (a list) or a merge patch (an object) that is known to apply.
///
/// ```
/// use kevel_patch::lazily_patched;
/// let document = br#"{"kind":"Pod","metadata":{"name":"a","labels":{}},"spec":{"b":1,"a":2}}"#;
/// assert_eq!(
///     lazily_patched(document, br#"{"metadata":{"name":1.50}}"#).unwrap(),
///     br#"{"kind":"Pod","metadata":{"labels":{},"name":1.50},"spec":{"b":1,"a":2}}"#
/// );
/// ```
pub fn lazily_patched(document: &[u8], patch: &[u8]) -> Option<Vec<u8>> {
    let (document, patch) = (compact(document).ok()?, compact(patch).ok()?);
    if nesting(&document).max(nesting(&patch)) > MAX_LEVELS {
        return None;
    }
    let patched = match patch.starts_with('{') {
        true => merge_patch::apply(open(&document), Value::Raw(patch)),
        false => json_patch::replayed(&document, &patch)?,
    };
    let mut text = Vec::new();
    encode_any(&patched, &mut text);
    Some(text)
}

/// Nesting depth of a document's lists and objects.
fn nesting(document: &str) -> usize {
    let (mut open, mut deepest, mut in_text): (usize, usize, bool) = (0, 0, false);
    let mut bytes = document.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' => _ = bytes.next(),
            b'{' | b'[' if !in_text => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' if !in_text => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_patch_goes_through_is_sorted() {
        let document = r#"{"kind":"K","c":{"z":{"y":1,"x":2},"a":[{"n":"1","m":"2"}]},"b":null}"#;
        let cases = [
            ("[]", r#"{"b":null,"c":{"z":{"y":1,"x":2},"a":[{"n":"1","m":"2"}]},"kind":"K"}"#),
            (
                r#"{"c":{"w":{"q":1,"p":null,"o":2}}}"#,
                r#"{"b":null,"c":{"a":[{"n":"1","m":"2"}],"w":{"o":2,"q":1},"z":{"y":1,"x":2}},"kind":"K"}"#,
            ),
            // A list that replaces an object stays as it was sent.
            (r#"{"c":[{"b":1,"a":null}]}"#, r#"{"b":null,"c":[{"b":1,"a":null}],"kind":"K"}"#),
            (
                r#"[{"op":"add","path":"/c/a/0/l","value":{"b":1e3,"a":"<"}}]"#,
                r#"{"b":null,"c":{"a":[{"l":{"b":1e3,"a":"\u003c"},"m":"2","n":"1"}],"z":{"y":1,"x":2}},"kind":"K"}"#,
            ),
            (
                r#"[{"op":"test","path":"/c/z","value":{"x":2,"y":1}},{"op":"remove","path":"/kind"}]"#,
                r#"{"b":null,"c":{"a":[{"n":"1","m":"2"}],"z":{"x":2,"y":1}}}"#,
            ),
        ];
        for (patch, expected) in cases {
            let text = lazily_patched(document.as_bytes(), patch.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), expected, "{patch}");
        }
        let deep = format!("{}1{}", "[".repeat(MAX_LEVELS + 1), "]".repeat(MAX_LEVELS + 1));
        assert_eq!(lazily_patched(deep.as_bytes(), b"{}"), None);
    }
}
