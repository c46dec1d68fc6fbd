//! Limit on the size that admission plug-ins give to an object.

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_store::Error;

use crate::failure::store_error;

/// Largest object that plug-ins may make, in bytes of JSON: etcd's default limit. Otherwise a plug-in that copies from
/// another object could turn small requests into objects as large as the store allows.
const MAX_ADMITTED: usize = 3 << 19;

/// Bytes that plug-ins may add to an object that is already larger: a volume, tolerations, labels.
const MAX_ADDED: usize = 64 << 10;

/// Refuses an object that plug-ins have made too large, with the store's error. `before` is its size without them.
pub(super) fn check(object: &Value, before: usize) -> Result<(), StatusError> {
    let size = bytes(object);
    match size > MAX_ADMITTED && size > before.saturating_add(MAX_ADDED) {
        true => Err(store_error(Error::too_large())),
        false => Ok(()),
    }
}

/// Approximate size of a value as JSON in bytes: quotes and commas are counted, escapes are not.
pub(super) fn bytes(value: &Value) -> usize {
    kevel_compute::charge(1);
    match value {
        Value::Map(map) => map.iter().map(|(key, value)| key.len() + 4 + bytes(value)).sum(),
        Value::List(items) => items.iter().map(|item| 1 + bytes(item)).sum(),
        value => value.as_str().map_or(NUMBER, |text| text.len() + 2),
    }
}

/// Size of a number or boolean.
const NUMBER: usize = 4;

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    fn config_map(size: usize) -> Value {
        let text = format!(r#"{{"data":{{"a":"{}"}}}}"#, "x".repeat(size));
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    #[test]
    fn object_that_plugins_make_too_large_is_refused() {
        for (before, after, allowed) in [
            (100, 1000, true),
            (100, MAX_ADMITTED - 100, true),
            (100, MAX_ADMITTED, false),
            (MAX_ADMITTED, MAX_ADMITTED, true),
            (MAX_ADMITTED, MAX_ADMITTED + MAX_ADDED, true),
            (MAX_ADMITTED, MAX_ADMITTED + MAX_ADDED + 1, false),
            (2 * MAX_ADMITTED, MAX_ADMITTED, true),
        ] {
            let checked = check(&config_map(after), bytes(&config_map(before)));
            assert_eq!(checked.is_ok(), allowed, "{before} {after}");
            if let Err(error) = checked {
                let (code, text) = (error.status().code, error.to_string());
                assert_eq!((code, &*text), (500, "etcdserver: request is too large"));
            }
        }
    }
}
