//! When something was written is not told of a write that changed nothing.

use kevel_api::value::{Map, Value};

/// Takes back the times of `managedFields` where nothing else is different (`IgnoreManagedFieldsTimestampsTransformer`).
/// Who records fields does not know what plug-ins and rules take back afterwards; without this, a client and a plug-in of
/// different opinions would write for ever.
pub(super) fn ignore_managed_fields_timestamps(object: &mut Value, old: &Value) {
    let before = old.list_at(&["metadata", "managedFields"]);
    let after = object.list_at(&["metadata", "managedFields"]);
    let same = before != after
        && before.len() == after.len()
        && before.iter().zip(after).all(|(before, after)| same_but(before, after, &["time"]))
        && same_but(object, old, &["metadata"])
        && match (object.at(&["metadata"]), old.at(&["metadata"])) {
            (Some(object), Some(old)) => {
                same_but(object, old, &["managedFields", "resourceVersion"])
            }
            _ => false,
        };
    if same {
        let before = old.at(&["metadata", "managedFields"]).cloned();
        crate::metadata::set(object, "managedFields", before);
    }
}

/// Whether two maps are the same but for these fields.
fn same_but(a: &Value, b: &Value, ignored: &[&str]) -> bool {
    let fields = |value| {
        let fields = Value::as_map(value).into_iter().flat_map(Map::iter);
        fields.filter(|(field, _)| !ignored.contains(field))
    };
    fields(a).eq(fields(b))
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::Unknown;
    use kevel_codec::yaml;

    use super::*;

    #[test]
    fn times_count_only_with_a_change() {
        let read = |text: &str| yaml::decode_any(text.as_bytes(), Unknown::Report).unwrap().value;
        let old = "{metadata: {name: a, resourceVersion: '1', managedFields: [{manager: m, time: t1}]}, spec: 1}";
        for (new, kept) in [
            ("{metadata: {name: a, managedFields: [{manager: m, time: t2}]}, spec: 1}", true),
            ("{metadata: {name: a, managedFields: [{manager: m, time: t2}]}, spec: 2}", false),
            ("{metadata: {name: a, managedFields: [{manager: n, time: t2}]}, spec: 1}", false),
            (
                "{metadata: {name: a, labels: {}, managedFields: [{manager: m, time: t2}]}, spec: 1}",
                false,
            ),
            ("{metadata: {name: a, managedFields: []}, spec: 1}", false),
        ] {
            let (mut object, old) = (read(new), read(old));
            ignore_managed_fields_timestamps(&mut object, &old);
            let time = object.list_at(&["metadata", "managedFields"]).first();
            let time = time.map_or("", |entry| entry.str_at(&["time"]));
            assert_eq!(time == "t1", kept, "{new}");
        }
    }
}
