//! `AdmissionReview`: the request sent to webhooks, and the checks of the response.

use std::borrow::Cow;

use bytes::Bytes;
use kevel_api::builtin;
use kevel_api::gvk::{GroupVersionKind, Name};
use kevel_api::json_string::write_json_string;
use kevel_api::quote::quote;
use kevel_api::value::{Map, Value};
use kevel_codec::{base64, json, yaml};
use kevel_registry::admission::Attributes;
use kevel_registry::resource::{Resource, api_version};

use crate::scheme::SCHEME;

/// API group of AdmissionReview.
const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

/// A version of `admission.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// Responses are checked strictly.
    V1,
    /// Responses are not checked.
    V1beta1,
}

impl ReviewVersion {
    /// First version in the list that this server supports.
    pub(super) fn first_of(versions: &[Value]) -> Option<Self> {
        versions.iter().find_map(|version| match version.as_str()? {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1beta1),
            _ => None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1beta1 => "v1beta1",
        }
    }
}

/// Content of an AdmissionReview request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReviewRequest<'a> {
    pub uid: &'a str,
    pub attributes: &'a Attributes<'a>,
    /// Row that the webhook's rule matched.
    pub resource: &'a Resource,
    /// Object as JSON, in the version of `resource`.
    pub object: Option<&'a [u8]>,
    pub old: Option<&'a [u8]>,
}

