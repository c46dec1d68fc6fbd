//! Messages of pprof's `profile.proto`, and a builder of them.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<PprofValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<PprofSample>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<PprofFunction>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<PprofValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
}

/// Kind and unit of a value: positions in the table of texts.
#[derive(Clone, PartialEq, Message)]
pub struct PprofValueType {
    #[prost(int64, tag = "1")]
    pub ty: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A stack, the innermost place first.
#[derive(Clone, PartialEq, Message)]
pub struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PprofLocation {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<PprofLine>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PprofLine {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PprofFunction {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

/// ProfileBuilder of a profile: each text, function and place is in it once.
#[derive(Debug)]
pub struct ProfileBuilder {
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<(u64, i64), u64>,
}

impl ProfileBuilder {
    /// A profile of these types of values, one sample for each `period`.
    pub fn new<'t>(
        types: impl IntoIterator<Item = (&'t str, &'t str)>,
        period_type: (&str, &str),
        period: i64,
    ) -> Self {
        let mut builder = ProfileBuilder {
            profile: Profile { period, ..Profile::default() },
            texts: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
        };
        // The format's first text is empty.
        builder.text("");
        for (ty, unit) in types {
            let ty = builder.value_type(ty, unit);
            builder.profile.sample_type.push(ty);
        }
        builder.profile.period_type = Some(builder.value_type(period_type.0, period_type.1));
        builder
    }

    /// Adds a stack of names, files and lines, the innermost first, with its values.
    pub fn add<'t>(
        &mut self,
        stack: impl IntoIterator<Item = (&'t str, &'t str, u32)>,
        values: impl Into<Vec<i64>>,
    ) {
        let places = stack.into_iter().map(|(name, file, line)| self.location(name, file, line));
        let location_id = places.collect();
        self.profile.sample.push(PprofSample { location_id, value: values.into() });
    }

    /// The encoded profile.
    pub fn finish(mut self, began: SystemTime, duration: Option<Duration>) -> Vec<u8> {
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let since = began.duration_since(UNIX_EPOCH).ok();
        self.profile.time_nanos = since.map_or(0, nanos);
        self.profile.duration_nanos = duration.map_or(0, nanos);
        self.profile.encode_to_vec()
    }

    fn value_type(&mut self, ty: &str, unit: &str) -> PprofValueType {
        PprofValueType { ty: self.text(ty), unit: self.text(unit) }
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(place) = self.texts.get(text) {
            return *place;
        }
        let place = self.texts.len() as i64;
        self.texts.insert(text.to_owned(), place);
        self.profile.string_table.push(text.to_owned());
        place
    }

    fn location(&mut self, name: &str, file: &str, line: u32) -> u64 {
        let (name, filename) = (self.text(name), self.text(file));
        let next = self.functions.len() as u64 + 1;
        let function_id = *self.functions.entry((name, filename)).or_insert_with(|| {
            let function = PprofFunction { id: next, name, system_name: name, filename };
            self.profile.function.push(function);
            next
        });
        let line = i64::from(line);
        let next = self.locations.len() as u64 + 1;
        *self.locations.entry((function_id, line)).or_insert_with(|| {
            let line = vec![PprofLine { function_id, line }];
            self.profile.location.push(PprofLocation { id: next, line });
            next
        })
    }
}

/// Compresses a profile, as its format wants.
pub fn gzip(profile: &[u8]) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(profile)?;
    gzip.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_places_are_in_profiles_once() {
        let mut builder = ProfileBuilder::new([("samples", "count")], ("cpu", "nanoseconds"), 10);
        builder.add([("inner", "a.rs", 1), ("outer", "a.rs", 2)], [3]);
        builder.add([("outer", "a.rs", 2)], [4]);
        let bytes = builder.finish(UNIX_EPOCH, Some(Duration::from_nanos(5)));
        let profile = Profile::decode(&*bytes).unwrap();
        let texts = ["", "samples", "count", "cpu", "nanoseconds", "inner", "a.rs", "outer"];
        assert_eq!(profile.string_table, texts);
        assert_eq!((profile.location.len(), profile.function.len()), (2, 2));
        let stacks: Vec<_> = profile.sample.iter().map(|sample| &*sample.location_id).collect();
        assert_eq!(stacks, [&[1, 2][..], &[2]]);
        assert_eq!((profile.period, profile.duration_nanos), (10, 5));
    }
}
