//! How others verify tokens of this server: OpenID Connect Discovery 1.0.

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use kevel_api::json_string::write_json_string;
use kevel_server::body::Body;
use kevel_server::delegate;
use kevel_server::endpoints::{bare, failure_to};
use kevel_server::handler::{Handler, Pending, Response};
use kevel_server::negotiate::not_acceptable;
use kevel_server::request::Request;

use crate::jose::PublicKey;

/// Where the issuer says what it does.
pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// Where its keys are.
pub const JWKS_PATH: &str = "/openid/v1/jwks";

/// How long the documents may be kept: keys are read once.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// One of the two documents.
#[derive(Clone, Debug)]
pub struct OpenIdMetadata {
    path: &'static str,
    content_type: &'static str,
    document: Bytes,
}

impl OpenIdMetadata {
    /// The two documents: what the issuer does, and its keys. An error if the issuer is none that
    /// OpenID Connect can have; then there are none.
    pub fn new(
        issuer: &str,
        jwks_uri: &str,
        keys: &[PublicKey],
    ) -> Result<[OpenIdMetadata; 2], String> {
        let https = issuer.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        if !https {
            return Err(format!("issuer URL must use https scheme, got: {issuer}"));
        }
        let (rest, fragment) = issuer.split_once('#').unwrap_or((issuer, ""));
        if rest.split_once('?').is_some_and(|(_, query)| !query.is_empty()) {
            return Err(format!("issuer URL may not include a query, got: {issuer}"));
        }
        if !fragment.is_empty() {
            return Err(format!("issuer URL may not include a fragment, got: {issuer}"));
        }
        if keys.is_empty() {
            return Err("no keys provided for validating keyset".to_owned());
        }
        let document = |path, content_type, document: Vec<u8>| OpenIdMetadata {
            path,
            content_type,
            document: document.into(),
        };
        let keyset: Vec<_> = keys.iter().map(PublicKey::to_jwk).collect();
        let keyset = format!(r#"{{"keys":[{}]}}"#, keyset.join(","));
        Ok([
            document(CONFIGURATION_PATH, "application/json", configuration(issuer, jwks_uri, keys)),
            document(JWKS_PATH, "application/jwk-set+json", keyset.into_bytes()),
        ])
    }
}

fn configuration(issuer: &str, jwks_uri: &str, keys: &[PublicKey]) -> Vec<u8> {
    let mut algorithms: Vec<_> = keys.iter().map(PublicKey::algorithm).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    let mut text = Vec::new();
    text.extend_from_slice(br#"{"issuer":"#);
    write_json_string(&mut text, issuer);
    text.extend_from_slice(br#","jwks_uri":"#);
    write_json_string(&mut text, jwks_uri);
    text.extend_from_slice(
        br#","response_types_supported":["id_token"],"subject_types_supported":["public"]"#,
    );
    let algorithms = algorithms.join(r#"",""#);
    let rest = format!(r#","id_token_signing_alg_values_supported":["{algorithms}"]}}"#);
    text.extend_from_slice(rest.as_bytes());
    text
}

impl OpenIdMetadata {
    fn serve(&self, request: &Request) -> Response {
        let path = request.parts.uri.path();
        if path.strip_suffix('/').unwrap_or(path) != self.path {
            return delegate::not_found(request);
        }
        if request.parts.method != Method::GET {
            return failure_to(request, bare(405));
        }
        let accepted = request.header(header::ACCEPT);
        let mut types = accepted.split(',').map(|one| one.split(';').next().unwrap_or("").trim());
        if !types.any(|one| matches!(one, "" | "*/*") || one == self.content_type) {
            return failure_to(request, not_acceptable(&[self.content_type]));
        }
        let mut response = http::Response::new(Body::from(self.document.clone()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CACHE_CONTROL, CACHE_CONTROL);
        response
    }
}

impl Handler for OpenIdMetadata {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        Box::pin(std::future::ready(self.serve(&request)))
    }
}
