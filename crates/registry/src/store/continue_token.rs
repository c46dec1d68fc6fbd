//! Continue tokens of paginated lists: the last key and the revision.

use std::fmt::Display;

use kevel_api::json_string::write_json_string;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::{base64, json};
use kevel_store::Revision;
use kevel_store::cache::CacheError;

use crate::failure::cache_error;

/// Version of the token's encoding.
const VERSION: &str = "meta.k8s.io/v1";

/// Revision that stands for the latest state: in tokens for lists whose first revision has been compacted.
const LATEST: i64 = -1;

/// Message of the 410 for a list whose revision has been compacted. The wording is the reference's.
const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can \
     start a new list without the continue parameter, or use the continue token in this response to retrieve the \
     remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
     were created, modified, or deleted between the time the first chunk was returned and now may show up in the \
     list.";

/// Decoded continue token.
#[derive(Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// Revision to continue at; `None` for the latest.
    pub revision: Option<Revision>,
    /// Key after which the list continues.
    pub after: String,
}

impl ContinueToken {
    /// Decodes the token of a list of the keys below `prefix`.
    pub fn read(token: &str, prefix: &str) -> Result<Self, StatusError> {
        let value = decode(token).map_err(|why| invalid(&format_args!(": {why}")))?;
        let version = value.str_at(&["v"]);
        if version != VERSION {
            return Err(invalid(&format_args!(
                ": server does not recognize this encoded version {version}"
            )));
        }
        let revision = match value.at(&["rv"]).and_then(Value::as_int).unwrap_or_default() {
            0 => {
                let why = "incorrect encoded start resourceVersion";
                return Err(invalid(&format_args!(": {why} (version {VERSION})")));
            }
            revision => u64::try_from(revision).ok().map(Revision),
        };
        let start = value.str_at(&["start"]);
        if start.is_empty() {
            return Err(invalid(&format_args!(": encoded start key empty (version {VERSION})")));
        }
        let key = start.strip_prefix('/').unwrap_or(start);
        // The key must stay below the prefix.
        if !key.is_empty() && key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid(&format_args!(": {start}")));
        }
        // A key ending in a zero byte is the first one after the key without it.
        let after = format!("{prefix}{}", key.strip_suffix('\0').unwrap_or(key));
        Ok(ContinueToken { revision, after })
    }

    /// Encodes the token of a list that continues after the key `last`. It begins with a slash, as tokens of the
    /// reference's watch cache do.
    pub fn write(revision: Revision, last: &str, prefix: &str) -> String {
        let start = last.strip_prefix(prefix).unwrap_or(last);
        encode(&revision, &format!("/{start}\0"))
    }

    /// The error of a list that cannot continue. For an expired revision it carries a token to continue at the latest
    /// one.
    pub fn refused(&self, error: CacheError, prefix: &str) -> StatusError {
        let CacheError::Expired { .. } = error else { return cache_error(error) };
        let start = self.after.strip_prefix(prefix).unwrap_or(&self.after);
        let mut status = StatusError::resource_expired(INCONSISTENT).into_status();
        status.metadata.continue_token = encode(&LATEST, &format!("{start}\0")).into();
        status.into()
    }
}

fn invalid(why: &dyn Display) -> StatusError {
    StatusError::bad_request(format!("invalid continue token: continue key is not valid{why}"))
}

fn encode(revision: &dyn Display, start: &str) -> String {
    let mut text = format!(r#"{{"v":"{VERSION}","rv":{revision},"start":"#).into_bytes();
    write_json_string(&mut text, start);
    text.push(b'}');
    base64::encode_url(&text)
}

fn decode(token: &str) -> Result<Value, String> {
    let mut text = Vec::new();
    decode_url(token, &mut text).map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    let decoded = json::decode_any(&text, json::Unknown::Ignore);
    decoded.map(|decoded| decoded.value).map_err(|error| error.to_string())
}

/// Decodes unpadded URL base64. The error is the position of the first invalid byte.
fn decode_url(text: &str, bytes: &mut Vec<u8>) -> Result<(), usize> {
    let foreign = text.bytes().position(|byte| matches!(byte, b'+' | b'/' | b'='));
    let mut standard = text.replace('-', "+").replace('_', "/");
    // A single trailing character does not encode a byte.
    let alone = (standard.len() % 4 == 1).then(|| standard.len() - 1);
    while !standard.len().is_multiple_of(4) {
        standard.push('=');
    }
    let wrong = base64::decode_into(&standard, bytes).err();
    match [foreign, alone, wrong].into_iter().flatten().min() {
        Some(at) => Err(at),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ContinueToken, String> {
        let token = base64::encode_url(text.as_bytes());
        ContinueToken::read(&token, "pods/").map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_written_is_read() {
        let token = ContinueToken::write(Revision(7), "pods/default/a", "pods/");
        let read = ContinueToken::read(&token, "pods/").unwrap();
        let (revision, after) = (Some(Revision(7)), "pods/default/a".to_owned());
        assert_eq!(read, ContinueToken { revision, after });
    }

    #[test]
    fn expired_token_continues_at_the_present() {
        let after = "pods/default/a".to_owned();
        let token = ContinueToken { revision: Some(Revision(7)), after };
        let expired = CacheError::Expired { requested: Revision(7), oldest: Revision(9) };
        let error = token.refused(expired, "pods/");
        assert_eq!(error.status().code, 410);
        let again = ContinueToken::read(&error.status().metadata.continue_token, "pods/").unwrap();
        assert_eq!(again, ContinueToken { revision: None, ..token });
    }

    #[test]
    fn what_is_not_a_token_is_refused() {
        let invalid = |why: &str| format!("invalid continue token: continue key is not valid{why}");
        for (text, why) in [
            (
                r#"{"v":"x","rv":1,"start":"a"}"#,
                ": server does not recognize this encoded version x",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","start":"a"}"#,
                ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","rv":1}"#,
                ": encoded start key empty (version meta.k8s.io/v1)",
            ),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#, ": ../a"),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}"#, ": a//b"),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a/"}"#, ": a/"),
        ] {
            assert_eq!(read(text).unwrap_err(), invalid(why), "{text}");
        }
        for (token, at) in [("a", 0), ("ab+d", 2), ("abcde", 4), ("YQ==", 2), ("a!", 1)] {
            let error = ContinueToken::read(token, "").unwrap_err().to_string();
            assert_eq!(error, invalid(&format!(": illegal base64 data at input byte {at}")));
        }
    }
}
