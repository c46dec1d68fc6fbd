//! Any bytes as any kind's message: no panic, and what was read is written and read back the same.
#![no_main]

use kevel_api::builtin::kinds;
use kevel_codec::{json, protobuf};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(([a, b], message)) = data.split_first_chunk() else { return };
    let _ = protobuf::decode_object(message);
    let schema = kinds()[u16::from_le_bytes([*a, *b]) as usize % kinds().len()].schema();
    let Ok(value) = protobuf::decode(message, schema) else { return };
    let once = protobuf::encode(&value, schema);
    let again = protobuf::decode(&once, schema).unwrap();
    assert_eq!(protobuf::encode(&again, schema), once);
    let mut text = Vec::new();
    json::encode(&value, schema, &mut text);
    // Documents inside documents may be anything in protobuf; JSON cannot say those.
    if let Ok(read) = json::decode(&text, schema, json::Unknown::Report) {
        assert!(read.strict.is_empty(), "{:?}", read.strict);
    }
});
