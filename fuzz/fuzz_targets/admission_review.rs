//! Anything that a webhook may answer: no panic, a verdict only for what was asked, and a patch that is read and applied
//! in bounded space.
#![no_main]

use kevel_admission::webhook::{ReviewVersion, verify};
use kevel_codec::json::{self, Unknown};
use kevel_fuzz::text;
use kevel_patch::json_patch::Patch;
use libfuzzer_sys::fuzz_target;

/// UID of the review that the seeds answer.
const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";
/// Object that is patched.
const OBJECT: &[u8] =
    br#"{"metadata":{"name":"o","labels":{"a":"b"}},"data":{"list":[1,2,{"c":"d"}]}}"#;
/// Most bytes that `copy` operations of a patch may add here.
const COPY_LIMIT: usize = 16 << 10;

fuzz_target!(|data: &[u8]| {
    let Some((choice, body)) = data.split_first() else { return };
    let version = if choice & 1 == 0 { ReviewVersion::V1 } else { ReviewVersion::V1beta1 };
    let mutating = choice & 2 == 0;
    let Ok(response) = verify(body, version, UID, mutating) else { return };
    if version == ReviewVersion::V1 {
        let other = verify(body, version, "another question", mutating);
        assert!(other.is_err(), "a verdict about whatever is asked");
        assert!(response.patch.is_empty() == response.patch_type.is_empty());
    }
    assert!(mutating || response.patch.is_empty(), "who only judges has changed the object");
    assert!(response.patch.len() <= body.len());
    let Ok((patch, _)) = Patch::decode(&response.patch, Unknown::Ignore) else { return };
    let object = json::decode_any(OBJECT, Unknown::Ignore).expect("an object").value;
    if let Ok(patched) = patch.apply(object, COPY_LIMIT) {
        assert!(text(&patched).len() <= OBJECT.len() + response.patch.len() + COPY_LIMIT);
    }
});
