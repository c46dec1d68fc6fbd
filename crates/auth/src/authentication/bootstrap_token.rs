//! Authentication by bootstrap tokens, with which nodes join a cluster (`--enable-bootstrap-token-auth`).

use std::collections::BTreeSet;
use std::sync::Arc;

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::authentication::{Known, TokenAuthenticated, TokenAuthenticator};
use subtle::ConstantTimeEq as _;

use crate::service_account::Objects;

const NAMESPACE: &str = "kube-system";
const SECRET_PREFIX: &str = "bootstrap-token-";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const USER_PREFIX: &str = "system:bootstrap:";
const GROUP: &str = "system:bootstrappers";

/// Lengths of a token's two parts.
const ID: usize = 6;
const SECRET: usize = 16;
/// Maximum length of an extra group's name after its prefix.
const LONGEST_GROUP: usize = 256;

/// Authenticator of the bootstrap tokens in secrets of `kube-system`.
#[derive(Debug)]
pub struct BootstrapTokens(Arc<Objects>);

impl BootstrapTokens {
    /// Makes an authenticator that looks up secrets among `objects`.
    pub fn new(objects: Arc<Objects>) -> Self {
        BootstrapTokens(objects)
    }

    fn known(&self, token: &str) -> Option<Known> {
        let (id, secret) = parse(token)?;
        let storage = self.0.secrets();
        let name = format!("{SECRET_PREFIX}{id}");
        let found = storage.cache.latest().get(&format!("{NAMESPACE}/{name}")).cloned()?;
        let token = storage.decoded(&found, BootstrapToken::read).ok()?;
        match token.judge(id, secret, Time::now(self.0.clock())) {
            Ok(groups) => {
                let name = format!("{USER_PREFIX}{id}");
                Some(Known::new(User { name, groups, ..User::default() }, Vec::new()))
            }
            Err(problem) => {
                tracing::debug!(
                    "Bootstrap secret {NAMESPACE}/{name} matching bearer token {problem}"
                );
                None
            }
        }
    }
}

impl TokenAuthenticator for BootstrapTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        _audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(std::future::ready(Ok(self.known(token).map(Arc::new))))
    }
}

/// Parses a token: `abcdef.0123456789abcdef`.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let ours = |part: &str, length| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    (ours(id, ID) && ours(secret, SECRET)).then_some((id, secret))
}

/// Token as its Secret says it, read once for each state of the Secret, which may be large.
#[derive(Debug)]
struct BootstrapToken {
    is_deleted: bool,
    is_token: bool,
    id: String,
    secret: String,
    /// Empty for a token that does not expire.
    expiration: String,
    is_usable: bool,
    /// `None` if one is not a group of bootstrappers.
    groups: Option<Vec<String>>,
}

impl BootstrapToken {
    fn read(object: &Value) -> Self {
        let data = |key: &str| {
            let mut bytes = Vec::new();
            let decoded = base64::decode_into(object.str_at(&["data", key]), &mut bytes);
            decoded
                .map_or_else(|_| String::new(), |()| String::from_utf8_lossy(&bytes).into_owned())
        };
        BootstrapToken {
            is_deleted: object.at(&["metadata", "deletionTimestamp"]).is_some(),
            is_token: object.str_at(&["type"]) == SECRET_TYPE,
            id: data("token-id"),
            secret: data("token-secret"),
            expiration: data("expiration"),
            is_usable: data("usage-bootstrap-authentication") == "true",
            groups: groups(&data("auth-extra-groups")),
        }
    }

    /// Groups of a token's user, or the reason to refuse it.
    fn judge(&self, id: &str, secret: &str, now: Time) -> Result<Vec<String>, String> {
        if self.is_deleted {
            return Err("is deleted and awaiting removal".to_owned());
        }
        if !self.is_token {
            return Err(format!("has invalid type, expected {SECRET_TYPE}."));
        }
        let wrong = |key: &str| format!("has invalid value for key {key}.");
        if !bool::from(self.secret.as_bytes().ct_eq(secret.as_bytes())) {
            return Err(wrong("token-secret"));
        }
        if self.id != id {
            return Err(wrong("token-id"));
        }
        let passed = |text: &str| text.parse::<Time>().map_or(true, |time| time <= now);
        if !self.expiration.is_empty() && passed(&self.expiration) {
            return Err("has expired.".to_owned());
        }
        if !self.is_usable {
            return Err("not marked usage-bootstrap-authentication=true.".to_owned());
        }
        self.groups.clone().ok_or_else(|| wrong("auth-extra-groups"))
    }
}

