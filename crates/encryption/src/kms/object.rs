//! Validation of encrypted objects, from a plug-in or from the store.

use std::collections::BTreeMap;

use kevel_api::field_error::{Path, aggregate};
use kevel_api::name::is_fully_qualified_domain_name;
use ring::digest::{Context, SHA256};

use super::proto::{AES_GCM_KEY, EncryptedObject, SEED};

/// Maximum size of a plug-in's annotations: keys and values together.
const MOST_ANNOTATIONS: usize = 32 * 1024;
/// Maximum length of a key ID.
const LONGEST_KEY_ID: usize = 1024;
/// Maximum length of an encrypted source.
const LONGEST_SOURCE: usize = 1024;

/// Validates an encrypted object.
pub(super) fn check(object: &EncryptedObject) -> Result<(), String> {
    if object.encrypted_data.is_empty() && object.encrypted_dek_source_type_is_known() {
        return Err("encrypted data is empty".to_owned());
    }
    check_source(object)
}

/// Validates an encrypted object without data.
pub(super) fn check_source(object: &EncryptedObject) -> Result<(), String> {
    if !object.encrypted_dek_source_type_is_known() {
        let kind = object.encrypted_dek_source_type;
        return Err(format!("unknown encryptedDEKSourceType: {kind}"));
    }
    let failed = |what: &str, why: String| Err(format!("failed to validate {what}: {why}"));
    match object.encrypted_dek_source.len() {
        0 => return failed("encrypted DEK source", "encrypted DEK source is empty".to_owned()),
        1..=LONGEST_SOURCE => {}
        length => {
            let why = format!(
                "encrypted DEK source is {length} bytes, which exceeds the max size of \
                 {LONGEST_SOURCE}"
            );
            return failed("encrypted DEK source", why);
        }
    }
    if let Err((_, why)) = check_key_id(&object.key_id) {
        return failed("key id", why);
    }
    match annotation_problems(&object.annotations) {
        Some(why) => failed("annotations", why),
        None => Ok(()),
    }
}

impl EncryptedObject {
    fn encrypted_dek_source_type_is_known(&self) -> bool {
        matches!(self.encrypted_dek_source_type, AES_GCM_KEY | SEED)
    }

    /// Cache key of the source: a hash of everything that a Decrypt call sends.
    pub(super) fn source_key(&self) -> [u8; 32] {
        let mut hash = Context::new(&SHA256);
        let mut add = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        add(&self.encrypted_dek_source_type.to_be_bytes());
        add(&self.encrypted_dek_source);
        add(self.key_id.as_bytes());
        for (name, value) in &self.annotations {
            add(name.as_bytes());
            add(value);
        }
        let mut key = [0; 32];
        key.copy_from_slice(hash.finish().as_ref());
        key
    }
}

/// Validates a plug-in's key ID; the error has the label for metrics, and the message.
pub(super) fn check_key_id(key_id: &str) -> Result<(), (&'static str, String)> {
    match key_id.len() {
        0 => Err(("empty", "keyID is empty".to_owned())),
        1..=LONGEST_KEY_ID => Ok(()),
        length => {
            let why =
                format!("keyID is {length} bytes, which exceeds the max size of {LONGEST_KEY_ID}");
            Err(("too_long", why))
        }
    }
}

fn annotation_problems(annotations: &BTreeMap<String, Vec<u8>>) -> Option<String> {
    let path = Path::new("annotations");
    let names = annotations.keys().flat_map(|name| is_fully_qualified_domain_name(&path, name));
    let mut problems: Vec<String> = names.map(|error| error.to_string()).collect();
    let size: usize = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MOST_ANNOTATIONS {
        problems.push(format!(
            "total size of annotations is {size}, which exceeds the max size of {MOST_ANNOTATIONS}"
        ));
    }
    aggregate(problems)
}
