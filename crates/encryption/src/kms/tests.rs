use std::collections::BTreeSet;

use super::object::{check, check_source};
use super::proto::{AES_GCM_KEY, EncryptedObject, SEED};

fn object() -> EncryptedObject {
    EncryptedObject {
        encrypted_data: b"data".to_vec(),
        key_id: "key-1".to_owned(),
        encrypted_dek_source: b"source".to_vec(),
        annotations: [("note.example.com".to_owned(), b"1".to_vec())].into(),
        encrypted_dek_source_type: SEED,
    }
}

type Change = fn(&mut EncryptedObject);

/// Two seeds must never be taken for each other: each part of a Decrypt call counts.
#[test]
fn seeds_are_known_by_everything_that_decrypts_them() {
    let changes: [Change; 8] = [
        |_| {},
        |object| object.key_id = "key-2".to_owned(),
        |object| object.encrypted_dek_source = b"other".to_vec(),
        |object| object.encrypted_dek_source_type = AES_GCM_KEY,
        |object| object.annotations.clear(),
        |object| object.annotations = [("note.example.com".to_owned(), b"2".to_vec())].into(),
        |object| object.annotations = [("note.example.co".to_owned(), b"m1".to_vec())].into(),
        |object| {
            object.encrypted_dek_source = b"sourc".to_vec();
            object.key_id = "ekey-1".to_owned();
        },
    ];
    let mut keys = BTreeSet::new();
    for change in changes {
        let mut changed = object();
        change(&mut changed);
        keys.insert(changed.source_key());
    }
    assert_eq!(keys.len(), changes.len());
    let other_data = EncryptedObject { encrypted_data: b"other".to_vec(), ..object() };
    assert_eq!(other_data.source_key(), object().source_key());
}

#[test]
fn objects_beyond_their_limits_are_neither_stored_nor_read() {
    let cases: [(Change, &str); 12] = [
        (|_| {}, ""),
        (|object| object.encrypted_dek_source_type = AES_GCM_KEY, ""),
        (|object| object.encrypted_dek_source_type = 2, "unknown encryptedDEKSourceType: 2"),
        (|object| object.encrypted_dek_source_type = -1, "unknown encryptedDEKSourceType: -1"),
        (
            |object| object.encrypted_dek_source.clear(),
            "failed to validate encrypted DEK source: encrypted DEK source is empty",
        ),
        (|object| object.encrypted_dek_source = vec![0; 1024], ""),
        (
            |object| object.encrypted_dek_source = vec![0; 1025],
            "failed to validate encrypted DEK source: encrypted DEK source is 1025 bytes, which \
             exceeds the max size of 1024",
        ),
        (|object| object.key_id.clear(), "failed to validate key id: keyID is empty"),
        (
            |object| object.key_id = "k".repeat(1025),
            "failed to validate key id: keyID is 1025 bytes, which exceeds the max size of 1024",
        ),
        (
            |object| {
                object.annotations = [("a.example.com".to_owned(), vec![0; 32 * 1024 - 13])].into()
            },
            "",
        ),
        (
            |object| {
                object.annotations = [("a.example.com".to_owned(), vec![0; 32 * 1024 - 12])].into()
            },
            "failed to validate annotations: total size of annotations is 32769, which exceeds the \
             max size of 32768",
        ),
        (
            |object| object.annotations = [("a".to_owned(), Vec::new())].into(),
            "failed to validate annotations: annotations: Invalid value: \"a\": should be a domain \
             with at least two segments separated by dots",
        ),
    ];
    for (index, (change, expected)) in cases.into_iter().enumerate() {
        let mut changed = object();
        change(&mut changed);
        assert_eq!(check(&changed).err().unwrap_or_default(), expected, "{index}");
        changed.encrypted_data.clear();
        assert_eq!(check_source(&changed).err().unwrap_or_default(), expected, "{index}");
        let empty = match expected.starts_with("unknown") {
            true => expected,
            false => "encrypted data is empty",
        };
        assert_eq!(check(&changed).err().unwrap_or_default(), empty, "{index}");
    }
}
