use super::*;
use crate::constant::json;

fn schema_of(schema: &str) -> (Table, TypeId) {
    table(&json(schema), &|text| crate::constant::parse(text)).unwrap()
}

#[test]
fn an_object_has_metadata_beside_its_properties() {
    let (table, id) = schema_of(
        r#"{"type": "object", "required": ["spec"], "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "x-kubernetes-map-type": "atomic"}}}"#,
    );
    let schema = Schema::new(&table, id);
    let names: Vec<_> = schema.as_struct().unwrap().fields().map(|f| f.name()).collect();
    assert_eq!(names, ["apiVersion", "kind", "metadata", "spec"]);
    let metadata = schema.field("metadata").unwrap().schema();
    assert_eq!(metadata.as_struct().unwrap().name(), "ObjectMeta");
    assert!(schema.field("spec").unwrap().required());
    assert!(schema.as_struct().unwrap().flags().has(StructFlags::EMBEDDED));
    let spec = schema.field("spec").unwrap().schema().as_struct().unwrap();
    assert_eq!(spec.flags(), StructFlags(StructFlags::ATOMIC));
}

#[test]
fn each_type_has_its_own() {
    let (table, id) = schema_of(
        r#"{"properties": {
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "bool": {"type": "boolean"},
            "int": {"type": "integer", "format": "int64"},
            "integer": {"type": "integer"},
            "either": {"x-kubernetes-int-or-string": true},
            "number": {"type": "number"},
            "text": {"type": "string", "format": "date-time", "enum": ["a", "b"]},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "loose": {"type": "object", "additionalProperties": true},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "string"}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object"}}
        }}"#,
    );
    let schema = Schema::new(&table, id);
    let of = |name: &str| schema.field(name).unwrap().schema();
    let scalars = ["bool", "int", "integer", "either", "number", "text"].map(|n| of(n).scalar());
    use Scalar::{Bool, Int64, IntOrString, Integer, Number, String};
    assert_eq!(scalars, [Bool, Int64, Integer, IntOrString, Number, String].map(Some));
    assert!(matches!(of("any").ty(), Type::Any));
    assert_eq!(schema.field("text").unwrap().values().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(of("open").as_struct().unwrap().flags().0, StructFlags::PRESERVE_UNKNOWN);
    assert!(of("embedded").field("metadata").is_some());
    assert_eq!(of("map").value().unwrap().scalar(), Some(String));
    assert!(of("loose").value().unwrap().as_struct().is_some());
    assert!(matches!(of("set").ty(), Type::List { list: List::Set, .. }));
    assert!(matches!(of("list").ty(), Type::List { list: List::Atomic, .. }));
    assert_eq!(of("keyed").list_keys().unwrap().collect::<Vec<_>>(), ["name"]);
}

