//! Mapping of a token's claims to its user.

use kevel_api::value::Value;
use kevel_registry::user::{CREDENTIAL_ID, User};

use super::super::configuration::{ClaimMapping, JwtConfiguration};
use super::expression::{Expression, Over};
use crate::service_account::credential_id;

/// Mappings of all user attributes.
#[derive(Debug)]
pub(super) struct Mapping {
    username: AttributeSource,
    groups: AttributeSource,
    uid: AttributeSource,
    extra: Vec<(String, Expression)>,
    required: Vec<(String, String)>,
    claim_rules: Vec<(Expression, String)>,
    user_rules: Vec<(Expression, String)>,
}

/// Source of a user attribute.
#[derive(Debug)]
enum AttributeSource {
    Nowhere,
    Claim { name: String, prefix: String },
    Expression(Expression),
}

const STRINGS: &str = "expression must return a string or a list of strings";

impl Mapping {
    pub fn new(config: &JwtConfiguration) -> Result<Self, String> {
        let rules = config.claim_validation_rules.iter();
        let required = rules.clone().filter(|rule| !rule.claim.is_empty());
        let claim_rules = rules.filter(|rule| !rule.expression.is_empty());
        let compile = |over, text: &str| Expression::new(over, text);
        Ok(Mapping {
            username: AttributeSource::new(&config.username)?,
            groups: AttributeSource::new(&config.groups)?,
            uid: AttributeSource::new(&config.uid)?,
            extra: config
                .extra
                .iter()
                .map(|extra| {
                    Ok((extra.key.clone(), compile(Over::Claims, &extra.value_expression)?))
                })
                .collect::<Result<_, String>>()?,
            required: required
                .map(|rule| (rule.claim.clone(), rule.required_value.clone()))
                .collect(),
            claim_rules: claim_rules
                .map(|rule| {
                    Ok((compile(Over::ClaimsRule, &rule.expression)?, rule.message.clone()))
                })
                .collect::<Result<_, String>>()?,
            user_rules: config
                .user_validation_rules
                .iter()
                .map(|rule| Ok((compile(Over::User, &rule.expression)?, rule.message.clone())))
                .collect::<Result<_, String>>()?,
        })
    }

    /// User of a token with these verified claims.
    pub fn user(&self, claims: &Value) -> Result<User, String> {
        // In expressions, all JSON numbers are doubles.
        let shown = &doubles(claims);
        let user = User {
            name: self.username(claims, shown)?,
            groups: self.groups(claims, shown)?,
            uid: self.uid(claims, shown)?,
            extra: self.extra(claims, shown)?,
        };
        for (name, wanted) in &self.required {
            let value = claims.at(&[name]);
            let value = value
                .ok_or_else(|| format!("oidc: required claim {name} not present in ID token"))?;
            let value = value.as_str();
            let value = value.ok_or_else(|| format!("oidc: parse claim {name}: not a string"))?;
            if value != wanted {
                return Err(format!(
                    "oidc: required claim {name} value does not match. Got = {value}, want = {wanted}"
                ));
            }
        }
        for (rule, message) in &self.claim_rules {
            rule.holds_for_claims(shown, message).map_err(|error| {
                format!("oidc: error evaluating claim validation expression: {error}")
            })?;
        }
        for (rule, message) in &self.user_rules {
            rule.holds_for_user(&user, message).map_err(|error| {
                format!("oidc: error evaluating user info validation rule: {error}")
            })?;
        }
        Ok(user)
    }

    fn username(&self, claims: &Value, shown: &Value) -> Result<String, String> {
        let (name, prefix) = match &self.username {
            AttributeSource::Nowhere => return Err("oidc: no username claim".to_owned()),
            AttributeSource::Claim { name, prefix } => (name, prefix),
            AttributeSource::Expression(expression) => {
                let wrong =
                    |error| format!("oidc: error evaluating username claim expression: {error}");
                let value = expression.of_claims(shown).map_err(wrong)?;
                return match value.as_str() {
                    None => Err(wrong("username claim expression must return a string".to_owned())),
                    Some("") => {
                        Err("oidc: empty username via CEL expression is not allowed".into())
                    }
                    Some(name) => Ok(name.to_owned()),
                };
            }
        };
        let wrong = |error| format!("oidc: parse username claims {name:?}: {error}");
        let username = text_claim(claims, name).map_err(wrong)?;
        if name == "email" {
            match claims.at(&["email_verified"]) {
                None | Some(Value::Bool(true)) => {}
                Some(Value::Bool(false) | Value::Null) => {
                    return Err("oidc: email not verified".to_owned());
                }
                Some(_) => return Err("oidc: parse 'email_verified' claim: not a boolean".into()),
            }
        }
        Ok(format!("{prefix}{username}"))
    }

