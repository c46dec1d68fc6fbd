//! Aggregated discovery documents.

use http::{HeaderValue, StatusCode, header};
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_codec::json;
use ring::digest;

use super::{Forms, documents, encode, pretty, respond};
use crate::body::Body;
use crate::handler::Response;
use crate::metrics::AGGREGATIONS;
use crate::negotiate::MediaType;
use crate::request::Request;

/// The aggregated document of `/api` or `/apis`. Its ETag is computed from the content, not from the encoding, for
/// which `Vary` is set.
#[derive(Debug)]
pub(super) struct Aggregated {
    pub value: Value,
    tag: HeaderValue,
    forms: Forms,
}

const AGGREGATED_GROUP: &str = "apidiscovery.k8s.io";
const AGGREGATED_KIND: &str = "APIGroupDiscoveryList";

impl Aggregated {
    pub fn new(mut document: Map) -> Self {
        AGGREGATIONS.with(&[]).increment();
        let mut text = Vec::new();
        let schema = documents::schema(AGGREGATED_GROUP, "v2", AGGREGATED_KIND);
        json::encode(&Value::Map(document.clone()), schema, &mut text);
        let digest = digest::digest(&digest::SHA512, &text);
        let digits: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        let tag = HeaderValue::from_str(&format!("\"{digits}\""));
        document.insert("kind", AGGREGATED_KIND.into());
        document.insert("apiVersion", "apidiscovery.k8s.io/v2".into());
        Aggregated {
            value: Value::Map(document),
            tag: tag.unwrap_or(HeaderValue::from_static("\"\"")),
            forms: Forms::default(),
        }
    }

    pub fn answer(&self, media: MediaType, request: &Request) -> Result<Response, StatusError> {
        let mut response = if request.parts.headers.get(header::IF_NONE_MATCH) == Some(&self.tag) {
            let mut response = http::Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            let schema = documents::schema(AGGREGATED_GROUP, "v2", AGGREGATED_KIND);
            let body = self.forms.kept(media, || encode(&self.value, schema, media))?;
            respond(content_type(media), pretty(body, media, request))
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, self.tag.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
        Ok(response)
    }
}

fn content_type(media: MediaType) -> &'static str {
    match media {
        MediaType::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        MediaType::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        // Aggregated documents have no CBOR encoding.
        MediaType::Protobuf | MediaType::Cbor => {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
    }
}
