//! Any bytes as YAML: no panic, and what comes out is JSON that can be written as YAML again.
#![no_main]

use kevel_codec::{json, yaml};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = yaml::to_json(data) else { return };
    let value = json::decode_any(&text.text, json::Unknown::Ignore).unwrap().value;
    let mut plain = Vec::new();
    json::encode_any(&value, &mut plain);
    let mut out = Vec::new();
    yaml::from_json(&plain, &mut out).unwrap();
    let again = yaml::to_json(&out).unwrap();
    let again = json::decode_any(&again.text, json::Unknown::Ignore).unwrap().value;
    assert_eq!(again, value, "{}", String::from_utf8_lossy(&out));
});
