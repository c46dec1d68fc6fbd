//! Locations of proxied requests.

use http::Uri;
use kevel_api::quote::quote;

use kevel_registry::query::escape_path;

/// URL of a backend. Its path is decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Host and port; a bare host means the port of the scheme.
    pub host: String,
    /// Path, decoded.
    pub path: String,
    /// Query, encoded.
    pub query: String,
}

impl Location {
    /// The URL to send the request to. The error is shown to the client.
    pub fn uri(&self) -> Result<Uri, String> {
        let invalid = |error: http::Error| format!("invalid location: {error}");
        // User information before an `@` is refused: it is not part of the host.
        if self.host.contains('@') {
            return Err(format!("invalid host {}", quote(&self.host)));
        }
        let path = match self.path.starts_with('/') {
            true => escape_path(&self.path),
            false => escape_path(&format!("/{}", self.path)),
        };
        let path = match self.query.as_str() {
            "" => path,
            query => format!("{path}?{query}"),
        };
        let uri = Uri::builder().scheme(self.scheme).authority(&*self.host).path_and_query(path);
        uri.build().map_err(invalid)
    }
}

/// Host and port, as Go's `net.JoinHostPort`.
pub fn join_host_port(host: &str, port: impl std::fmt::Display) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Joins paths like Go's `path.Join`: one slash between them, no `.`, and no `..` beyond the root. A trailing slash is
/// kept (upstream: `JoinPreservingTrailingSlash`).
pub fn join_preserving_trailing_slash(base: &str, path: &str) -> String {
    let joined = clean(&match (base, path) {
        ("", path) => path.to_owned(),
        (base, "") => base.to_owned(),
        (base, path) => format!("{base}/{path}"),
    });
    let last = if path.is_empty() { base } else { path };
    match last.ends_with('/') && !joined.ends_with('/') {
        true => joined + "/",
        false => joined,
    }
}

/// The shortest equivalent path, like Go's `path.Clean`; an empty path stays empty.
pub(super) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (path.is_empty(), rooted) {
        (true, _) => joined,
        (false, true) => format!("/{joined}"),
        (false, false) if joined.is_empty() => ".".to_owned(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_do_not_leave_a_path() {
        for (base, path, expected) in [
            ("", "", ""),
            ("", "/", "/"),
            ("", "/a/b/", "/a/b/"),
            ("", "/a//b", "/a/b"),
            ("", "/../../etc", "/etc"),
            ("/base", "/../../x/", "/x/"),
            ("/base/", "", "/base/"),
            ("", "/a/./b/..", "/a"),
        ] {
            assert_eq!(join_preserving_trailing_slash(base, path), expected, "{base} {path}");
        }
    }

    #[test]
    fn a_path_is_escaped_when_it_is_sent() {
        let location = |path: &str, query: &str| Location {
            scheme: "https",
            host: "[fd00::1]:10250".to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        };
        for (path, query, expected) in [
            ("/exec/a/b", "command=x+y", "https://[fd00::1]:10250/exec/a/b?command=x+y"),
            ("/a b?c\r\n", "", "https://[fd00::1]:10250/a%20b%3Fc%0D%0A"),
            ("", "", "https://[fd00::1]:10250/"),
        ] {
            assert_eq!(location(path, query).uri().unwrap().to_string(), expected);
        }
        for host in ["a b", "10.0.0.1:80@example.com", "a/b", ""] {
            let nowhere = Location { host: host.to_owned(), ..location("/", "") };
            assert!(nowhere.uri().is_err(), "{host}");
        }
    }
}
