//! SubjectAccessReview of a webhook: request and answer.

use bytes::Bytes;
use kevel_api::builtin;
use kevel_api::selector::{field, label};
use kevel_api::value::{Map, Value};
use kevel_codec::json::{self, Unknown};
use kevel_registry::user::User;
use kevel_server::authorization::Attributes;

const GROUP: &str = "authorization.k8s.io";

/// `spec` of a review for a request.
pub(super) fn spec(asked: &Attributes<'_>) -> Value {
    let User { name, uid, groups, extra } = asked.user;
    let extra = extra.iter().map(|(key, values)| (key.as_str(), texts(values)));
    let what = match asked.is_resource {
        true => ("resourceAttributes", resource_attributes(asked)),
        false => {
            let fields = [("path", asked.path.into()), ("verb", asked.verb.into())];
            ("nonResourceAttributes", non_empty(fields))
        }
    };
    let who = [
        ("user", name.as_str().into()),
        ("groups", texts(groups)),
        ("extra", Map::from_iter(extra).into()),
        ("uid", uid.as_str().into()),
    ];
    let mut spec: Map = who.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    spec.insert(what.0, what.1);
    spec.into()
}

/// Spec in its v1 form, as the cache key.
pub(super) fn canonical(spec: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let review = builtin::schema(GROUP, "v1", "SubjectAccessReview");
    match review.and_then(|review| review.field("spec")) {
        Some(field) => json::encode(spec, field.schema(), &mut out),
        None => json::encode_any(spec, &mut out),
    }
    out
}

/// Versions of SubjectAccessReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `authorization.k8s.io/v1`
    V1,
    /// `authorization.k8s.io/v1beta1`
    V1beta1,
}

impl ReviewVersion {
    /// Version of this name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1beta1),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1beta1 => "v1beta1",
        }
    }

    /// Encodes the review.
    pub(super) fn request(self, spec: &Value, canonical: &[u8]) -> Bytes {
        let version = self.name();
        let mut out = Vec::with_capacity(canonical.len() + 160);
        let head = r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/"#;
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(version.as_bytes());
        out.extend_from_slice(br#"","metadata":{},"spec":"#);
        match self {
            ReviewVersion::V1 => out.extend_from_slice(canonical),
            // v1beta1 names the field `group`.
            ReviewVersion::V1beta1 => {
                let mut spec = spec.clone();
                if let Some(map) = spec.as_map_mut()
                    && let Some(groups) = map.remove("groups")
                {
                    map.insert("group", groups);
                }
                json::encode_any(&spec, &mut out);
            }
        }
        out.extend_from_slice(br#","status":{"allowed":false}}"#);
        out.into()
    }

    /// Decodes the status of a webhook's answer; an error if the answer is not a review of this version.
    pub(super) fn status(self, answer: &[u8]) -> Result<Status, String> {
        let decoded = json::decode_any(answer, Unknown::Ignore).map_err(|e| e.to_string())?;
        let review = decoded.value;
        if review.as_map().is_none() {
            return Err("webhook answered with something that is no object".to_owned());
        }
        let (kind, version) = (review.str_at(&["kind"]), review.str_at(&["apiVersion"]));
        let expected = format!("{GROUP}/{}", self.name());
        if !matches!(kind, "" | "SubjectAccessReview")
            || !(version.is_empty() || version == expected)
        {
            return Err(format!(
                "webhook answered with {kind} in {version}, not with SubjectAccessReview in \
                 {expected}"
            ));
        }
        let mistyped = |field: &str| format!("webhook answered with a mistyped status.{field}");
        let flag = |field: &str| match review.at(&["status", field]) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(mistyped(field)),
        };
        let reason = match review.at(&["status", "reason"]) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(reason)) => reason.to_string(),
            Some(_) => return Err(mistyped("reason")),
        };
        Ok(Status { allowed: flag("allowed")?, denied: flag("denied")?, reason })
    }
}

/// The `status` of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub allowed: bool,
    pub denied: bool,
    pub reason: String,
}

fn resource_attributes(asked: &Attributes<'_>) -> Value {
    non_empty([
        ("namespace", asked.namespace.into()),
        ("verb", asked.verb.into()),
        ("group", asked.group.into()),
        ("version", asked.version.into()),
        ("resource", asked.resource.into()),
        ("subresource", asked.subresource.into()),
        ("name", asked.name.into()),
        ("fieldSelector", selector(asked.selectors.fields.iter().map(field_requirement))),
        ("labelSelector", selector(asked.selectors.labels.iter().filter_map(label_requirement))),
    ])
}

fn selector(requirements: impl Iterator<Item = Value>) -> Value {
    non_empty([("requirements", Value::List(requirements.collect()))])
}

fn field_requirement(requirement: &field::Requirement) -> Value {
    let operator = match requirement.operator {
        field::Operator::Equals => "In",
        field::Operator::NotEquals => "NotIn",
    };
    let values = [requirement.value.as_str().into()].into_iter().collect();
    non_empty([
        ("key", requirement.field.as_str().into()),
        ("operator", operator.into()),
        ("values", Value::List(values)),
    ])
}

/// Requirement in the review's form; `None` for operators it lacks, so that the review covers more than the request.
fn label_requirement(requirement: &label::Requirement) -> Option<Value> {
    use label::Operator::*;
    let operator = match requirement.operator() {
        Equals | DoubleEquals | In => "In",
        NotEquals | NotIn => "NotIn",
        Exists => "Exists",
        DoesNotExist => "DoesNotExist",
        GreaterThan | LessThan => return None,
    };
    let values = requirement.values().iter().map(|value| value.as_str().into()).collect();
    Some(non_empty([
        ("key", requirement.key().into()),
        ("operator", operator.into()),
        ("values", Value::List(values)),
    ]))
}

fn texts(texts: &[String]) -> Value {
    Value::List(texts.iter().map(|text| text.as_str().into()).collect())
}

fn non_empty<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Map::from_iter(fields.into_iter().filter(|(_, value)| !value.is_empty())).into()
}
