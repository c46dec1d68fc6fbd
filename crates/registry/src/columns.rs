//! Columns of a kind's Tables (upstream: `TableConvertor`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kevel_api::time::{MicroTime, Time};
use kevel_api::value::Value;
use kevel_openapi_text::Texts;

/// Column of a Table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Header of the column.
    pub name: Cow<'static, str>,
    /// An OpenAPI type: `string`, `integer`, `boolean`, `date`, ...
    pub ty: Cow<'static, str>,
    /// An OpenAPI format; `name` marks the column with the object's name.
    pub format: Cow<'static, str>,
    /// Description; or a field, `core.v1.Secret#type`, whose description is used.
    pub description: Cow<'static, str>,
    /// 0 is always shown, higher ones only in wide output (`-o wide`).
    pub priority: i32,
}

impl Column {
    /// Name of the object.
    pub const NAME: Column = Column::name("Name", "meta.v1.ObjectMeta#name");
    /// Age of the object.
    pub const AGE: Column = Column::text("Age", "meta.v1.ObjectMeta#creationTimestamp");

    /// A column of text.
    pub const fn text(name: &'static str, description: &'static str) -> Self {
        Column::typed("string", name, description)
    }

    /// A column of names.
    pub const fn name(name: &'static str, description: &'static str) -> Self {
        Column::new("string", "name", name, description)
    }

    /// A column of integers.
    pub const fn integer(name: &'static str, description: &'static str) -> Self {
        Column::typed("integer", name, description)
    }

    /// A column of booleans.
    pub const fn boolean(name: &'static str, description: &'static str) -> Self {
        Column::typed("boolean", name, description)
    }

    /// A column of some OpenAPI type.
    pub const fn typed(ty: &'static str, name: &'static str, description: &'static str) -> Self {
        Column::new(ty, "", name, description)
    }

    const fn new(
        ty: &'static str,
        format: &'static str,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        Column {
            name: Cow::Borrowed(name),
            ty: Cow::Borrowed(ty),
            format: Cow::Borrowed(format),
            description: Cow::Borrowed(description),
            priority: 0,
        }
    }

    /// The field whose description is used, if there is one.
    fn field(&self) -> Option<DescribedField> {
        match self.description {
            Cow::Borrowed(text) => text.split_once('#').filter(|(ty, _)| !ty.contains(' ')),
            Cow::Owned(_) => None,
        }
    }

    /// The column with priority 1: wide output only.
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

/// A type and a field of it: `core.v1.Secret`, `type`.
type DescribedField = (&'static str, &'static str);

/// Descriptions of fields that columns have shown, so that the texts are not unpacked again.
static SHOWN: Mutex<BTreeMap<DescribedField, String>> = Mutex::new(BTreeMap::new());

/// Descriptions of columns. Those of fields lie in the binary compressed, and are kept when they have been shown once.
pub fn descriptions(columns: &[Column]) -> Vec<Cow<'_, str>> {
    let shown = || SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let fields = columns.iter().filter_map(Column::field);
    let new: Vec<_> = {
        let shown = shown();
        fields.filter(|field| !shown.contains_key(field)).collect()
    };
    if !new.is_empty() {
        // Not under the lock: unpacking takes milliseconds, beside the workers.
        kevel_compute::step_aside();
        let texts = Texts::unpack();
        let described = new.into_iter().map(|field| (field, describe(&texts, field)));
        shown().extend(described);
    }
    let shown = shown();
    let description = |column| match Column::field(column) {
        Some(field) => Cow::Owned(shown.get(&field).cloned().unwrap_or_default()),
        None => Cow::Borrowed(&*column.description),
    };
    columns.iter().map(description).collect()
}

fn describe(texts: &Texts, (ty, field): DescribedField) -> String {
    let package = match ty.strip_prefix("meta.") {
        Some(rest) => format!("io.k8s.apimachinery.pkg.apis.meta.{rest}"),
        None => format!("io.k8s.api.{ty}"),
    };
    texts.of_field(&package, field).unwrap_or_default().to_owned()
}

/// Conversion of a kind's objects into Table rows (upstream: `TableConvertor`). Objects are in the storage version, so
/// one set of columns serves all versions.
///
/// ```
/// use kevel_api::time::MicroTime;
/// use kevel_api::value::{Map, Value};
/// use kevel_registry::columns::{Columns, NameAndCreation};
/// let metadata = Map::from_iter([("name", Value::from("web"))]);
/// let object = Value::Map(Map::from_iter([("metadata", Value::Map(metadata))]));
/// assert_eq!(NameAndCreation.definitions().len(), 2);
/// assert_eq!(NameAndCreation.cells(&object, MicroTime::now(&kevel_clock::Clock::system()))[0], Value::from("web"));
/// ```
pub trait Columns: Send + Sync {
    /// Column definitions, from left to right.
    fn definitions(&self) -> &[Column];

    /// Cells of an object, one for each column. Any field may be absent, as in bookmarks.
    fn cells(&self, object: &Value, now: MicroTime) -> Vec<Value>;

    /// The `Completed` condition of a row, which clients may hide.
    fn completed(&self, _object: &Value) -> Option<Completed> {
        None
    }

