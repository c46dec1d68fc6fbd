//! Timestamps of `managedFields` stay when a write changes nothing else.

use std::sync::{Arc, LazyLock};

use kevel_api::value::{Map, Value};
use kevel_clock::Stopwatch;
use kevel_component::metrics::Histogram;

use crate::type_ref::TypeRef;

/// Restores the times of `managedFields` where nothing else differs (upstream:
/// `IgnoreManagedFieldsTimestampsTransformer`). Plug-ins and strategies run after the field manager and may revert the
/// client's change; without this, such a client would cause a write with each update.
pub(crate) fn ignore_managed_fields_timestamps(object: &mut Value, old: &Value, ty: &TypeRef) {
    let started = Stopwatch::start();
    let outcome = compare(object, old, ty);
    COMPARISON_SECONDS[outcome as usize].observe_seconds(started.elapsed());
}

/// Outcome of a comparison of an object with the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComparisonOutcome {
    UnequalFast,
    UnequalSlow,
    Equal,
}

/// Outcomes by name (upstream: the label `code_path`), in the order of [`COMPARISON_SECONDS`].
pub const COMPARISONS: [&str; 3] =
    ["unequal_objects_fast", "unequal_objects_slow", "equal_objects"];

/// Seconds that comparisons took, by outcome, in the whole process.
pub static COMPARISON_SECONDS: LazyLock<[Arc<Histogram>; COMPARISONS.len()]> =
    LazyLock::new(|| std::array::from_fn(|_| Arc::new(Histogram::new(SECONDS))));

const SECONDS: &[f64] = &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0];

fn compare(object: &mut Value, old: &Value, ty: &TypeRef) -> ComparisonOutcome {
    let before = old.list_at(&["metadata", "managedFields"]);
    let after = object.list_at(&["metadata", "managedFields"]);
    let recorded_again = before != after
        && before.len() == after.len()
        && before.iter().zip(after).all(|(before, after)| same_but_time(before, after));
    if !recorded_again {
        return ComparisonOutcome::UnequalFast;
    }
    let set = |object: &mut Value, fields: Option<Value>| {
        crate::metadata::set(object, "managedFields", fields);
    };
    let recorded = object.at(&["metadata", "managedFields"]).cloned();
    set(object, old.at(&["metadata", "managedFields"]).cloned());
    let same = match ty.is_unstructured() {
        true => *object == *old,
        // Empty counts as absent.
        false => ty.schema().equal(Some(object), Some(old)),
    };
    if same {
        return ComparisonOutcome::Equal;
    }
    set(object, recorded);
    ComparisonOutcome::UnequalSlow
}

/// Whether two managedFields entries differ at most in their times.
fn same_but_time(a: &Value, b: &Value) -> bool {
    let fields = |value| {
        let fields = Value::as_map(value).into_iter().flat_map(Map::iter);
        fields.filter(|(field, _)| *field != "time")
    };
    fields(a).eq(fields(b))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kevel_api::{builtin, crd_schema};
    use kevel_codec::json::Unknown;
    use kevel_codec::yaml;

    use super::*;

    const TIMES: &str = "managedFields: [{manager: m, time: t1}]";

    /// Whether the times stay when a write changes the object `old` to `new`.
    fn stay(ty: &TypeRef, old: &str, new: &str) -> bool {
        let read = |text: &str| yaml::decode_any(text.as_bytes(), Unknown::Report).unwrap().value;
        let (old, mut object) = (read(old), read(&new.replace("t1", "t2")));
        ignore_managed_fields_timestamps(&mut object, &old, ty);
        let entry = object.list_at(&["metadata", "managedFields"]).first();
        entry.is_some_and(|entry| entry.str_at(&["time"]) == "t1")
    }

    #[test]
    fn managed_fields_times_count_only_with_a_change() {
        let config_map = TypeRef::BuiltIn(builtin::schema("", "v1", "ConfigMap").unwrap());
        let old = format!("{{metadata: {{name: a, {TIMES}}}, data: {{a: b}}}}");
        for (new, stays) in [
            (old.clone(), true),
            (old.replace("a: b", "a: c"), false),
            (old.replace("manager: m", "manager: n"), false),
            (old.replace("name: a", "name: a, labels: {}"), true),
            (old.replace("name: a", "name: a, labels: {a: b}"), false),
            (old.replace("}, data:", "}, binaryData: {}, data:"), true),
            ("{metadata: {name: a, managedFields: []}, data: {a: b}}".to_owned(), false),
        ] {
            assert_eq!(stay(&config_map, &old, &new), stays, "{new}");
            assert_eq!(stay(&config_map, &new, &old), stays, "{new}");
        }
    }

    #[test]
    fn managed_fields_times_of_unstructured_objects_count_with_empty_fields() {
        let schema = "{type: object, x-kubernetes-preserve-unknown-fields: true}";
        let schema = yaml::decode_any(schema.as_bytes(), Unknown::Report).unwrap().value;
        let (table, id) = crd_schema::table(&schema, &|_| None).unwrap();
        let custom = TypeRef::Custom(Arc::new(table), id);
        let old = format!("{{metadata: {{name: a, {TIMES}}}, spec: {{a: b}}}}");
        for (new, stays) in [
            (old.clone(), true),
            (old.replace("a: b", "a: b, c: {}"), false),
            (old.replace("name: a", "name: a, labels: {}"), false),
        ] {
            assert_eq!(stay(&custom, &old, &new), stays, "{new}");
        }
    }
}