impl ReviewRequest<'_> {
    /// AdmissionReview as JSON, with the fields in the order of the reference.
    pub fn encode(&self, version: ReviewVersion) -> Bytes {
        let size = |text: Option<&[u8]>| text.map_or(0, <[u8]>::len);
        let mut out = Vec::with_capacity(1024 + size(self.object) + size(self.old));
        let Attributes { resource: asked, subresource, .. } = *self.attributes;
        write(&mut out, r#"{"kind":"AdmissionReview","apiVersion":"#);
        write_json_string(&mut out, &api_version(GROUP, version.name()));
        write(&mut out, r#","request":{"uid":"#);
        write_json_string(&mut out, self.uid);
        write_kind(&mut out, "kind", self.resource.kind_of(subresource));
        write_resource(&mut out, "resource", self.resource);
        write_text(&mut out, "subResource", subresource);
        write_kind(&mut out, "requestKind", asked.kind_of(subresource));
        write_resource(&mut out, "requestResource", asked);
        write_text(&mut out, "requestSubResource", subresource);
        write_text(&mut out, "name", self.attributes.name);
        write_text(&mut out, "namespace", self.attributes.namespace);
        write_text(&mut out, "operation", self.attributes.operation.name());
        write_user(&mut out, self.attributes);
        write_object(&mut out, "object", self.object);
        write_object(&mut out, "oldObject", self.old);
        write(&mut out, r#","dryRun":"#);
        write(&mut out, if self.attributes.dry_run { "true" } else { "false" });
        write(&mut out, r#","options":"#);
        json::encode_any(&self.attributes.options.object().unwrap_or(Value::Null), &mut out);
        write(&mut out, "}}");
        out.into()
    }
}

fn write(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn write_name(out: &mut Vec<u8>, field: &str) {
    out.push(b',');
    write_json_string(out, field);
    out.push(b':');
}

/// Writes a field, unless it is empty.
fn write_text(out: &mut Vec<u8>, field: &str, text: &str) {
    if !text.is_empty() {
        write_name(out, field);
        write_json_string(out, text);
    }
}

fn write_names(out: &mut Vec<u8>, field: &str, names: [(&str, &str); 3]) {
    write_name(out, field);
    let mut begin = b'{';
    for (name, value) in names {
        out.push(std::mem::replace(&mut begin, b','));
        write_json_string(out, name);
        out.push(b':');
        write_json_string(out, value);
    }
    out.push(b'}');
}

fn write_kind(out: &mut Vec<u8>, field: &str, kind: &GroupVersionKind) {
    let GroupVersionKind { group, version, kind } = kind;
    write_names(out, field, [("group", group), ("version", version), ("kind", kind)]);
}

fn write_resource(out: &mut Vec<u8>, field: &str, resource: &Resource) {
    let GroupVersionKind { group, version, .. } = &resource.kind;
    let plural = resource.plural.as_str();
    write_names(out, field, [("group", group), ("version", version), ("resource", plural)]);
}

fn write_user(out: &mut Vec<u8>, attributes: &Attributes<'_>) {
    let user = attributes.user;
    let list = |texts: &[String]| Value::List(texts.iter().map(|t| t.as_str().into()).collect());
    write_name(out, "userInfo");
    out.push(b'{');
    let start = out.len();
    write_text(out, "username", &user.name);
    write_text(out, "uid", &user.uid);
    if !user.groups.is_empty() {
        write_name(out, "groups");
        json::encode_any(&list(&user.groups), out);
    }
    if !user.extra.is_empty() {
        write_name(out, "extra");
        let extra = user.extra.iter().map(|(key, values)| (key.as_str(), list(values)));
        json::encode_any(&Value::Map(Map::from_iter(extra)), out);
    }
    // Fields begin with a comma, the first one too.
    if out.len() > start {
        out.remove(start);
    }
    out.push(b'}');
}

fn write_object(out: &mut Vec<u8>, field: &str, object: Option<&[u8]>) {
    write_name(out, field);
    out.extend_from_slice(object.unwrap_or(b"null"));
}

/// Response of an AdmissionReview.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdmissionResponse {
    /// Whether the webhook allows the request.
    pub allowed: bool,
    /// JSON patch of a mutating webhook; empty for none.
    pub patch: Vec<u8>,
    /// `JSONPatch`, if there is a patch.
    pub patch_type: Name,
    /// `Status` of a denial.
    pub status: Option<Value>,
    /// Audit annotations.
    pub audit_annotations: Vec<(String, String)>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Reason why an AdmissionReview response is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewError {
    /// The body cannot be decoded.
    Decode(String),
    /// The response violates a rule (upstream: VerifyAdmissionResponse).
    Invalid(String),
}

/// Decodes and checks the response to a review. `mutating` says whether it may have a patch.
pub fn verify(
    body: &[u8],
    version: ReviewVersion,
    uid: &str,
    mutating: bool,
) -> Result<AdmissionResponse, ReviewError> {
    let review = read(body, version).map_err(ReviewError::Decode)?;
    let response = response(&review, version, uid).map_err(ReviewError::Invalid)?;
    let (patch, patch_type) = patch(response, version, mutating).map_err(ReviewError::Invalid)?;
    let strings = response.list_at(&["warnings"]).iter().filter_map(Value::as_str);
    let annotations = response.at(&["auditAnnotations"]).and_then(Value::as_map);
    let annotations = annotations.into_iter().flat_map(Map::iter);
    Ok(AdmissionResponse {
        allowed: response.at(&["allowed"]).and_then(Value::as_bool).unwrap_or(false),
        patch,
        patch_type,
        status: response.at(&["status"]).filter(|status| !status.is_null()).cloned(),
        audit_annotations: annotations
            .map(|(key, value)| (key.to_owned(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
        warnings: strings.map(str::to_owned).collect(),
    })
}

/// Decodes a body as AdmissionReview. `apiVersion` and `kind` may be missing, but must not be others.
fn read(body: &[u8], version: ReviewVersion) -> Result<Value, String> {
    let body = &*as_json(body);
    let meta = json::type_meta(body)
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    let own = api_version(GROUP, version.name());
    let (said, kind) = (&*meta.api_version, &*meta.kind);
    let other = (!said.is_empty() && said != own) || (!kind.is_empty() && kind != KIND);
    if other {
        let said = if said.is_empty() { &own } else { said };
        let kind = if kind.is_empty() { KIND } else { kind };
        let known = [ReviewVersion::V1, ReviewVersion::V1beta1];
        let known = kind == KIND && known.iter().any(|v| api_version(GROUP, v.name()) == said);
        let found = GroupVersionKind::from_api_version_and_kind(said, kind);
        return Err(match known {
            true => format!(
                "converting ({}.{KIND}) to ({}.{KIND}): unknown conversion",
                found.version,
                version.name()
            ),
            false => format!(
                "no kind {} is registered for version {} in scheme {}",
                quote(kind),
                quote(said),
                quote(SCHEME)
            ),
        });
    }
    let schema = builtin::schema(GROUP, version.name(), KIND).ok_or("no schema of reviews")?;
    let decoded = json::decode(body, schema, json::Unknown::Ignore);
    decoded.map(|decoded| decoded.value).map_err(|error| error.to_string())
}

/// Converts a YAML body to JSON.
fn as_json(body: &[u8]) -> Cow<'_, [u8]> {
    if !matches!(json::type_meta(body), Err(json::Error::Syntax(_))) {
        return body.into();
    }
    match yaml::decode_any(body, json::Unknown::Ignore) {
        Err(_) => body.into(),
        Ok(decoded) => {
            let mut text = Vec::new();
            json::encode_any(&decoded.value, &mut text);
            text.into()
        }
    }
}

/// `response` of a review, if its kind and UID fit the request.
fn response<'v>(review: &'v Value, version: ReviewVersion, uid: &str) -> Result<&'v Value, String> {
    let response = review.at(&["response"]).filter(|response| !response.is_null());
    let response = response.ok_or("webhook response was absent")?;
    if version == ReviewVersion::V1beta1 {
        return Ok(response);
    }
    let said = response.str_at(&["uid"]);
    if said != uid {
        return Err(format!("expected response.uid={}, got {}", quote(uid), quote(said)));
    }
    let expected = GroupVersionKind::from_static(GROUP, "v1", KIND);
    let (said, kind) = (review.str_at(&["apiVersion"]), review.str_at(&["kind"]));
    let found = GroupVersionKind::from_api_version_and_kind(said, kind);
    match found == expected {
        true => Ok(response),
        false => Err(format!("expected webhook response of {expected}, got {found}")),
    }
}

/// Patch and patch type of a response: both, or neither.
fn patch(
    response: &Value,
    version: ReviewVersion,
    mutating: bool,
) -> Result<(Vec<u8>, Name), String> {
    let mut patch = Vec::new();
    base64::decode_into(response.str_at(&["patch"]), &mut patch)
        .map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    let patch_type = response.at(&["patchType"]).and_then(Value::as_str);
    if version == ReviewVersion::V1beta1 {
        // v1beta1 does not check the patch type.
        let kept = mutating && !patch.is_empty();
        let patch_type = Name::const_new(if kept { "JSONPatch" } else { "" });
        return Ok((if kept { patch } else { Vec::new() }, patch_type));
    }
    Err(match (mutating, patch.is_empty(), patch_type) {
        (true, false, None) => "webhook returned response.patch but not response.patchType".into(),
        (true, true, Some(_)) => {
            "webhook returned response.patchType but not response.patch".to_owned()
        }
        (true, _, Some("")) => r#"webhook returned invalid response.patchType of """#.to_owned(),
        (false, false, _) => "validating webhook may not return response.patch".to_owned(),
        (false, true, Some(_)) => "validating webhook may not return response.patchType".to_owned(),
        (_, _, patch_type) => return Ok((patch, patch_type.unwrap_or_default().into())),
    })
}
