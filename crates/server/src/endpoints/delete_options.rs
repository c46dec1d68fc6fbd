//! DeleteOptions of a request, from its body or its query.

use bytes::Bytes;
use kevel_api::builtin;
use kevel_api::gvk::GroupVersion;
use kevel_api::quote::quote;
use kevel_api::schema::Schema;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json;

use super::StoredRequest;
use super::options::unsupported_dry_run;
use super::said_kind::SCHEME;
use crate::negotiate::{self, MediaType};
use kevel_registry::deletion::{DeleteOptions, IGNORE_READ_ERROR};
use kevel_registry::failure::unserved;
use kevel_registry::list_options::truthy;

/// Kind of a body with delete options.
const KIND: &str = "DeleteOptions";

impl StoredRequest<'_> {
    /// Decodes the DeleteOptions from the body, or from the query if there is no body.
    pub(super) async fn delete_options(&mut self) -> Result<DeleteOptions, StatusError> {
        let media = self.request.header(http::header::CONTENT_TYPE).to_owned();
        let body = self.request.read_body().await?;
        self.note_body(body.len());
        // With a body, the query is ignored.
        let mut options = if body.is_empty() {
            let said = |name| self.parameter(name).filter(|text| !text.is_empty());
            DeleteOptions {
                uid: said("uid").map(str::to_owned),
                resource_version: said("resourceVersion").map(str::to_owned),
                grace_period: self.number("gracePeriodSeconds")?,
                propagation: self.parameter("propagationPolicy").map(str::to_owned),
                orphan_dependents: self.parameter("orphanDependents").map(truthy),
                dry_run: self.parameters("dryRun").map(str::to_owned).collect(),
                ignore_read_error: self.parameter(IGNORE_READ_ERROR).is_some_and(truthy),
            }
        } else {
            let options = self.read_delete_options(&body, &media)?;
            self.span.event("Decoded delete options");
            self.span.event("Recorded the audit event");
            options
        };
        if options.grace_period.is_some_and(|seconds| seconds < 0) {
            options.grace_period = Some(1);
        }
        options.ignore_read_error &= self.storage.registry.unsafe_deletion;
        options.validate(unsupported_dry_run(&options.dry_run))?;
        Ok(options)
    }

    fn read_delete_options(&self, body: &Bytes, media: &str) -> Result<DeleteOptions, StatusError> {
        let media = negotiate::body(media, self.resource.conventions.cbor)?;
        let schema = builtin::schema("meta.k8s.io", "v1", KIND).ok_or_else(unserved)?;
        let value = match media {
            MediaType::Protobuf => {
                let envelope = kevel_codec::protobuf::decode_object(body).map_err(bad_request)?;
                check_kind(&envelope.api_version, &envelope.kind)?;
                envelope.decode(schema).map_err(bad_request)?
            }
            MediaType::Json => decode_json(body, schema)?,
            MediaType::Yaml => {
                let json = kevel_codec::yaml::to_json(body).map_err(bad_request)?;
                decode_json(&json.text, schema)?
            }
            MediaType::Cbor => {
                let meta = kevel_codec::cbor::type_meta(body).map_err(|error| {
                    bad_request(format!("unable to determine group/version/kind: {error}"))
                })?;
                check_kind(&meta.api_version, &meta.kind)?;
                let decoded = kevel_codec::cbor::decode(body, schema, json::Unknown::Ignore);
                decoded.map_err(bad_request)?.value
            }
        };
        self.request.audit.request_object(&value, schema);
        let text = |path: &[&str]| value.at(path).and_then(Value::as_str).map(str::to_owned);
        Ok(DeleteOptions {
            grace_period: value.at(&["gracePeriodSeconds"]).and_then(Value::as_int),
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            propagation: text(&["propagationPolicy"]),
            orphan_dependents: value.at(&["orphanDependents"]).and_then(Value::as_bool),
            dry_run: DeleteOptions::stages(&value),
            ignore_read_error: value.at(&[IGNORE_READ_ERROR]).and_then(Value::as_bool)
                == Some(true),
        })
    }
}

fn decode_json(text: &[u8], schema: Schema) -> Result<Value, StatusError> {
    let meta = json::type_meta(text).map_err(|error| {
        bad_request(format!("couldn't get version/kind; json parse error: {error}"))
    })?;
    check_kind(&meta.api_version, &meta.kind)?;
    let decoded = json::decode(text, schema, json::Unknown::Ignore).map_err(bad_request)?;
    Ok(decoded.value)
}

/// Refuses a body of another kind. Every group version registers DeleteOptions, so any or no `apiVersion` is accepted.
fn check_kind(version: &str, kind: &str) -> Result<(), StatusError> {
    let said = version.parse::<GroupVersion>().map_err(bad_request)?;
    if matches!(kind, "" | KIND) {
        return Ok(());
    }
    let said = if version.is_empty() { GroupVersion::new("meta.k8s.io", "v1") } else { said };
    if known(&said, kind) {
        let why = format!("converting (v1.{kind}) to (v1.{KIND}): unknown conversion");
        return Err(bad_request(why));
    }
    Err(bad_request(format!(
        "no kind {} is registered for version {} in scheme {}",
        quote(kind),
        quote(&said.to_string()),
        quote(SCHEME)
    )))
}

/// Whether the reference's decoder of delete options knows the kind: those of `meta.k8s.io` and the unversioned ones.
fn known(said: &GroupVersion, kind: &str) -> bool {
    const UNVERSIONED: [&str; 5] =
        ["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];
    const VERSIONED: [&str; 6] = [
        "CreateOptions",
        "PatchOptions",
        "UpdateOptions",
        "Table",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
    ];
    let versioned = said.group == "meta.k8s.io" && said.version == "v1";
    UNVERSIONED.contains(&kind) || versioned && VERSIONED.contains(&kind)
}

fn bad_request(why: impl std::fmt::Display) -> StatusError {
    StatusError::bad_request(why.to_string())
}
