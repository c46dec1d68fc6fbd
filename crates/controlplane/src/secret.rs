//! Kind Secret: validation.

use kevel_api::value::Value;
use kevel_codec::{base64, json};

use crate::capabilities::Capabilities;
use crate::columns;
use crate::config_map::key_form;
use crate::kind::{Kind, MetadataChecks, Selectable};
use crate::rules::Rules;
use crate::validation::Field;

/// `secrets`
pub static KIND: Kind = Kind {
    selectable_fields: &[Selectable::field("type")],
    columns: columns::core::SECRET,
    rules: Rules {
        validate_create: check,
        prepare_for_update,
        validate_update,
        warnings,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("", "secrets")
};

/// Maximum total size of the values in a Secret or ConfigMap.
pub const MAX_SIZE: usize = 1 << 20;

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// Keeps the stored type if the update omits it.
fn prepare_for_update(secret: &mut Value, old: &Value, _: &Capabilities) {
    let unsaid = secret.str_at(&["type"]).is_empty();
    if let (Some(map), Some(ty)) = (secret.as_map_mut().filter(|_| unsaid), old.at(&["type"])) {
        map.insert("type", ty.clone());
    }
}

fn check(secret: Field) {
    let data = secret.at("data");
    let mut size = 0;
    for (key, value) in data.entries() {
        key_form(value, key);
        size += bytes(value);
    }
    if size > MAX_SIZE {
        data.too_long(MAX_SIZE);
    }
    match secret.at("type").str() {
        "kubernetes.io/service-account-token" => {
            let annotations = secret.down("metadata.annotations");
            annotations.key(ACCOUNT_NAME).must("");
        }
        "kubernetes.io/dockercfg" => docker_config(data.key(".dockercfg")),
        "kubernetes.io/dockerconfigjson" => docker_config(data.key(".dockerconfigjson")),
        "kubernetes.io/basic-auth" => {
            let (user, password) = (data.key("username"), data.key("password"));
            if user.is_missing() && password.is_missing() {
                user.required("");
                password.required("");
            }
        }
        "kubernetes.io/ssh-auth" => {
            data.key("ssh-privatekey").must("");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].iter().filter(|key| data.key(key).is_missing()) {
                data.key(key).required("");
            }
        }
        _ => {}
    }
}

/// Number of bytes of a base64 entry.
pub fn bytes(value: Field) -> usize {
    let text = value.str().trim_end_matches('=');
    text.len() * 3 / 4
}

fn docker_config(entry: Field) {
    if entry.is_missing() {
        return entry.required("");
    }
    let mut text = Vec::new();
    if base64::decode_into(entry.str(), &mut text).is_err() {
        return;
    }
    let why = match json::decode_any(&text, json::Unknown::Ignore) {
        Ok(decoded) => match decoded.value {
            Value::Map(_) | Value::Null => return,
            other => {
                let what = match other {
                    Value::List(_) => "array",
                    Value::String(_) => "string",
                    Value::Bool(_) => "bool",
                    _ => "number",
                };
                format!(
                    "json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
                )
            }
        },
        Err(error) => error.to_string(),
    };
    entry.invalid_as("<secret contents redacted>", why);
}

fn validate_update(secret: Field, old: Field) {
    secret.at("type").immutable(&old.at("type"));
    sealed(secret, old, &["data"]);
    secret.metadata_again();
    check(secret);
}

/// Checks that an `immutable` Secret or ConfigMap does not change.
pub fn sealed(object: Field, old: Field, fields: &[&str]) {
    if !old.at("immutable").bool() {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if !object.at("immutable").bool() {
        object.at("immutable").forbidden(why);
    }
    for field in fields.iter().filter(|field| !object.at(field).same(&old.at(field))) {
        object.at(field).forbidden(why);
    }
}

/// Warns of a TLS secret without a certificate or key.
fn warnings(secret: &Value, _old: Option<&Value>) -> Vec<String> {
    if secret.str_at(&["type"]) != "kubernetes.io/tls" {
        return Vec::new();
    }
    let has_pem = |key: &str| {
        let mut text = Vec::new();
        let decoded = base64::decode_into(secret.str_at(&["data", key]), &mut text);
        decoded.is_ok() && text.windows(11).any(|part| part == b"-----BEGIN ")
    };
    let missing = [("tls.crt", "certificate"), ("tls.key", "key")];
    let missing = missing.into_iter().find(|(key, _)| !has_pem(key));
    let warning = |what| format!("tls: failed to find any PEM data in {what} input");
    missing.map(|(_, what)| warning(what)).into_iter().collect()
}
