//! Decoder of the configuration. Unknown and duplicate fields are refused.

use kevel_api::duration::Duration;
use kevel_api::field_error::Path;
use kevel_api::quote::quote;
use kevel_api::value::{Map, Value};
use kevel_codec::json::strict_message;
use kevel_server::config_file;

use super::{AuthorizationConfiguration, AuthorizerConfiguration, WebhookConfiguration};

const KIND: &str = "AuthorizationConfiguration";
/// Name of the reference's scheme in error messages.
const SCHEME: &str = "k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32";

/// Fields of each type, the same in all versions.
const CONFIGURATION: &[&str] = &["apiVersion", "kind", "authorizers"];
const AUTHORIZER: &[&str] = &["type", "name", "webhook"];
const WEBHOOK: &[&str] = &[
    "authorizedTTL",
    "cacheAuthorizedRequests",
    "unauthorizedTTL",
    "cacheUnauthorizedRequests",
    "timeout",
    "subjectAccessReviewVersion",
    "matchConditionSubjectAccessReviewVersion",
    "failurePolicy",
    "connectionInfo",
    "matchConditions",
];
const CONNECTION: &[&str] = &["type", "kubeConfigFile"];
const CONDITION: &[&str] = &["expression"];

const DEFAULT_AUTHORIZED_TTL: Duration = Duration(300_000_000_000);
const DEFAULT_UNAUTHORIZED_TTL: Duration = Duration(30_000_000_000);

pub(super) fn configuration(text: &[u8]) -> Result<AuthorizationConfiguration, String> {
    if text.is_empty() {
        return Ok(AuthorizationConfiguration::default());
    }
    let (value, strict) = config_file::decode(text, KIND, SCHEME)?;
    let mut reader = Reader { strict };
    let config = reader.configuration(&value)?;
    match reader.strict.is_empty() {
        true => Ok(config),
        false => Err(strict_message(&reader.strict)),
    }
}

/// Decoder that collects unknown fields.
struct Reader {
    strict: Vec<String>,
}

impl Reader {
    fn configuration(&mut self, value: &Value) -> Result<AuthorizationConfiguration, String> {
        let map = self.fields(value, &Path::NONE, CONFIGURATION)?;
        let at = Path::new("authorizers");
        let mut authorizers = Vec::new();
        for (index, value) in list(map, "authorizers", &at)?.iter().enumerate() {
            authorizers.push(self.authorizer(value, &at.index(index))?);
        }
        Ok(AuthorizationConfiguration { authorizers })
    }

    fn authorizer(
        &mut self,
        value: &Value,
        path: &Path<'_>,
    ) -> Result<AuthorizerConfiguration, String> {
        let map = self.fields(value, path, AUTHORIZER)?;
        let webhook = match map.get("webhook") {
            None | Some(Value::Null) => None,
            Some(value) => Some(self.webhook(value, &path.child("webhook"))?),
        };
        Ok(AuthorizerConfiguration {
            mode: text(map, "type", path)?.unwrap_or_default(),
            name: text(map, "name", path)?.unwrap_or_default(),
            webhook,
        })
    }

    fn webhook(&mut self, value: &Value, path: &Path<'_>) -> Result<WebhookConfiguration, String> {
        let map = self.fields(value, path, WEBHOOK)?;
        let text = |field: &str| text(map, field, path).map(Option::unwrap_or_default);
        let ttl = |field: &str, default: Duration| match duration(map, field, path)? {
            Duration(0) => Ok::<_, String>(default),
            ttl => Ok(ttl),
        };
        let mut config = WebhookConfiguration {
            authorized_ttl: ttl("authorizedTTL", DEFAULT_AUTHORIZED_TTL)?,
            cache_authorized_requests: flag(map, "cacheAuthorizedRequests", path)?,
            unauthorized_ttl: ttl("unauthorizedTTL", DEFAULT_UNAUTHORIZED_TTL)?,
            cache_unauthorized_requests: flag(map, "cacheUnauthorizedRequests", path)?,
            timeout: duration(map, "timeout", path)?,
            subject_access_review_version: text("subjectAccessReviewVersion")?,
            match_condition_subject_access_review_version: text(
                "matchConditionSubjectAccessReviewVersion",
            )?,
            failure_policy: text("failurePolicy")?,
            ..WebhookConfiguration::default()
        };
        if let Some(value) = map.get("connectionInfo").filter(|value| !value.is_null()) {
            let path = path.child("connectionInfo");
            let map = self.fields(value, &path, CONNECTION)?;
            config.connection_type = self::text(map, "type", &path)?.unwrap_or_default();
            config.kube_config_file = self::text(map, "kubeConfigFile", &path)?;
        }
        let path = path.child("matchConditions");
        for (index, value) in list(map, "matchConditions", &path)?.iter().enumerate() {
            let path = path.index(index);
            let map = self.fields(value, &path, CONDITION)?;
            config.match_conditions.push(self::text(map, "expression", &path)?.unwrap_or_default());
        }
        Ok(config)
    }

    /// Fields of an object; records unknown ones.
    fn fields<'v>(
        &mut self,
        value: &'v Value,
        path: &Path<'_>,
        known: &[&str],
    ) -> Result<&'v Map, String> {
        let map = value.as_map().ok_or_else(|| mistyped(path, "an object"))?;
        for (name, _) in map.iter().filter(|(name, _)| !known.contains(name)) {
            let field = path.child(name).to_string();
            self.strict.push(format!("unknown field {}", quote(&field)));
        }
        Ok(map)
    }
}

fn list<'v>(map: &'v Map, field: &str, path: &Path<'_>) -> Result<&'v [Value], String> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(value) => value.as_list().ok_or_else(|| mistyped(path, "a list")),
    }
}

fn text(map: &Map, field: &str, path: &Path<'_>) -> Result<Option<String>, String> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.to_string())),
        Some(_) => Err(mistyped(&path.child(field), "a string")),
    }
}

/// Boolean field that defaults to true.
fn flag(map: &Map, field: &str, path: &Path<'_>) -> Result<bool, String> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(true),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(mistyped(&path.child(field), "true or false")),
    }
}

fn duration(map: &Map, field: &str, path: &Path<'_>) -> Result<Duration, String> {
    match text(map, field, path)? {
        None => Ok(Duration(0)),
        Some(text) => {
            text.parse().map_err(|error: kevel_api::duration::ParseDurationError| error.to_string())
        }
    }
}

fn mistyped(path: &Path<'_>, what: &str) -> String {
    format!("{path} must be {what}")
}
