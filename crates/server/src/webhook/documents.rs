//! Documents on servers outside, wherever these say that they have moved to.

use std::time::Duration;

use bytes::Bytes;
use http::uri::{Parts, PathAndQuery, Scheme, Uri};
use http::{HeaderValue, Request, Response, header};
use http_body_util::Full;
use kevel_clock::timer_now;
use kevel_kubeconfig::bearer;

use super::client::{Connections, JSON, MAX_ANSWER, USER_AGENT, connections, exchange};
use super::endpoint::Endpoint;
use super::error::Error;
use crate::egress::Dialer;

/// Most redirects of a document.
pub(super) const MAX_REDIRECTS: usize = 10;

/// Gets documents of any server that an authority vouches for. What a document says is believed
/// because of who shows it: nothing is read without TLS.
pub struct Documents(Connections);

impl std::fmt::Debug for Documents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Documents")
    }
}

impl Documents {
    /// Believes servers that one of these authorities (PEM) vouches for, or one of the system's, and reaches them
    /// by a dialer.
    pub fn new(ca: Option<Vec<u8>>, dialer: Dialer) -> Result<Self, String> {
        let endpoint = Endpoint { ca, dialer, ..Endpoint::default() };
        connections(&endpoint).map(Documents)
    }

    /// Gets a document. A token is shown to the server that the URL names, and to those below it.
    pub async fn get(
        &self,
        url: &str,
        token: Option<&str>,
        timeout: Duration,
    ) -> Result<Response<Bytes>, Error> {
        let (asked, deadline) = (&format!("Get \"{url}\""), timer_now() + timeout);
        let invalid = |reason: &str| Error::Connection {
            request: asked.clone(),
            reason: reason.into(),
            lost: false,
        };
        let mut uri = read(url).map_err(invalid)?;
        let first = uri.host().unwrap_or_default().to_owned();
        let token = token.map(|token| bearer(token.as_bytes()));
        let mut token = token.transpose().map_err(|error| invalid(&error.to_string()))?;
        for _ in 0..=MAX_REDIRECTS {
            let answer =
                exchange(&self.0, request(&uri, token.clone()), asked, deadline, MAX_ANSWER);
            let answer = answer.await?;
            let Some(location) = moved(&answer) else { return Ok(answer) };
            uri = resolve(&uri, location).map_err(invalid)?;
            // Once dropped it stays so: the next address was named by a server that does not get it.
            if !is_below(uri.host().unwrap_or_default(), &first) {
                token = None;
            }
        }
        Err(invalid("stopped after 10 redirects"))
    }
}

fn request(uri: &Uri, token: Option<HeaderValue>) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    request.uri_mut().clone_from(uri);
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, JSON);
    headers.insert(header::USER_AGENT, USER_AGENT);
    if let Some(token) = token {
        headers.insert(header::AUTHORIZATION, token);
    }
    request
}

/// New location of a document that has moved.
pub(super) fn moved(answer: &Response<Bytes>) -> Option<&str> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    answer.headers().get(header::LOCATION)?.to_str().ok()
}

/// A URL that documents may be read from.
fn read(url: &str) -> Result<Uri, &'static str> {
    let url = url.split('#').next().unwrap_or_default();
    let uri: Uri = url.parse().map_err(|_| "invalid URL")?;
    match (uri.scheme(), uri.authority()) {
        (Some(scheme), _) if *scheme != Scheme::HTTPS => Err("URL scheme must be https"),
        (Some(_), Some(authority)) if !authority.as_str().contains('@') => Ok(uri),
        _ => Err("invalid URL"),
    }
}

/// Resolves a URI reference against a base (RFC 3986, section 5.2).
pub(super) fn resolve(base: &Uri, reference: &str) -> Result<Uri, &'static str> {
    let reference = reference.split('#').next().unwrap_or_default();
    if reference.contains("://") && !reference.starts_with(['/', '?']) {
        return read(reference);
    }
    if reference.starts_with("//") {
        return read(&format!("https:{reference}"));
    }
    let (path, query) = reference.split_once('?').map_or((reference, None), |(p, q)| (p, Some(q)));
    let merged = match path {
        "" => base.path().to_owned(),
        path if path.starts_with('/') => without_dots(path),
        path => {
            let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            without_dots(&format!("{folder}/{path}"))
        }
    };
    let query = query.or_else(|| base.query().filter(|_| path.is_empty()));
    let target = query.map_or(merged.clone(), |query| format!("{merged}?{query}"));
    let mut parts = Parts::from(base.clone());
    parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| "invalid URL")?);
    Uri::from_parts(parts).map_err(|_| "invalid URL")
}

fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

fn is_below(host: &str, parent: &str) -> bool {
    host.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_where_they_stand() {
        let base: Uri = "https://a.b:1/c/d?e=f".parse().unwrap();
        for (reference, expected) in [
            ("https://g/h?i", Ok("https://g/h?i")),
            ("//g/h", Ok("https://g/h")),
            ("/g/./h/../i", Ok("https://a.b:1/g/i")),
            ("g", Ok("https://a.b:1/c/g")),
            ("../../g?h#i", Ok("https://a.b:1/g?h")),
            ("..", Ok("https://a.b:1/")),
            ("?g", Ok("https://a.b:1/c/d?g")),
            ("", Ok("https://a.b:1/c/d?e=f")),
            ("?u=http://x", Ok("https://a.b:1/c/d?u=http://x")),
            ("http://g/h", Err("URL scheme must be https")),
            ("file:///etc/passwd", Err("invalid URL")),
            ("https://me:secret@g/", Err("invalid URL")),
        ] {
            let resolved = resolve(&base, reference).map(|uri| uri.to_string());
            assert_eq!(resolved.as_deref().map_err(|error| *error), expected, "{reference}");
        }
    }

    #[test]
    fn a_token_is_for_a_server_and_those_below_it() {
        for (host, expected) in
            [("a.b", true), ("c.a.b", true), ("ca.b", false), ("b", false), ("a.b.c", false)]
        {
            assert_eq!(is_below(host, "a.b"), expected, "{host}");
        }
    }
}
