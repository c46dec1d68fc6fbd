//! `Warning` headers.

use http::header::WARNING;
use http::{HeaderMap, HeaderValue};

use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;

/// Adds the `Warning` headers recorded during the request to the response (upstream: `WithWarningRecorder`).
#[derive(Debug)]
pub(super) struct WarningRecorder;

impl Filter for WarningRecorder {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let warnings = request.warnings.clone();
        let pending = next.handle(request);
        Box::pin(async move {
            let mut response = pending.await;
            add(response.headers_mut(), &warnings.take());
            response
        })
    }
}

fn add(headers: &mut HeaderMap, warnings: &[String]) {
    warnings.iter().filter_map(|warning| header(warning)).for_each(|header| {
        headers.append(WARNING, header);
    });
}

/// `299 - "text"`.
fn header(text: &str) -> Option<HeaderValue> {
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted() {
        let mut headers = HeaderMap::new();
        add(&mut headers, &[r#"a "b" \c"#, "über"].map(String::from));
        let all = headers.get_all(WARNING).iter();
        let all: Vec<_> = all.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        assert_eq!(all, [r#"299 - "a \"b\" \\c""#, r#"299 - "über""#]);
    }
}
