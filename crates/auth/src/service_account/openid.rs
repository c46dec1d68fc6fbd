//! Discovery documents for the verification of tokens (OpenID Connect Discovery 1.0).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, header};
use kevel_api::json_string::write_json_string;
use kevel_component::future::Pending;
use kevel_server::body::Body;
use kevel_server::handler::{Handler, Response};
use kevel_server::openapi::PlainDocument;
use kevel_server::request::Request;
use kevel_server::routes::Route;

use super::keys::Keys;
use crate::jose::PublicKey;

/// Path of the OpenID configuration.
pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// Path of the JSON Web Key Set.
pub const JWKS_PATH: &str = "/openid/v1/jwks";

/// OpenAPI declarations of both documents.
pub const OPEN_ID_DOCUMENTS: [PlainDocument; 2] = [
    PlainDocument {
        path: CONFIGURATION_PATH,
        operation: "ServiceAccountIssuerOpenIDConfiguration",
        media: "application/json",
        description: "Tells how tokens of service accounts are verified, as OpenID Connect Discovery has it.",
    },
    PlainDocument {
        path: JWKS_PATH,
        operation: "ServiceAccountIssuerOpenIDKeyset",
        media: "application/jwk-set+json",
        description: "Tells the public keys that tokens of service accounts are verified with.",
    },
];

/// Handler of one of the two documents.
#[derive(Clone, Debug)]
pub struct OpenIdMetadata {
    path: &'static str,
    content_type: &'static str,
    issuer: String,
    jwks_uri: String,
    keys: Keys,
    /// Renders the document, which changes with the keys.
    document: fn(&OpenIdMetadata, &[PublicKey]) -> Vec<u8>,
}

impl OpenIdMetadata {
    /// Makes the handlers of the configuration and the key set. An error if the issuer is not a valid OpenID Connect
    /// issuer; then neither is served.
    pub fn new(issuer: &str, jwks_uri: &str, keys: &Keys) -> Result<[OpenIdMetadata; 2], String> {
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
        if keys.shown().is_empty() {
            return Err("no keys provided for validating keyset".to_owned());
        }
        type Document = fn(&OpenIdMetadata, &[PublicKey]) -> Vec<u8>;
        let document = |path, content_type, document: Document| OpenIdMetadata {
            path,
            content_type,
            issuer: issuer.to_owned(),
            jwks_uri: jwks_uri.to_owned(),
            keys: keys.clone(),
            document,
        };
        Ok([
            document(CONFIGURATION_PATH, "application/json", |own, keys| {
                configuration(&own.issuer, &own.jwks_uri, keys)
            }),
            document(JWKS_PATH, "application/jwk-set+json", |_, keys| {
                let keys: Vec<_> = keys.iter().map(PublicKey::to_jwk).collect();
                format!(r#"{{"keys":[{}]}}"#, keys.join(",")).into_bytes()
            }),
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
    /// Route of the document.
    pub fn route(self) -> Route {
        let (path, produces) = (self.path, self.content_type);
        Route { path, consumes: None, produces, handler: Arc::new(self) }
    }

    fn serve(&self) -> Response {
        let document = (self.document)(self, &self.keys.shown());
        let mut response = http::Response::new(Body::from(Bytes::from(document)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        let keep = format!("public, max-age={}", self.keys.max_age().as_secs());
        if let Ok(keep) = HeaderValue::try_from(keep) {
            headers.insert(header::CACHE_CONTROL, keep);
        }
        response
    }
}

impl Handler for OpenIdMetadata {
    fn handle<'a>(&'a self, _: Request) -> Pending<'a, Response> {
        Box::pin(std::future::ready(self.serve()))
    }
}
