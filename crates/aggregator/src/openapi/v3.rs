//! Index of an extension server's OpenAPI v3 documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};

use super::downloads::Fetched;
use crate::api_service::ApiService;

/// Names below `/openapi/v3/`, with their URLs.
pub(crate) type V3Root = BTreeMap<String, String>;

/// `/openapi/v3`
#[derive(Debug)]
pub(crate) struct V3;

impl Fetched for V3 {
    type Document = V3Root;
    const NAME: &'static str = "open_api_v3_aggregation_controller";
    const PATH: &'static str = "/openapi/v3";

    fn headers(_kept: Option<&V3Root>) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))])
    }

    fn read(
        _service: &ApiService,
        answer: &Response<Bytes>,
        _kept: Option<&Arc<V3Root>>,
    ) -> Result<Option<Arc<V3Root>>, String> {
        match answer.status() {
            StatusCode::OK => {}
            // The server has no OpenAPI v3.
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err("could not get list of group versions for APIService".to_owned()),
        }
        let root = json::decode_any(answer.body(), Unknown::Ignore);
        let root = root.map_err(|error| error.to_string())?.value;
        let paths = root.at(&["paths"]).and_then(Value::as_map).ok_or("no paths")?;
        let url = |value: &Value| value.str_at(&["serverRelativeURL"]).to_owned();
        Ok(Some(Arc::new(
            paths.iter().map(|(name, value)| (name.to_owned(), url(value))).collect(),
        )))
    }
}
