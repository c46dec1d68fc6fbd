//! Rewriting of links in responses of backends, which do not know their public URL.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Uri, header, response};
use kevel_api::status::StatusError;

use super::html::{Coded, Html};
use super::location::clean;
use crate::body::{Body, Broken, Piece, Pieces};
use kevel_registry::query::escape_path;

/// Rewrites links to the backend so that they lead through the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rewriter {
    /// Prefix of the backend's paths at this server, encoded.
    prepend: String,
    /// Host of the backend.
    server: String,
    /// Host of this server as the client named it.
    host: String,
}

impl Rewriter {
    /// A rewriter for a request to the path `asked` of this server, of which `below` is the backend's part; `host` is
    /// this server as the client named it.
    pub fn new(asked: &str, below: &str, uri: &Uri, host: &str) -> Self {
        let slash = asked.ends_with('/') && !below.ends_with('/');
        let suffix = format!("{below}{}", if slash { "/" } else { "" });
        let prepend = escape_path(asked.strip_suffix(&*suffix).unwrap_or(asked));
        let server = uri.authority().map_or("", |authority| authority.as_str());
        Rewriter { prepend, server: server.to_owned(), host: host.to_owned() }
    }

    /// Public URI of a path of the backend.
    pub fn forwarded_uri(&self, path: &str) -> String {
        self.below_prepend(path)
    }

    /// Rewrites the links in a response's head and body.
    pub fn answer(self, parts: &mut response::Parts, body: Body) -> Result<Body, StatusError> {
        if let Some(to) = parts.headers.get(header::LOCATION).filter(|to| !to.is_empty()) {
            let invalid = |error: &dyn std::fmt::Display| {
                StatusError::internal(format!("error trying to parse Location header: {error}"))
            };
            let to = to.to_str().map_err(|error| invalid(&error))?;
            if let Some(to) = self.rewrite(to) {
                let to = HeaderValue::from_str(&to).map_err(|error| invalid(&error))?;
                parts.headers.insert(header::LOCATION, to);
            }
            return Ok(body);
        }
        let text =
            |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let media = text(header::CONTENT_TYPE).unwrap_or_default();
        if media.split(';').next().unwrap_or_default().trim() != "text/html" {
            return Ok(body);
        }
        let encoding = text(header::CONTENT_ENCODING).unwrap_or_default();
        let Some(coded) = Coded::new(encoding) else {
            tracing::error!(encoding, "Proxy encountered unknown encoding for text/html");
            return Ok(body);
        };
        parts.headers.remove(header::CONTENT_LENGTH);
        let html = Html::new(Box::new(move |url| self.rewrite(url)));
        let rewritten = Rewritten { body, input: Bytes::new(), html: Some((html, coded)) };
        Ok(Body::pieces(rewritten))
    }

    /// A link that leads through the proxy; `None` if it stays unchanged.
    fn rewrite(&self, url: &str) -> Option<String> {
        let url = Url::parse(url);
        let other = !url.host.is_empty() && url.host != self.server && url.host != self.host;
        if other || !url.path.starts_with('/') {
            return None;
        }
        let front = match url.host == self.host {
            true => url.front,
            false => "",
        };
        let path = match url.path.starts_with(&self.prepend) {
            true => url.path.to_owned(),
            false => self.below_prepend(url.path),
        };
        Some(format!("{front}{path}{}", url.rest))
    }

    fn below_prepend(&self, path: &str) -> String {
        let joined = clean(&format!("{}/{path}", self.prepend));
        match path.ends_with('/') && !joined.ends_with('/') {
            true => joined + "/",
            false => joined,
        }
    }
}

/// Parts of a link.
struct Url<'u> {
    /// Scheme and host, as written.
    front: &'u str,
    host: &'u str,
    path: &'u str,
    /// Query and fragment, with their separators.
    rest: &'u str,
}

