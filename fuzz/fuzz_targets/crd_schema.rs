//! Any custom resource definition, and any object of it: no panic, and pruning and defaulting are done
//! when they are done.
#![no_main]

use kevel_api::crd_schema;
use kevel_api::field_error::Path;
use kevel_api::schema::Schema;
use kevel_api::time::MicroTime;
use kevel_api::value::Value;
use kevel_api::{builtin, default, prune};
use kevel_codec::json::{self, Unknown};
use kevel_extensions::columns::CustomColumns;
use kevel_extensions::definition::{Definition, Version};
use kevel_extensions::scale::ScalePaths;
use kevel_extensions::schema::{Validator, blocks_rules};
use kevel_extensions::validation;
use kevel_fuzz::{Source, shown, text, typed};
use kevel_registry::columns::Columns as _;
use libfuzzer_sys::fuzz_target;

/// CEL cost budget: less than for a request, so that more inputs are tried.
const BUDGET: i64 = 100_000;
/// The most that is told of one object's errors, in bytes: every check is bounded, and there are five.
const MAX_ERRORS: usize = 16 << 20;

fuzz_target!(|data: &[u8]| {
    let Some(mut source) = Source::new(data) else { return };
    let kind = builtin::schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
        .expect("definitions");
    let Some(mut tree) = source.tree(kind) else { return };
    if source.below(4) != 0 {
        make_usual(&mut tree);
    }
    let Some(definition) = typed(&tree, kind) else { return };
    let errors = validation::validate_create(&definition);
    let size: usize = errors.iter().map(|error| error.to_string().len()).sum();
    assert!(size <= MAX_ERRORS, "{size} bytes of errors");
    let _ = validation::validate_update(&definition, &definition);
    let _ = validation::validate_status_update(&definition, &definition);
    let _ = validation::non_structural(&definition);
    for version in Definition(&definition).versions() {
        judge(version, &mut source);
    }
});

/// Names and a scope that are right, so that the schema is what is judged.
fn make_usual(tree: &mut Value) {
    if !matches!(tree, Value::Map(_))
        || !tree.at(&["spec"]).is_none_or(|spec| spec.as_map().is_some())
    {
        return;
    }
    if tree.at(&["metadata"]).is_some_and(|metadata| metadata.as_map().is_none()) {
        return;
    }
    tree.make_map(&["metadata"]).insert("name", Value::from("foos.example.com"));
    let names = r#"{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"}"#;
    let names = json::decode_any(names.as_bytes(), Unknown::Ignore).map(|read| read.value);
    let spec = tree.make_map(&["spec"]);
    spec.insert("group", Value::from("example.com"));
    spec.insert("scope", Value::from("Namespaced"));
    spec.insert("names", names.unwrap_or_default());
}

/// Objects of a version.
fn judge(version: Version<'_>, source: &mut Source<'_>) {
    let nothing = Value::default();
    let open_api = version.schema().unwrap_or(&nothing);
    let read =
        |text: &str| json::decode_any(text.as_bytes(), Unknown::Ignore).ok().map(|read| read.value);
    let Ok((table, id)) = crd_schema::table(open_api, &read) else { return };
    let schema = Schema::new(&table, id);
    let columns = CustomColumns::new(version);
    let scale = version.scale().map(ScalePaths::read);
    let Ok(validator) = Validator::new(open_api) else { return };
    let mut old = None;
    for _ in 0..2 {
        let Some(tree) = source.tree(schema) else { return };
        let Some(object) = accept(tree, schema) else { continue };
        let errors = validator.validate(&Path::NONE, &object, old.as_ref());
        let size: usize = errors.iter().map(|error| error.to_string().len()).sum();
        assert!(size <= MAX_ERRORS, "{size} bytes of errors");
        if blocks_rules(&errors).is_none() {
            let _ = validator.rules(&object, old.as_ref(), BUDGET);
        }
        if let Some(old) = &old {
            let _ = validator.status(&object, old);
        }
        let _ = columns.cells(&object, MicroTime::default());
        if let Some(scale) = &scale {
            let _ = (scale.check_spec(&object), scale.check_status(&object));
        }
        old = Some(object);
    }
}

/// An object as the server makes it ready: read, pruned, without nulls, defaulted.
fn accept(tree: Value, schema: Schema<'_>) -> Option<Value> {
    let mut pruned = tree.clone();
    prune::prune(&mut pruned, schema);
    assert_eq!(prune::prune(&mut pruned, schema), Vec::<String>::new(), "{}", shown(&pruned));
    let mut object = json::decode(&text(&tree), schema, Unknown::Ignore).ok()?.value;
    default::drop_nulls(&mut object, schema);
    default::apply(&mut object, schema);
    let mut again = object.clone();
    default::drop_nulls(&mut again, schema);
    default::apply(&mut again, schema);
    assert_eq!(shown(&again), shown(&object));
    Some(object)
}