    /// Whether each version has columns of its own, made from the served version (custom resources). All others show
    /// the storage version.
    fn per_version(&self) -> bool {
        false
    }

    /// Whether these are the default columns: an empty Table of them has no `rows` field.
    fn is_default(&self) -> bool {
        false
    }

    /// Sort key of a list's rows, where they are not sorted by name.
    fn rank(&self) -> Option<fn(&Value) -> i64> {
        None
    }
}

/// `Completed` condition of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Reason, in CamelCase.
    pub reason: &'static str,
    /// Message.
    pub message: &'static str,
}

/// Columns of a kind that has none of its own (upstream: `defaultTableConvertor`).
#[derive(Clone, Copy, Debug)]
pub struct NameAndCreation;

impl NameAndCreation {
    /// The two columns.
    pub const DEFINITIONS: &[Column] = &[
        Column::NAME,
        Column::typed("date", "Created At", "meta.v1.ObjectMeta#creationTimestamp"),
    ];
}

impl Columns for NameAndCreation {
    fn is_default(&self) -> bool {
        true
    }

    fn definitions(&self) -> &[Column] {
        Self::DEFINITIONS
    }

    fn cells(&self, object: &Value, _: MicroTime) -> Vec<Value> {
        let created: Time = text(object, "creationTimestamp").parse().unwrap_or_default();
        vec![text(object, "name").into(), created.to_string().as_str().into()]
    }
}

/// Columns of a built-in kind's Scale.
#[derive(Clone, Copy, Debug)]
pub struct ScaleColumns;

impl Columns for ScaleColumns {
    fn definitions(&self) -> &[Column] {
        const DEFINITIONS: &[Column] = &[
            Column::text("Name", "meta.v1.ObjectMeta#name"),
            Column::integer("Desired", "autoscaling.v1.ScaleSpec#replicas"),
            Column::integer("Available", "autoscaling.v1.ScaleStatus#replicas"),
            Column::AGE,
        ];
        DEFINITIONS
    }

    fn cells(&self, object: &Value, now: MicroTime) -> Vec<Value> {
        let replicas = |of| {
            let count = object.at(&[of, "replicas"]).and_then(Value::as_int);
            Value::Int(count.unwrap_or(0))
        };
        let age = since(text(object, "creationTimestamp"), now);
        vec![text(object, "name").into(), replicas("spec"), replicas("status"), age.as_str().into()]
    }
}

fn text<'o>(object: &'o Value, field: &str) -> &'o str {
    object.str_at(&["metadata", field])
}

/// Age as `kubectl` prints it: `5m`, `3h20m`; `<unknown>` without a time.
pub fn since(moment: &str, now: MicroTime) -> String {
    match parse(moment) {
        Some(moment) => human_duration(elapsed(moment, now)),
        None => "<unknown>".into(),
    }
}

/// Parses a time of the API, in seconds or microseconds.
pub fn parse(moment: &str) -> Option<MicroTime> {
    let parsed = match moment.contains('.') {
        true => moment.parse::<MicroTime>().ok()?,
        false => MicroTime { seconds: moment.parse::<Time>().ok()?.seconds, nanos: 0 },
    };
    (!parsed.is_zero()).then_some(parsed)
}

/// Whole seconds between two times, limited to Go's 2⁶³ nanoseconds.
pub fn elapsed(from: MicroTime, to: MicroTime) -> i64 {
    const SECOND: i128 = 1_000_000_000;
    let nanos = |time: MicroTime| i128::from(time.seconds) * SECOND + i128::from(time.nanos);
    let between = (nanos(to) - nanos(from)).clamp(i64::MIN.into(), i64::MAX.into());
    (between / SECOND) as i64
}

/// Duration as `kubectl` prints it, coarser the longer: `5m`, `3h20m`, `2d`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        ..-1 => "<invalid>".into(),
        -1..=0 => "0s".into(),
        1..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..10800 => format!("{minutes}m"),
        10800..28800 if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        10800..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 != 0 => format!("{days}d{}h", hours % 24),
        172_800..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 if days % 365 != 0 => format!("{}y{}d", days / 365, days % 365),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_coarse_as_they_are_long() {
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (660, "11m"),
            (10800, "3h"),
            (12000, "3h20m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (63_072_000, "2y"),
            (70_000_000, "2y80d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn moments_are_told_by_how_long_ago_they_were() {
        let now: MicroTime = "2026-01-02T03:04:05.500000Z".parse().unwrap();
        for (moment, expected) in [
            ("2026-01-02T03:04:00Z", "5s"),
            ("2026-01-02T03:04:00.600000Z", "4s"),
            // Clocks may differ: up to two seconds ahead counts as now.
            ("2026-01-02T03:04:07Z", "0s"),
            ("2026-01-02T03:04:08Z", "<invalid>"),
            ("0001-01-01T00:00:01Z", "292y"),
            ("0001-01-01T00:00:00Z", "<unknown>"),
            ("", "<unknown>"),
            ("yesterday", "<unknown>"),
        ] {
            assert_eq!(since(moment, now), expected, "{moment}");
        }
    }
}