impl<'u> Url<'u> {
    fn parse(url: &'u str) -> Self {
        let after_scheme = match url.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => rest,
            _ => url,
        };
        let (front, host, rest) = match after_scheme.strip_prefix("//") {
            None => (&url[..url.len() - after_scheme.len()], "", after_scheme),
            Some(authority) => {
                let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
                let (host, rest) = authority.split_at(end);
                (&url[..url.len() - rest.len()], host, rest)
            }
        };
        let (path, rest) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        // User information is not part of the host.
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        Url { front, host, path, rest }
    }
}

fn is_scheme(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Bytes of a piece taken at a time: decompressed, they may be a thousand times as many.
const INPUT: usize = 1 << 10;
/// Output bytes collected before a piece is sent.
const OUTPUT: usize = 16 << 10;

/// A streamed page with its links rewritten.
struct Rewritten {
    body: Body,
    /// Remainder of the last piece.
    input: Bytes,
    /// `None` at the end of the page.
    html: Option<(Html, Coded)>,
}

impl Pieces for Rewritten {
    fn poll_piece(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let this = self.get_mut();
        let wrong = |_| Broken("a page could not be rewritten");
        loop {
            let Some((html, coded)) = &mut this.html else { return Poll::Ready(None) };
            while !this.input.is_empty() {
                let input = this.input.split_to(this.input.len().min(INPUT));
                coded.push(&input, html).map_err(wrong)?;
                if coded.made() >= OUTPUT {
                    return Poll::Ready(Some(Ok(coded.take())));
                }
            }
            match this.body.poll_piece(context) {
                Poll::Ready(Some(piece)) => this.input = piece?,
                Poll::Ready(None) => {
                    let last = coded.finish(html).map_err(wrong)?;
                    this.html = None;
                    return Poll::Ready(Some(Ok(last)));
                }
                Poll::Pending if coded.made() > 0 => {
                    return Poll::Ready(Some(Ok(coded.take())));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn trailers(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Option<HeaderMap> {
        self.body.trailers(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewriter(host: &str) -> Rewriter {
        let uri = "http://10.0.0.1:80/a/b".parse().unwrap();
        Rewriter::new("/api/v1/namespaces/n/pods/p/proxy/a/b", "/a/b", &uri, host)
    }

    #[test]
    fn links_lead_through_the_proxy() {
        let prefix = "/api/v1/namespaces/n/pods/p/proxy";
        for (url, expected) in [
            ("/x/", Some(format!("{prefix}/x/"))),
            ("/", Some(format!("{prefix}/"))),
            ("/x?y=/z#w", Some(format!("{prefix}/x?y=/z#w"))),
            ("http://10.0.0.1:80/x", Some(format!("{prefix}/x"))),
            ("//10.0.0.1:80/x", Some(format!("{prefix}/x"))),
            ("http://localhost:8001/x", Some(format!("http://localhost:8001{prefix}/x"))),
            ("http://a@localhost:8001/x", Some(format!("http://a@localhost:8001{prefix}/x"))),
            (&format!("{prefix}/x"), Some(format!("{prefix}/x"))),
            ("http://example.com/x", None),
            ("//example.com/x", None),
            ("x/y", None),
            ("", None),
            ("mailto:a@b", None),
            ("#top", None),
        ] {
            assert_eq!(rewriter("localhost:8001").rewrite(url), expected, "{url}");
        }
        assert_eq!(rewriter("h").forwarded_uri("/a/b"), format!("{prefix}/a/b"));
    }

    #[test]
    fn a_root_has_all_before_it() {
        let uri = "http://10.0.0.1/".parse().unwrap();
        let rewriter = Rewriter::new("/api/v1/nodes/n/proxy/", "/", &uri, "h");
        assert_eq!(rewriter.forwarded_uri("/"), "/api/v1/nodes/n/proxy/");
        assert_eq!(rewriter.rewrite("/x").as_deref(), Some("/api/v1/nodes/n/proxy/x"));
    }
}
