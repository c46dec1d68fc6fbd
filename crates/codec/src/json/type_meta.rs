//! `apiVersion` and `kind` of a document.

use compact_str::CompactString;

use super::error::Error;
use super::scan::{Scanner, Stop};
use super::text::text_of;

/// `apiVersion` and `kind` of a document; empty if missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apiVersion`, such as `apps/v1`
    pub api_version: CompactString,
    /// Kind; empty if missing.
    pub kind: CompactString,
}

/// Finds `apiVersion` and `kind` of a document without decoding the rest.
///
/// As in the reference, the whole document must be JSON, the names match in any case, and the last one counts.
///
/// ```
/// let meta = kevel_codec::json::type_meta(br#"{"apiVersion": "v1", "spec": {}, "Kind": "Pod"}"#)?;
/// assert_eq!((&*meta.api_version, &*meta.kind), ("v1", "Pod"));
/// # Ok::<(), kevel_codec::json::Error>(())
/// ```
pub fn type_meta(input: &[u8]) -> Result<TypeMeta, Error> {
    let text = text_of(input);
    let mut scan = Scanner::new(&text);
    let mut meta = TypeMeta::default();
    let mut wrong = None;
    match read(&mut scan, &mut meta, &mut wrong) {
        Err(Stop) => Err(Error::Syntax(scan.error(input))),
        Ok(()) => wrong.map_or(Ok(meta), |message| Err(Error::Value(message))),
    }
}

/// Go's print of the struct into which the reference decodes the two.
const GO_TYPE: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

fn read(
    scan: &mut Scanner<'_>,
    meta: &mut TypeMeta,
    wrong: &mut Option<String>,
) -> Result<(), Stop> {
    scan.skip_space();
    if scan.peek() != b'{' {
        let found = scan.describe();
        scan.skip_value()?;
        if found != "null" {
            *wrong =
                Some(format!("json: cannot unmarshal {found} into Go value of type {GO_TYPE}"));
        }
        return scan.end();
    }
    scan.open(super::scan::MAX_NESTING)?;
    let mut more = scan.first(b'}');
    while more {
        let key = scan.key()?;
        scan.colon()?;
        let (name, part) = if folds_to(&key, "apiversion") {
            ("apiVersion", &mut meta.api_version)
        } else if folds_to(&key, "kind") {
            ("kind", &mut meta.kind)
        } else {
            scan.skip_value()?;
            more = scan.next(b'}')?;
            continue;
        };
        if scan.peek() == b'"' {
            *part = scan.string()?.into();
        } else {
            let found = scan.describe();
            scan.skip_value()?;
            if found != "null" && wrong.is_none() {
                *wrong = Some(format!(
                    "json: cannot unmarshal {found} into Go struct field .{name} of type string"
                ));
            }
        }
        more = scan.next(b'}')?;
    }
    scan.end()
}

/// Whether a key is a name in any case; two letters of the names have a third case form.
fn folds_to(key: &str, lower: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    // A letter takes three bytes at most.
    (lower.len()..=lower.len() * 3).contains(&key.len()) && key.chars().map(fold).eq(lower.chars())
}