    fn groups(&self, claims: &Value, shown: &Value) -> Result<Vec<String>, String> {
        match &self.groups {
            AttributeSource::Nowhere => Ok(Vec::new()),
            AttributeSource::Claim { name, prefix } => {
                let groups = match claims.at(&[name]) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::String(one)) => vec![one.as_str()],
                    Some(Value::List(all)) => {
                        let all = all.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
                        all.ok_or_else(|| {
                            format!("oidc: parse groups claim {name:?}: not strings")
                        })?
                    }
                    Some(_) => return Err(format!("oidc: parse groups claim {name:?}: no string")),
                };
                Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect())
            }
            AttributeSource::Expression(expression) => {
                let value = expression.of_claims(shown);
                value.and_then(|value| strings(&value)).map_err(|error| {
                    format!("oidc: error evaluating group claim expression: {error}")
                })
            }
        }
    }

    fn uid(&self, claims: &Value, shown: &Value) -> Result<String, String> {
        match &self.uid {
            AttributeSource::Nowhere => Ok(String::new()),
            AttributeSource::Claim { name, .. } => text_claim(claims, name)
                .map(str::to_owned)
                .map_err(|error| format!("oidc: parse uid claim {name:?}: {error}")),
            AttributeSource::Expression(expression) => {
                let value = expression.of_claims(shown);
                let text = value.and_then(|value| {
                    let text = value.as_str().map(str::to_owned);
                    text.ok_or_else(|| "uid claim expression must return a string".to_owned())
                });
                text.map_err(|error| {
                    format!("oidc: error evaluating uid claim expression: {error}")
                })
            }
        }
    }

    fn extra(&self, claims: &Value, shown: &Value) -> Result<Vec<(String, Vec<String>)>, String> {
        let mut extra = Vec::new();
        if let Some(id) = claims.at(&["jti"]).and_then(Value::as_str).filter(|id| !id.is_empty()) {
            extra.push((CREDENTIAL_ID.to_owned(), vec![credential_id(id)]));
        }
        for (key, expression) in &self.extra {
            let values = strings(&expression.of_claims(shown)?);
            let values = values.map_err(|error| {
                format!("oidc: error evaluating extra claim expression: {error}")
            })?;
            if !values.is_empty() {
                extra.push((key.clone(), values));
            }
        }
        extra.sort();
        Ok(extra)
    }
}

impl AttributeSource {
    fn new(mapping: &ClaimMapping) -> Result<Self, String> {
        Ok(match (mapping.claim.as_str(), mapping.expression.as_str()) {
            ("", "") => AttributeSource::Nowhere,
            ("", text) => AttributeSource::Expression(Expression::new(Over::Claims, text)?),
            (name, _) => AttributeSource::Claim {
                name: name.to_owned(),
                prefix: mapping.prefix.clone().unwrap_or_default(),
            },
        })
    }
}

fn text_claim<'c>(claims: &'c Value, name: &str) -> Result<&'c str, String> {
    let claim = claims.at(&[name]).ok_or("claim not present")?;
    match claim {
        Value::Null => Ok(""),
        claim => claim.as_str().ok_or_else(|| "not a string".to_owned()),
    }
}

/// A string, a list of strings or null; empty strings are dropped.
fn strings(value: &Value) -> Result<Vec<String>, String> {
    let all = match value {
        Value::Null => Some(Vec::new()),
        Value::String(one) => Some(vec![one.as_str()]),
        Value::List(all) => all.iter().map(Value::as_str).collect(),
        _ => None,
    };
    let all = all.ok_or(STRINGS)?;
    Ok(all.into_iter().filter(|one| !one.is_empty()).map(str::to_owned).collect())
}

fn doubles(value: &Value) -> Value {
    match value {
        Value::Int(number) => Value::Float(*number as f64),
        Value::List(all) => Value::List(all.iter().map(doubles).collect()),
        Value::Map(map) => {
            kevel_api::value::Map::from_iter(map.iter().map(|(key, value)| (key, doubles(value))))
                .into()
        }
        other => other.clone(),
    }
}
