//! Any patch of any object of any kind, in all three forms: no panic, no more than its limits allow, and
//! the laws that each form has.
#![no_main]

use kevel_api::schema::Schema;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{self, Unknown};
use kevel_fuzz::{Source, shown, text, typed};
use kevel_patch::{json_patch, merge_patch, strategic, unstructured, unstructured_but_fields};
use libfuzzer_sys::fuzz_target;

/// Most bytes that `copy` operations of a patch may add here. The server's limit is larger than any input.
const COPY_LIMIT: usize = 16 << 10;

fuzz_target!(|data: &[u8]| {
    let Some(mut source) = Source::new(data) else { return };
    let schema = source.kind().schema();
    let Some(object) = source.tree(schema).and_then(|tree| typed(&tree, schema)) else { return };
    let tree = unstructured(&object, schema);
    while let Some(patch) = source.patch(&tree, schema) {
        let patch = text(&patch);
        json_patches(&tree, &patch);
        merge_patches(&object, &patch, schema);
        strategic_merge_patches(&object, &patch, schema);
    }
});

/// Checks that a patched document is no deeper than the decoder's limit, and no larger than input and copies together.
fn json_patches(document: &Value, patch: &[u8]) {
    let Ok((read, _)) = json_patch::Patch::decode(patch, Unknown::Report) else { return };
    let Ok(patched) = read.apply(document.clone(), COPY_LIMIT) else { return };
    let out = text(&patched);
    // A value may be written more than once, by as many operations.
    let most = text(document).len() + patch.len() + COPY_LIMIT;
    assert!(out.len() <= most, "{} bytes of {most}", out.len());
    json::decode_any(&out, Unknown::Ignore).expect("what a patch makes can be read");
    assert_eq!(read.apply(document.clone(), COPY_LIMIT), Ok(patched));
}

/// Checks that a merge patch has the described effect, that applying it again changes nothing, and that the lazy
/// implementation for typed objects agrees with the full one.
fn merge_patches(object: &Value, patch: &[u8], schema: Schema<'_>) {
    let Ok((patch, _)) = merge_patch::decode(patch, Unknown::Report) else { return };
    let tree = unstructured_but_fields(object, schema);
    let patched = merge_patch::apply(tree, patch.clone());
    // The reference leaves the nulls of a list that takes an object's place, the first time.
    let twice = merge_patch::apply(patched.clone(), patch.clone());
    let thrice = merge_patch::apply(twice.clone(), patch.clone());
    assert_eq!(shown(&twice), shown(&thrice));
    if let Some(short) = merge_patch::apply_typed(object, &patch, schema) {
        let long =
            json::decode(&text(&patched), schema, Unknown::Report).expect("it was of its type");
        assert!(long.strict.is_empty(), "{:?}", long.strict);
        assert_eq!(shown_as(&short, schema), shown_as(&long.value, schema), "{}", shown(&patch));
    }
}

/// A patch that says nothing changes nothing, and what any other makes is no larger than both.
fn strategic_merge_patches(object: &Value, patch: &[u8], schema: Schema<'_>) {
    let Ok((patch, _)) = merge_patch::decode(patch, Unknown::Report) else { return };
    let tree = unstructured_but_fields(object, schema);
    let nothing = strategic::apply(tree.clone(), Value::Map(Map::new()), schema);
    assert_eq!(nothing.as_ref(), Ok(&tree));
    let most = text(&tree).len() + text(&patch).len();
    if let Ok(patched) = strategic::apply(tree, patch, schema) {
        assert!(text(&patched).len() <= most, "{}", shown(&patched));
    }
}

fn shown_as(value: &Value, schema: Schema<'_>) -> String {
    let mut out = Vec::new();
    json::encode(value, schema, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
