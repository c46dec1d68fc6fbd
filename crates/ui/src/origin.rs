//! Refusal of requests that another page has made a browser send.

use http::header::{self, HeaderName};
use kevel_server::request::Request;

/// Header of the page's requests. Another origin's page cannot send it without asking first, which is never allowed.
pub(crate) const UI_HEADER: HeaderName = HeaderName::from_static("x-kevel-ui");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether the request can be of the page itself. Browsers say where a request comes from by `Sec-Fetch-Site` and, with
/// all but plain reads, by `Origin`; what says neither is no browser, or has the header that only the page can send.
pub(crate) fn is_own(request: &Request) -> bool {
    let headers = &request.parts.headers;
    let site = headers.get(FETCH_SITE);
    let origin = headers.get(header::ORIGIN);
    headers.contains_key(UI_HEADER)
        && site.is_none_or(|site| site == "same-origin")
        && origin.is_none_or(|origin| {
            let own = format!("https://{}", authority(request));
            origin.as_bytes().eq_ignore_ascii_case(own.as_bytes())
        })
}

/// Host and port that the client asks.
fn authority(request: &Request) -> &str {
    let authority = request.parts.uri.authority().map(http::uri::Authority::as_str);
    authority.unwrap_or_else(|| request.header(header::HOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use kevel_server::request::RequestBody;

    fn own(uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = http::Request::get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        let body = RequestBody::Bytes(bytes::Bytes::new());
        is_own(&Request::new(parts, body, Arc::default()).unwrap())
    }

    #[test]
    fn only_the_page_itself_acts_for_a_session() {
        let (ui, host) = (("x-kevel-ui", "1"), ("host", "a:6443"));
        for (headers, expected) in [
            (&[host][..], false),
            (&[ui, host], true),
            (&[ui, host, ("origin", "https://a:6443"), ("sec-fetch-site", "same-origin")], true),
            (&[host, ("origin", "https://a:6443"), ("sec-fetch-site", "same-origin")], false),
            (&[ui, host, ("sec-fetch-site", "same-site")], false),
            (&[ui, host, ("sec-fetch-site", "cross-site")], false),
            (&[ui, host, ("sec-fetch-site", "none")], false),
            (&[ui, host, ("origin", "http://a:6443")], false),
            (&[ui, host, ("origin", "https://a:8443")], false),
            (&[ui, host, ("origin", "https://b:6443")], false),
            (&[ui, host, ("origin", "null")], false),
            (&[ui, ("origin", "https://a:6443")], false),
        ] {
            assert_eq!(own("/ui/api/version", headers), expected, "{headers:?}");
        }
        let headers = [ui, ("origin", "https://a:6443"), ("host", "b")];
        assert!(own("https://a:6443/ui/session", &headers), "HTTP/2 names the authority");
        assert!(!own("https://b:6443/ui/session", &headers));
    }
}
