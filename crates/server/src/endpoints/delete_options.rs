//! How a deletion is wanted: a body, or the query.

use bytes::Bytes;
use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::StoredRequest;
use super::options::{FieldValidation, unsupported_dry_run};
use crate::deletion::DeleteOptions;
use crate::failure::unserved;
use crate::list_options::truthy;
use crate::negotiate::{self, MediaType};
use crate::type_ref::TypeRef;

impl StoredRequest<'_> {
    /// The options of a deletion: a body, or else the query.
    pub(super) async fn delete_options(&mut self) -> Result<DeleteOptions, StatusError> {
        let media = self.request.header(http::header::CONTENT_TYPE).to_owned();
        let body = self.request.read_body().await?;
        // A body says it all: the query does not count beside it.
        let mut options = if body.is_empty() {
            DeleteOptions {
                grace_period: self.number("gracePeriodSeconds")?,
                propagation: self.parameter("propagationPolicy").map(str::to_owned),
                orphan_dependents: self.parameter("orphanDependents").map(truthy),
                dry_run: self.parameters("dryRun").map(str::to_owned).collect(),
                ..DeleteOptions::default()
            }
        } else {
            self.read_delete_options(&body, &media)?
        };
        if options.grace_period.is_some_and(|seconds| seconds < 0) {
            options.grace_period = Some(1);
        }
        options.validate(unsupported_dry_run(&options.dry_run))?;
        Ok(options)
    }

    fn read_delete_options(&self, body: &Bytes, media: &str) -> Result<DeleteOptions, StatusError> {
        let media = if media.is_empty() { MediaType::Json } else { negotiate::body(media)? };
        let schema = builtin::schema("meta.k8s.io", "v1", "DeleteOptions").ok_or_else(unserved)?;
        // Every group has the kind; the body may name it by any of them, or by none.
        let kind = GroupVersionKind::new("", "", "");
        let ty = TypeRef::BuiltIn(schema);
        let value = match media {
            MediaType::Protobuf => {
                let envelope = kevel_codec::protobuf::decode_object(body)
                    .map_err(|error| StatusError::bad_request(error.to_string()))?;
                let decoded = envelope.decode(schema);
                decoded.map_err(|error| StatusError::bad_request(error.to_string()))?
            }
            MediaType::Json => {
                let decoded =
                    kevel_codec::json::decode(body, schema, kevel_codec::json::Unknown::Ignore);
                decoded.map_err(|error| StatusError::bad_request(error.to_string()))?.value
            }
            MediaType::Yaml => self.decode(body, media, &kind, &ty, FieldValidation::Ignore)?,
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
        })
    }
}