#[test]
fn defaults_kept_as_text_are_read() {
    let mut schema = json(
        r#"{"properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}}"#,
    );
    let property = schema.at_mut(&["properties", "a"]).and_then(Value::as_map_mut).unwrap();
    property.insert("default", Value::Raw(r#"{"b":1,"unknown":2}"#.into()));
    let (table, id) = table(&schema, &|text| crate::constant::parse(text)).unwrap();
    let mut value = json("{}");
    crate::default::apply(&mut value, Schema::new(&table, id));
    assert_eq!(value, json(r#"{"a": {"b": 1}}"#));
    let unreadable = super::table(&schema, &|_| None).unwrap_err();
    assert_eq!(unreadable.to_string(), r#"cannot read "{\"b\":1,\"unknown\":2}" as JSON"#);
}

#[test]
fn what_the_schema_does_not_name_is_pruned() {
    let (table, id) = schema_of(
        r#"{"properties": {
            "open": {"x-kubernetes-preserve-unknown-fields": true, "type": "object",
                "properties": {"closed": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "loose": {"type": "object", "additionalProperties": true},
            "text": {"type": "string"},
            "any": {"x-kubernetes-preserve-unknown-fields": true}
        }}"#,
    );
    let mut value = json(
        r#"{"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a", "colour": "red"},
            "other": 1,
            "open": {"b": {"c": 1}, "closed": {"a": "x", "b": "y"}},
            "list": [{"a": "x"}, {"b": "y"}],
            "loose": {"a": 1, "b": {"c": 2}},
            "text": {"a": 1},
            "any": {"a": [{"b": 1}]}}"#,
    );
    let dropped = prune(&mut value, Schema::new(&table, id));
    assert_eq!(
        dropped,
        ["list[1].b", "loose.b.c", "metadata.colour", "open.closed.b", "other", "text.a"]
    );
    assert_eq!(
        value,
        json(
            r#"{"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a"},
                "open": {"b": {"c": 1}, "closed": {"a": "x"}},
                "list": [{"a": "x"}, {}],
                "loose": {"a": 1, "b": {}},
                "text": {},
                "any": {"a": [{"b": 1}]}}"#
        )
    );
}

#[test]
fn the_deepest_documents_fit_a_small_stack() {
    const LEVELS: usize = 500; // two levels of the document each, of the 1000 that codecs allow
    let nested = || {
        let (mut schema, mut value) = (json(r#"{"type": "object"}"#), json("{}"));
        for _ in 0..LEVELS {
            let properties = Map::from_iter([("a", schema)]);
            schema = json(r#"{"type": "object", "default": {}}"#);
            schema.as_map_mut().unwrap().insert("properties", Value::Map(properties));
            value = Value::Map(Map::from_iter([("a", value)]));
        }
        let (table, id) = table(&schema, &|_| None).unwrap();
        crate::default::drop_nulls(&mut value, Schema::new(&table, id));
        crate::default::apply(&mut value, Schema::new(&table, id));
        assert!(prune(&mut value, Schema::new(&table, id)).is_empty());
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(nested).unwrap();
    thread.join().unwrap();
}

#[test]
fn embedded_resource_has_the_defaults_declared_for_its_metadata() {
    const TYPES: &str = r#""apiVersion": {"type": "string", "default": "foos/v1"},
        "kind": {"type": "string", "default": "Foo"}"#;
    const BY_FIELD: &str = r#"{"type": "object", "properties": {
        "name": {"type": "string", "default": "bar"},
        "unknown": {"type": "string", "default": "unknown"},
        "generation": {"type": "string", "default": "not a number"},
        "generateName": {"type": "string", "default": ""},
        "labels": {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}},
        "finalizers": {"type": "array", "items": {"type": "string"}, "default": ["c.d/e"]}}}"#;
    const WHOLE: &str = r#"{"type": "object", "default": {"name": "bar", "unknown": "unknown"}}"#;
    let embedded = |metadata: &str, more: &str| {
        format!(
            r#"{{"type": "object", "x-kubernetes-embedded-resource": true, {more}
                "properties": {{{TYPES}, "metadata": {metadata}}}}}"#
        )
    };
    let preserve = r#""x-kubernetes-preserve-unknown-fields": true,"#;
    let of_fields = r#"{"apiVersion": "foos/v1", "kind": "Foo", "metadata": {"name": "bar", "finalizers": ["c.d/e"]}}"#;
    let of_whole = r#"{"apiVersion": "foos/v1", "kind": "Foo", "metadata": {"name": "bar"}}"#;
    let empty = r#"{"apiVersion": "foos/v1", "kind": "Foo"}"#;
    for more in ["", preserve] {
        for (metadata, sent, expected) in [
            (BY_FIELD, r#"{"metadata": {}}"#, of_fields),
            (BY_FIELD, "{}", empty),
            (WHOLE, "{}", of_whole),
            (
                WHOLE,
                r#"{"metadata": {}}"#,
                r#"{"apiVersion": "foos/v1", "kind": "Foo", "metadata": {}}"#,
            ),
        ] {
            let property = embedded(metadata, more);
            let (table, id) =
                schema_of(&format!(r#"{{"properties": {{"embedded": {property}}}}}"#));
            let mut value = json(&format!(r#"{{"embedded": {sent}}}"#));
            crate::default::apply(&mut value, Schema::new(&table, id));
            assert_eq!(value, json(&format!(r#"{{"embedded": {expected}}}"#)), "{property}");
        }
    }
    let labelled = r#"{"embedded": {"metadata": {"labels": {}}}}"#;
    let (table, id) =
        schema_of(&format!(r#"{{"properties": {{"embedded": {}}}}}"#, embedded(BY_FIELD, "")));
    let mut value = json(labelled);
    crate::default::apply(&mut value, Schema::new(&table, id));
    assert_eq!(value.str_at(&["embedded", "metadata", "labels", "a"]), "b");
}

#[test]
fn root_has_no_defaults_declared_for_its_metadata() {
    let (table, id) = schema_of(
        r#"{"type": "object", "properties": {
            "kind": {"type": "string", "default": "Other"},
            "metadata": {"type": "object", "default": {"name": "a"},
                "properties": {"generateName": {"type": "string", "default": "b"}}}}}"#,
    );
    for sent in ["{}", r#"{"metadata": {}}"#] {
        let mut value = json(sent);
        crate::default::apply(&mut value, Schema::new(&table, id));
        assert_eq!(value, json(sent));
    }
}
