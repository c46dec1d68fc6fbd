//! `SubjectAccessReview`, `LocalSubjectAccessReview` and `SelfSubjectAccessReview`: authorization checks by API.

use std::sync::Arc;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::json_string::write_json_string;
use kevel_api::schema::Schema;
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_codec::json;
use kevel_component::future::Pending;
use kevel_registry::resource::{CreateRequest, Created, Creater};
use kevel_registry::selectors::NO_SELECTORS;
use kevel_registry::user::User;
use kevel_server::authorization::{Attributes, Authorizer, Decision};

use super::selectors;

/// Creater of `SubjectAccessReview`, `LocalSubjectAccessReview` or `SelfSubjectAccessReview`.
pub struct AccessReview {
    authorizer: Arc<dyn Authorizer>,
    kind: ReviewKind,
}

/// Kind of an access review.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReviewKind {
    /// SubjectAccessReview: any user.
    Subject,
    /// LocalSubjectAccessReview: any user, in the namespace of the request.
    Local,
    /// SelfSubjectAccessReview: the requesting user.
    Own,
}

impl std::fmt::Debug for AccessReview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessReview")
    }
}

impl AccessReview {
    /// `subjectaccessreviews`
    pub fn of_subject(authorizer: Arc<dyn Authorizer>) -> Self {
        AccessReview { authorizer, kind: ReviewKind::Subject }
    }

    /// `localsubjectaccessreviews`
    pub fn local(authorizer: Arc<dyn Authorizer>) -> Self {
        AccessReview { authorizer, kind: ReviewKind::Local }
    }

    /// `selfsubjectaccessreviews`
    pub fn of_oneself(authorizer: Arc<dyn Authorizer>) -> Self {
        AccessReview { authorizer, kind: ReviewKind::Own }
    }

    async fn review(
        &self,
        request: &CreateRequest<'_>,
        mut review: Value,
    ) -> Result<Created, StatusError> {
        let errors = check(self.kind, &review, request.resource.ty.schema());
        if !errors.is_empty() {
            // The reference validates its internal form of the object, which has no kind.
            let kind = GroupKind::new(request.resource.kind.group.clone(), "");
            return Err(StatusError::invalid(&kind, "", errors));
        }
        let status = self.judge(&review, request.user).await;
        if let Some(review) = review.as_map_mut() {
            review.insert("status", status);
        }
        Ok(Created::Object(review))
    }

    async fn judge(&self, review: &Value, own: &User) -> Value {
        let spec = review.at(&["spec"]).unwrap_or(&Value::Null);
        let subject = match self.kind {
            ReviewKind::Own => None,
            ReviewKind::Subject | ReviewKind::Local => Some(subject(spec)),
        };
        let user = subject.as_ref().unwrap_or(own);
        let attributes = match spec.at(&["resourceAttributes"]) {
            Some(resource) => resource_attributes(user, resource),
            None => non_resource_attributes(user, spec),
        };
        let selected = spec.at(&["resourceAttributes"]).map(selectors::read).unwrap_or_default();
        let attributes = Attributes { selectors: &selected.selectors, ..attributes };
        let opinion = self.authorizer.authorize(&attributes).await;
        let errors: Vec<String> = opinion.error.into_iter().chain(selected.errors()).collect();
        let fields = [
            ("allowed", Value::Bool(opinion.decision == Decision::Allow)),
            ("denied", Value::Bool(opinion.decision == Decision::Deny)),
            ("reason", opinion.reason.as_str().into()),
            ("evaluationError", errors.join("; ").as_str().into()),
        ];
        Map::from_iter(fields.into_iter().filter(|(_, value)| !value.is_empty())).into()
    }
}

impl Creater for AccessReview {
    fn create<'a>(
        &'a self,
        request: &'a CreateRequest<'a>,
        object: Value,
    ) -> Pending<'a, Result<Created, StatusError>> {
        Box::pin(self.review(request, object))
    }
}

/// User in a review's spec.
fn subject(spec: &Value) -> User {
    let extra = spec.at(&["extra"]).and_then(Value::as_map);
    let extra = extra.into_iter().flat_map(Map::iter);
    User {
        name: spec.str_at(&["user"]).to_owned(),
        uid: spec.str_at(&["uid"]).to_owned(),
        groups: selectors::strings(spec.at(&["groups"])),
        extra: extra.map(|(key, v)| (key.to_owned(), selectors::strings(Some(v)))).collect(),
    }
}