/// Groups of a token's user: the common one, and the extra ones.
fn groups(extra: &str) -> Option<Vec<String>> {
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        kevel_compute::charge(1);
        groups.insert(is_group(group).then(|| group.to_owned())?);
    }
    Some(groups.into_iter().collect())
}

fn is_group(group: &str) -> bool {
    let name = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':'));
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.is_some_and(|name| {
        name.len() <= LONGEST_GROUP
            && name.bytes().all(|byte| plain(byte) || matches!(byte, b':' | b'-'))
            && name.bytes().last().is_some_and(plain)
    })
}

#[cfg(test)]
mod tests {
    use kevel_api::value::Map;

    use super::*;

    const GOOD: [(&str, &str); 3] = [
        ("token-id", "abcdef"),
        ("token-secret", "0123456789abcdef"),
        ("usage-bootstrap-authentication", "true"),
    ];

    fn secret(changes: &[(&str, &str)]) -> Value {
        let mut data = Map::new();
        for (key, value) in GOOD.iter().chain(changes) {
            data.insert(*key, base64::encode(value.as_bytes()).as_str().into());
        }
        Map::from_iter([("type", SECRET_TYPE.into()), ("data", data.into())]).into()
    }

    #[test]
    fn a_secret_says_whether_its_token_is_good() {
        let default = "system:bootstrappers";
        let now = Time::now(&kevel_clock::Clock::system());
        for (changes, expected) in [
            (&[][..], Ok(default)),
            (&[("expiration", "2999-01-01T00:00:00Z")], Ok(default)),
            (&[("expiration", "2001-01-01T00:00:00Z")], Err("has expired.")),
            (&[("expiration", "tomorrow")], Err("has expired.")),
            (
                &[("auth-extra-groups", "system:bootstrappers:b,system:bootstrappers:a:1")],
                Ok("system:bootstrappers,system:bootstrappers:a:1,system:bootstrappers:b"),
            ),
            (
                &[("auth-extra-groups", "system:masters")],
                Err("has invalid value for key auth-extra-groups."),
            ),
            (
                &[("auth-extra-groups", "system:bootstrappers:x-")],
                Err("has invalid value for key auth-extra-groups."),
            ),
            (
                &[("token-secret", "0123456789abcdee")],
                Err("has invalid value for key token-secret."),
            ),
            (&[("token-id", "fedcba")], Err("has invalid value for key token-id.")),
            (
                &[("usage-bootstrap-authentication", "yes")],
                Err("not marked usage-bootstrap-authentication=true."),
            ),
        ] {
            let token = BootstrapToken::read(&secret(changes));
            let judged = token.judge("abcdef", "0123456789abcdef", now);
            let judged = judged.map(|groups| groups.join(","));
            assert_eq!(judged.as_deref().map_err(String::as_str), expected, "{changes:?}");
        }
    }

    #[test]
    fn the_object_around_a_token_decides_before_its_data() {
        let deleted: Value =
            Map::from_iter([("deletionTimestamp", "2026-01-01T00:00:00Z".into())]).into();
        for (field, value, expected) in [
            ("metadata", Map::new().into(), None),
            (
                "type",
                "Opaque".into(),
                Some("has invalid type, expected bootstrap.kubernetes.io/token."),
            ),
            ("type", "".into(), Some("has invalid type, expected bootstrap.kubernetes.io/token.")),
            ("metadata", deleted, Some("is deleted and awaiting removal")),
        ] {
            let mut object = secret(&[]);
            object.as_map_mut().unwrap().insert(field, value);
            let now = Time::now(&kevel_clock::Clock::system());
            let judged = BootstrapToken::read(&object).judge("abcdef", "0123456789abcdef", now);
            assert_eq!(judged.err().as_deref(), expected, "{field}");
        }
    }

    #[test]
    fn a_token_has_two_parts() {
        assert_eq!(parse("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for token in [
            "abcdef",
            "abcde.0123456789abcdef",
            "abcdeF.0123456789abcdef",
            "abcdef.0123456789abcdef.",
            "",
        ] {
            assert_eq!(parse(token), None, "{token}");
        }
    }
}
