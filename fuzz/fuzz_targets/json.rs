//! Any bytes as any kind: no panic, and what was read once is read back the same.
#![no_main]

use kevel_api::builtin::kinds;
use kevel_codec::{json, protobuf};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(([a, b], text)) = data.split_first_chunk() else { return };
    let _ = json::type_meta(text);
    if let Ok(any) = json::decode_any(text, json::Unknown::Report) {
        let mut out = Vec::new();
        json::encode_any(&any.value, &mut out);
        // Not the value: a whole float such as 3e7 is written as an integer, as in the reference.
        let again = json::decode_any(&out, json::Unknown::Report).unwrap();
        let mut twice = Vec::new();
        json::encode_any(&again.value, &mut twice);
        assert_same(&out, &twice);
    }
    let schema = kinds()[u16::from_le_bytes([*a, *b]) as usize % kinds().len()].schema();
    let Ok(read) = json::decode(text, schema, json::Unknown::Report) else { return };
    let mut once = Vec::new();
    json::encode(&read.value, schema, &mut once);
    let again = json::decode(&once, schema, json::Unknown::Report).unwrap();
    assert!(again.strict.is_empty(), "{:?}", again.strict);
    let mut twice = Vec::new();
    json::encode(&again.value, schema, &mut twice);
    assert_same(&once, &twice);
    let mut value = read.value;
    kevel_api::default::apply(&mut value, schema);
    let message = protobuf::encode(&value, schema);
    protobuf::decode(&message, schema).unwrap();
});

/// Only a zero with a sign comes back as another number: it is written as an integer, which has none, as in
/// the reference.
fn assert_same(once: &[u8], twice: &[u8]) {
    if !once.windows(2).any(|pair| pair == b"-0") {
        assert_eq!(String::from_utf8_lossy(once), String::from_utf8_lossy(twice));
    }
}
