//! Decoder of the configuration. Unknown and duplicate fields are refused.

use kevel_api::field_error::Path;
use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_codec::json::strict_message;
use kevel_server::config_file;

use super::{
    AnonymousConfiguration, AuthenticationConfiguration, ClaimMapping, ClaimValidationRule,
    ExtraMapping, IssuerConfiguration, JwtConfiguration, UserValidationRule,
};

const KIND: &str = "AuthenticationConfiguration";
/// Name of the reference's scheme in error messages.
const SCHEME: &str = "pkg/kubeapiserver/options/authentication.go";

/// Shape of a value. The versions do not differ.
enum Shape {
    Text,
    Flag,
    List(&'static Shape),
    Object(&'static [(&'static str, Shape)]),
}

use Shape::{Flag, List, Object, Text};

const CONFIGURATION: Shape = Object(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("jwt", List(&JWT)),
    ("anonymous", Object(&[("enabled", Flag), ("conditions", List(&CONDITION))])),
]);
const CONDITION: Shape = Object(&[("path", Text)]);
const JWT: Shape = Object(&[
    ("issuer", ISSUER),
    ("claimValidationRules", List(&CLAIM_RULE)),
    ("claimMappings", MAPPINGS),
    ("userValidationRules", List(&USER_RULE)),
]);
const ISSUER: Shape = Object(&[
    ("url", Text),
    ("discoveryURL", Text),
    ("certificateAuthority", Text),
    ("audiences", List(&Text)),
    ("audienceMatchPolicy", Text),
    ("egressSelectorType", Text),
]);
const CLAIM_RULE: Shape =
    Object(&[("claim", Text), ("requiredValue", Text), ("expression", Text), ("message", Text)]);
const MAPPINGS: Shape = Object(&[
    ("username", PREFIXED),
    ("groups", PREFIXED),
    ("uid", Object(&[("claim", Text), ("expression", Text)])),
    ("extra", List(&EXTRA)),
]);
const PREFIXED: Shape = Object(&[("claim", Text), ("prefix", Text), ("expression", Text)]);
const EXTRA: Shape = Object(&[("key", Text), ("valueExpression", Text)]);
const USER_RULE: Shape = Object(&[("expression", Text), ("message", Text)]);

pub(super) fn configuration(text: &[u8]) -> Result<AuthenticationConfiguration, String> {
    if text.is_empty() {
        return Err("empty config data".to_owned());
    }
    let (value, mut strict) = config_file::decode(text, KIND, SCHEME)?;
    check(&value, &CONFIGURATION, &Path::NONE, &mut strict)?;
    match strict.is_empty() {
        true => Ok(read(&value)),
        false => Err(strict_message(&strict)),
    }
}

/// Checks a value's shape, and records unknown fields.
fn check(
    value: &Value,
    shape: &Shape,
    path: &Path<'_>,
    strict: &mut Vec<String>,
) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{path} must be {what}"));
    match (shape, value) {
        (_, Value::Null) | (Text, Value::String(_)) | (Flag, Value::Bool(_)) => Ok(()),
        (Text, _) => wrong("a string"),
        (Flag, _) => wrong("true or false"),
        (List(item), Value::List(items)) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| check(value, item, &path.index(index), strict)),
        (List(_), _) => wrong("a list"),
        (Object(fields), Value::Map(map)) => map.iter().try_for_each(|(name, value)| {
            let path = path.child(name);
            match fields.iter().find(|(known, _)| *known == name) {
                Some((_, shape)) => check(value, shape, &path, strict),
                None => {
                    strict.push(format!("unknown field {}", quote(&path.to_string())));
                    Ok(())
                }
            }
        }),
        (Object(_), _) => wrong("an object"),
    }
}

fn read(value: &Value) -> AuthenticationConfiguration {
    let anonymous = value.at(&["anonymous"]).filter(|value| !value.is_null());
    AuthenticationConfiguration {
        jwt: all(value, &["jwt"], jwt),
        anonymous: anonymous.map(|value| AnonymousConfiguration {
            enabled: value.at(&["enabled"]).and_then(Value::as_bool).unwrap_or(false),
            paths: all(value, &["conditions"], |condition| text(condition, "path")),
        }),
    }
}

fn jwt(value: &Value) -> JwtConfiguration {
    let issuer = value.at(&["issuer"]).unwrap_or(&Value::Null);
    let mapping = |name: &str| {
        let mapping = value.at(&["claimMappings", name]).unwrap_or(&Value::Null);
        ClaimMapping {
            claim: text(mapping, "claim"),
            prefix: mapping.at(&["prefix"]).and_then(Value::as_str).map(str::to_owned),
            expression: text(mapping, "expression"),
        }
    };
    JwtConfiguration {
        issuer: IssuerConfiguration {
            url: text(issuer, "url"),
            discovery_url: text(issuer, "discoveryURL"),
            certificate_authority: text(issuer, "certificateAuthority"),
            audiences: all(issuer, &["audiences"], |one| one.as_str().unwrap_or("").to_owned()),
            audience_match_policy: text(issuer, "audienceMatchPolicy"),
            egress_selector_type: text(issuer, "egressSelectorType"),
        },
        claim_validation_rules: all(value, &["claimValidationRules"], |rule| ClaimValidationRule {
            claim: text(rule, "claim"),
            required_value: text(rule, "requiredValue"),
            expression: text(rule, "expression"),
            message: text(rule, "message"),
        }),
        username: mapping("username"),
        groups: mapping("groups"),
        uid: mapping("uid"),
        extra: all(value, &["claimMappings", "extra"], |extra| ExtraMapping {
            key: text(extra, "key"),
            value_expression: text(extra, "valueExpression"),
        }),
        user_validation_rules: all(value, &["userValidationRules"], |rule| UserValidationRule {
            expression: text(rule, "expression"),
            message: text(rule, "message"),
        }),
    }
}

fn text(value: &Value, field: &str) -> String {
    value.str_at(&[field]).to_owned()
}

fn all<T>(value: &Value, path: &[&str], read: impl Fn(&Value) -> T) -> Vec<T> {
    let list = value.at(path).and_then(Value::as_list).unwrap_or_default();
    list.iter().map(read).collect()
}
