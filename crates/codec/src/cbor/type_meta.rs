//! The kind that an object says it is.

use super::any::simple;
use super::decode::number;
use super::error::{Error, Major, Result, TypeError};
use super::fields::in_field;
use super::reader::CborReader;
use crate::json::TypeMeta;

/// Go package of the struct that the reference reads the two into.
const PACKAGE: &str = "v1";
const STRUCT: &str = "TypeMeta";
const FIELDS: [&str; 2] = ["apiVersion", "kind"];

/// Finds `apiVersion` and `kind` of an object without reading the rest of it into anything: but for keys that are there twice, which
/// is looked for among the object's own.
///
/// ```
/// let meta = kevel_codec::cbor::type_meta(b"\xa2\x44kind\x43Pod\x44spec\xa0")?;
/// assert_eq!((&*meta.api_version, &*meta.kind), ("", "Pod"));
/// # Ok::<(), kevel_codec::cbor::Error>(())
/// ```
pub fn type_meta(input: &[u8]) -> std::result::Result<TypeMeta, Error> {
    let mut meta = TypeMeta::default();
    let read = CborReader::new(input, false)
        .and_then(|mut reader| reader.tagged(|reader| reader.type_meta(&mut meta)));
    read.map(|()| meta).map_err(|error| *error)
}

impl CborReader<'_> {
    fn type_meta(&mut self, meta: &mut TypeMeta) -> Result<()> {
        let go = || format!("{PACKAGE}.{STRUCT}");
        match Major::of(self.peek()) {
            Major::Map => {
                let position = |name: &str| FIELDS.iter().position(|field| *field == name);
                self.fields(position, |reader, position| {
                    let said = if position == 0 { &mut meta.api_version } else { &mut meta.kind };
                    let text = reader.string_of("string");
                    let text = text.map_err(|e| in_field(e, PACKAGE, STRUCT, FIELDS[position]))?;
                    *said = text.unwrap_or_default();
                    Ok(())
                })
            }
            Major::Unsigned | Major::Negative => {
                let head = self.head()?;
                number(head, None, go).map(|_| ())
            }
            Major::Other => {
                let head = self.head()?;
                match simple(head)?.is_null() {
                    true => Ok(()),
                    false => Err(TypeError::boxed(head.major, go())),
                }
            }
            major @ Major::Array => {
                let note = "cannot decode CBOR array to struct without toarray option";
                Err(TypeError::with_note(major, go(), note.to_owned()))
            }
            major => Err(self.other_type(major, go())?),
        }
    }
}
