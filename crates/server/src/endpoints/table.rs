//! Objects as rows for people, and objects as their metadata.

use kevel_api::builtin;
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::Call;
use crate::resource::TypeRef;

/// An object as a table of one row, as a request wants it.
pub(super) fn of_object(call: &Call<'_>, object: Value, version: &str) -> Value {
    table_of_one(object, include(call), version)
}

/// An object as a table of one row: a watch event.
pub(super) fn one_row(object: Value, version: &str) -> Value {
    table_of_one(object, "Metadata", version)
}

fn table_of_one(object: Value, include: &str, version: &str) -> Value {
    let mut metadata = Map::new();
    if let Some(revision) = object.at(&["metadata", "resourceVersion"]) {
        metadata.insert("resourceVersion", revision.clone());
    }
    table([object].into_iter().collect(), metadata, include, version)
}

/// How much of each object stands beside its row.
fn include<'c>(call: &'c Call<'_>) -> &'c str {
    call.parameter("includeObject").unwrap_or("Metadata")
}

/// A list as a table.
pub(super) fn of_list(
    call: &Call<'_>,
    items: ThinVec<Value>,
    metadata: Map,
    version: &str,
) -> Value {
    table(items, metadata, include(call), version)
}

fn table(items: ThinVec<Value>, metadata: Map, include: &str, version: &str) -> Value {
    let columns = [
        ("Name", "string", "name", "Name must be unique within a namespace."),
        ("Age", "string", "", "How long ago the object was created."),
    ];
    let columns: ThinVec<Value> = columns
        .into_iter()
        .map(|(name, kind, format, description)| {
            Value::Map(Map::from_iter([
                ("name", Value::from(name)),
                ("type", kind.into()),
                ("format", format.into()),
                ("description", description.into()),
                ("priority", Value::Int(0)),
            ]))
        })
        .collect();
    let rows: ThinVec<Value> = items.into_iter().map(|item| row(item, include, version)).collect();
    Value::Map(Map::from_iter([
        ("kind", Value::from("Table")),
        ("apiVersion", format!("meta.k8s.io/{version}").as_str().into()),
        ("metadata", metadata.into()),
        ("columnDefinitions", Value::List(columns)),
        ("rows", Value::List(rows)),
    ]))
}

fn row(item: Value, include: &str, version: &str) -> Value {
    let name = Value::from(item.str_at(&["metadata", "name"]));
    let age = age(item.str_at(&["metadata", "creationTimestamp"]));
    let mut row =
        Map::from_iter([("cells", Value::List([name, age.as_str().into()].into_iter().collect()))]);
    match include {
        "None" => {}
        "Object" => {
            row.insert("object", item);
        }
        _ => {
            row.insert("object", metadata_only(item, version));
        }
    }
    row.into()
}

/// How long ago a moment was, as people say it.
fn age(created: &str) -> String {
    let Ok(created) = created.parse::<kevel_api::time::Time>() else { return "<unknown>".into() };
    let seconds = kevel_api::time::Time::now().seconds - created.seconds;
    human_duration(seconds)
}

/// `5m`, `3h20m`, `2d`: the coarser the longer, as kubectl prints it.
fn human_duration(seconds: i64) -> String {
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

/// An object's metadata as an object of its own.
pub(super) fn metadata_only(mut object: Value, version: &str) -> Value {
    let metadata = object.as_map_mut().and_then(|map| map.remove("metadata"));
    Value::Map(Map::from_iter([
        ("kind", Value::from("PartialObjectMetadata")),
        ("apiVersion", format!("meta.k8s.io/{version}").as_str().into()),
        ("metadata", metadata.unwrap_or_else(|| Map::new().into())),
    ]))
}

pub(super) fn metadata_list(items: ThinVec<Value>, metadata: Map, version: &str) -> Value {
    let items: ThinVec<Value> = items.into_iter().map(|i| metadata_only(i, version)).collect();
    Value::Map(Map::from_iter([
        ("kind", Value::from("PartialObjectMetadataList")),
        ("apiVersion", format!("meta.k8s.io/{version}").as_str().into()),
        ("metadata", metadata.into()),
        ("items", Value::List(items)),
    ]))
}

pub(super) fn metadata_type() -> TypeRef {
    meta_type("PartialObjectMetadata")
}

pub(super) fn metadata_list_type() -> TypeRef {
    meta_type("PartialObjectMetadataList")
}

fn meta_type(kind: &str) -> TypeRef {
    let schema = builtin::schema("meta.k8s.io", "v1", kind);
    // The definitions have it: a test of theirs says so.
    TypeRef::BuiltIn(schema.unwrap_or_else(|| builtin::kinds()[0].schema()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_as_coarse_as_they_are_long() {
        for (seconds, expected) in [
            (-2, "<invalid>"),
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
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
        assert!(matches!(metadata_type(), TypeRef::BuiltIn(s) if s.field("metadata").is_some()));
    }
}
