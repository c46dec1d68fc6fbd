//! `/debug/flags`: flags that can be changed while the server runs. There is one, the level of the log: `v`.

use http::{HeaderValue, Method, StatusCode, header};
use kevel_component::future::Pending;
use kevel_server::body::Body;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::Request;

use crate::logging;

/// Takes a number by PUT.
#[derive(Debug)]
pub struct Verbosity;

impl Handler for Verbosity {
    fn handle<'a>(&'a self, mut request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            if request.parts.method != Method::PUT {
                return text(StatusCode::NOT_ACCEPTABLE, "unsupported http method".to_owned());
            }
            let body = match request.read_body().await {
                Ok(body) => body,
                Err(error) => {
                    let message = format!("error reading request body: {error}");
                    return text(StatusCode::BAD_REQUEST, message);
                }
            };
            let asked = String::from_utf8_lossy(&body);
            match asked.parse() {
                Ok(level) => {
                    logging::set_verbosity(level);
                    let done = format!("successfully set klog.logging.verbosity to {asked}");
                    text(StatusCode::OK, done)
                }
                Err(_) => {
                    let quoted = kevel_api::quote::quote(&asked);
                    let message = format!("strconv.ParseUint: parsing {quoted}: invalid syntax");
                    text(StatusCode::BAD_REQUEST, message)
                }
            }
        })
    }
}

/// Lists the flags there are, at its path and wherever below it there is none.
#[derive(Debug)]
pub struct FlagIndex;

impl Handler for FlagIndex {
    fn handle<'a>(&'a self, _: Request) -> Pending<'a, Response> {
        let page = "<html><title>/debug/flags/</title><body>flags:<br>v<br></body></html>\n";
        let mut response = Response::new(Body::from(page));
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, html);
        Box::pin(std::future::ready(response))
    }
}

fn text(status: StatusCode, mut text: String) -> Response {
    text.push('\n');
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