fn resource_attributes<'a>(user: &'a User, resource: &'a Value) -> Attributes<'a> {
    let text = |field| resource.str_at(&[field]);
    Attributes {
        user,
        verb: text("verb"),
        is_resource: true,
        path: "",
        group: text("group"),
        version: match text("version") {
            "" => "*",
            version => version,
        },
        namespace: text("namespace"),
        resource: text("resource"),
        subresource: text("subresource"),
        name: text("name"),
        selectors: &NO_SELECTORS,
    }
}

fn non_resource_attributes<'a>(user: &'a User, spec: &'a Value) -> Attributes<'a> {
    Attributes {
        user,
        verb: spec.str_at(&["nonResourceAttributes", "verb"]),
        is_resource: false,
        path: spec.str_at(&["nonResourceAttributes", "path"]),
        group: "",
        version: "",
        namespace: "",
        resource: "",
        subresource: "",
        name: "",
        selectors: &NO_SELECTORS,
    }
}

/// Errors of a review, in the reference's order.
fn check(kind: ReviewKind, review: &Value, schema: Schema<'_>) -> Vec<FieldError> {
    let none = Value::Null;
    let spec = review.at(&["spec"]).unwrap_or(&none);
    let (on_resource, on_path) = (spec.at(&["resourceAttributes"]), non_resource(spec));
    let path = Path::new("spec");
    let mut errors = Vec::new();
    match (on_resource, on_path) {
        (Some(_), Some(on_path)) => errors.push(FieldError::invalid(
            &path.child("nonResourceAttributes"),
            go_struct(on_path),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(FieldError::invalid(
            &path.child("resourceAttributes"),
            BadValue::Text("null".to_owned()),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let unnamed = spec.str_at(&["user"]).is_empty() && spec.at(&["groups"]).is_none_or(is_empty);
    if kind != ReviewKind::Own && unnamed {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&path.child("user"), "", detail));
    }
    errors.extend(on_resource.into_iter().flat_map(selectors::check));
    errors.extend(metadata_error(kind, review, schema));
    if kind == ReviewKind::Local {
        let namespace = on_resource.map(|resource| resource.str_at(&["namespace"]));
        if let Some(namespace) = namespace
            && namespace != review.str_at(&["metadata", "namespace"])
        {
            let path = Path::new("spec.resourceAttributes.namespace");
            errors.push(FieldError::invalid(&path, namespace, "must match metadata.namespace"));
        }
        if let Some(on_path) = on_path {
            let path = Path::new("spec.nonResourceAttributes");
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid(&path, go_struct(on_path), detail));
        }
    }
    errors
}

fn non_resource(spec: &Value) -> Option<&Value> {
    spec.at(&["nonResourceAttributes"])
}

fn is_empty(value: &Value) -> bool {
    value.is_empty()
}

fn metadata_error(kind: ReviewKind, review: &Value, schema: Schema<'_>) -> Option<FieldError> {
    let metadata = review.at(&["metadata"])?;
    let (allowed, detail): (&[&str], _) = match kind {
        ReviewKind::Local => {
            (&["managedFields", "namespace"], "must be empty except for namespace")
        }
        ReviewKind::Subject | ReviewKind::Own => (&["managedFields"], "must be empty"),
    };
    let more = metadata.as_map()?.iter().any(|(k, v)| !allowed.contains(&k) && !v.is_empty());
    let shown = || {
        let mut shown = Vec::new();
        json::encode(metadata, schema.field("metadata")?.schema(), &mut shown);
        String::from_utf8(shown).ok()
    };
    more.then(|| {
        let shown = BadValue::Text(shown().unwrap_or_default());
        FieldError::invalid(&Path::new("metadata"), shown, detail)
    })
}

/// Path and verb as the reference prints its internal struct.
fn go_struct(on_path: &Value) -> BadValue {
    let mut out = Vec::new();
    for (begin, field) in [(r#"{"Path":"#, "path"), (r#","Verb":"#, "verb")] {
        out.extend_from_slice(begin.as_bytes());
        write_json_string(&mut out, on_path.str_at(&[field]));
    }
    out.push(b'}');
    BadValue::Text(String::from_utf8_lossy(&out).into_owned())
}
