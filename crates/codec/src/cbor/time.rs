//! Times, which tags make of texts and numbers: texts again, where a value has no type.

use compact_str::CompactString;
use kevel_api::time::{NanoTime, UnprintableTime};

use super::any::integer;
use super::error::{Error, Major, Result, TypeError};
use super::reader::CborReader;
use super::{float, tag};
use crate::protobuf;

impl CborReader<'_> {
    /// The time behind a tag whose content is of a type that it can have.
    pub(super) fn time(&mut self, tag: u64) -> Result<CompactString> {
        let time = if tag == tag::TEXT_TIME { self.text_time()? } else { self.epoch_time()? };
        time.to_rfc3339().map(CompactString::from).map_err(|error: UnprintableTime| {
            let why = format!(
                "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: \
                 Time.MarshalText: {error}"
            );
            Error::Invalid(why).into()
        })
    }

    fn text_time(&mut self) -> Result<NanoTime> {
        let text = protobuf::text(&self.utf8()?);
        text.parse().map_err(|error| {
            Error::Invalid(format!("cbor: cannot set {text} for time.Time: {error}")).into()
        })
    }

    /// Seconds since 1970.
    fn epoch_time(&mut self) -> Result<NanoTime> {
        let head = self.head()?;
        if let (Major::Other, Some(float)) = (head.major, float::of_head(head)) {
            let nanos = (float.fract() * 1e9) as i64;
            return Ok(NanoTime::at(float as i64, nanos));
        }
        let number = integer(head);
        let seconds = i64::try_from(number).map_err(|_| {
            let note = format!("{number} overflows Go's int64");
            TypeError::with_note(head.major, "time.Time", note)
        })?;
        Ok(NanoTime::at(seconds, 0))
    }
}
