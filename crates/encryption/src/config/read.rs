//! Parser of EncryptionConfigurations. Unknown and duplicate fields are errors.

use kevel_api::duration::Duration;
use kevel_api::field_error::Path;
use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_codec::json::strict_message;
use kevel_server::config_file;

use super::{
    EncryptionConfiguration, Key, KmsConfiguration, ProviderConfiguration, ResourceConfiguration,
};

/// Accepted versions and kinds. The second is an old mistake of the documentation.
const KINDS: [(&str, &str); 2] =
    [("apiserver.config.k8s.io/v1", "EncryptionConfiguration"), ("v1", "EncryptionConfig")];
/// The reference's name of its scheme in error messages.
const SCHEME: &str = "k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go:142";

/// Default timeout of a plug-in.
const DEFAULT_TIMEOUT: Duration = Duration(3_000_000_000);
/// Default number of cached keys of a v1 plug-in.
const DEFAULT_CACHE_SIZE: i32 = 1000;

/// Expected type of a value.
enum Shape {
    Text,
    Number,
    List(&'static Shape),
    Object(&'static [(&'static str, Shape)]),
}

use Shape::{List, Number, Object, Text};

const CONFIGURATION: Shape =
    Object(&[("apiVersion", Text), ("kind", Text), ("resources", List(&RESOURCES))]);
const RESOURCES: Shape = Object(&[("resources", List(&Text)), ("providers", List(&PROVIDER))]);
const PROVIDER: Shape = Object(&[
    ("aesgcm", KEYS),
    ("aescbc", KEYS),
    ("secretbox", KEYS),
    ("identity", Object(&[])),
    ("kms", KMS),
]);
const KEYS: Shape = Object(&[("keys", List(&KEY))]);
const KEY: Shape = Object(&[("name", Text), ("secret", Text)]);
const KMS: Shape = Object(&[
    ("apiVersion", Text),
    ("name", Text),
    ("cachesize", Number),
    ("endpoint", Text),
    ("timeout", Text),
]);

pub(super) fn configuration(text: &[u8]) -> Result<EncryptionConfiguration, String> {
    let (value, mut strict) = config_file::decode_one_of(text, &KINDS, SCHEME)?;
    check(&value, &CONFIGURATION, &Path::NONE, &mut strict)?;
    if !strict.is_empty() {
        return Err(strict_message(&strict));
    }
    let resources = list(&value, "resources").iter().map(resource).collect::<Result<_, _>>()?;
    Ok(EncryptionConfiguration { resources })
}

/// Checks the type of a value; unknown fields are added to `strict`.
fn check(
    value: &Value,
    shape: &Shape,
    path: &Path<'_>,
    strict: &mut Vec<String>,
) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{path} must be {what}"));
    match (shape, value) {
        (_, Value::Null) | (Text, Value::String(_)) => Ok(()),
        (Text, _) => wrong("a string"),
        (Number, value) => match value.as_int().is_some_and(|n| i32::try_from(n).is_ok()) {
            true => Ok(()),
            false => wrong("a number"),
        },
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

fn resource(value: &Value) -> Result<ResourceConfiguration, String> {
    let names = list(value, "resources").iter();
    let resources = names.map(|name| name.as_str().unwrap_or_default().to_owned()).collect();
    let providers = list(value, "providers").iter().map(provider).collect::<Result<_, _>>()?;
    Ok(ResourceConfiguration { resources, providers })
}

fn provider(value: &Value) -> Result<ProviderConfiguration, String> {
    let keys = |name: &str| {
        let keys = there(value, name)?;
        let key = |key: &Value| Key { name: text(key, "name"), secret: text(key, "secret") };
        Some(list(keys, "keys").iter().map(key).collect())
    };
    Ok(ProviderConfiguration {
        aesgcm: keys("aesgcm"),
        aescbc: keys("aescbc"),
        secretbox: keys("secretbox"),
        identity: there(value, "identity").is_some(),
        kms: there(value, "kms").map(kms).transpose()?,
    })
}

fn kms(value: &Value) -> Result<KmsConfiguration, String> {
    let timeout = match there(value, "timeout").and_then(Value::as_str) {
        Some(text) => text.parse::<Duration>().map_err(|error| error.to_string())?,
        None => DEFAULT_TIMEOUT,
    };
    let api_version = match text(value, "apiVersion") {
        said if said.is_empty() => "v1".to_owned(),
        said => said,
    };
    let said = value.at(&["cachesize"]).and_then(Value::as_int);
    let default = (api_version == "v1").then_some(DEFAULT_CACHE_SIZE);
    Ok(KmsConfiguration {
        cache_size: said.and_then(|size| i32::try_from(size).ok()).or(default),
        api_version,
        name: text(value, "name"),
        endpoint: text(value, "endpoint"),
        timeout,
    })
}

fn there<'v>(value: &'v Value, field: &str) -> Option<&'v Value> {
    value.at(&[field]).filter(|value| !value.is_null())
}

fn text(value: &Value, field: &str) -> String {
    value.str_at(&[field]).to_owned()
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value.at(&[field]).and_then(Value::as_list).unwrap_or_default()
}
