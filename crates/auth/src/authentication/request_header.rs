//! Authentication by the headers of a front proxy (`--requestheader-*`).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use kevel_component::future::Pending;
use kevel_registry::query::unescape;
use kevel_registry::user::{ExtraBuilder, User};
use kevel_server::authentication::{AuthError, Authenticated, Authenticator};
use kevel_server::certificates::ClientIdentity;
use kevel_server::request::Request;

/// Names of the headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaders {
    /// User name headers; the first one present counts.
    pub username: Vec<String>,
    /// UID headers; the first one present counts.
    pub uid: Vec<String>,
    /// Group headers; all values of all of them count.
    pub group: Vec<String>,
    /// Prefixes of extra headers; the rest of the header's name is the key.
    pub extra_prefix: Vec<String>,
}

impl RequestHeaders {
    /// User in the headers; an error if a value is not readable text.
    fn user(&self, headers: &HeaderMap) -> Result<Option<User>, AuthError> {
        let first = |names: &[String]| -> Result<String, AuthError> {
            let mut values = names.iter().filter_map(|name| headers.get(name));
            values.find(|value| !value.is_empty()).map_or(Ok(String::new()), text)
        };
        let name = first(&self.username)?;
        if name.is_empty() {
            return Ok(None);
        }
        let groups = self.group.iter().flat_map(|name| headers.get_all(name));
        let groups = groups.filter(|group| !group.is_empty()).map(text);
        Ok(Some(User {
            name,
            uid: first(&self.uid)?,
            groups: groups.collect::<Result<_, _>>()?,
            extra: self.extra(headers)?,
        }))
    }

    fn extra(&self, headers: &HeaderMap) -> Result<Vec<(String, Vec<String>)>, AuthError> {
        let mut extra = ExtraBuilder::default();
        for prefix in &self.extra_prefix {
            for name in headers.keys() {
                let Some(key) = after(name.as_str(), prefix) else { continue };
                // A key that is not well-formed is not unescaped.
                let key = unescape(key, false).unwrap_or_else(|| key.to_owned());
                let values = headers.get_all(name).iter().map(text);
                extra.add(key, values.collect::<Result<Vec<_>, _>>()?);
            }
        }
        let mut extra = extra.build();
        extra.sort();
        Ok(extra)
    }

    /// Removes the headers, so that later handlers cannot use them.
    fn forget(&self, headers: &mut HeaderMap) {
        for name in [&self.username, &self.uid, &self.group].into_iter().flatten() {
            headers.remove(name);
        }
        let is_extra = |name: &str| self.extra_prefix.iter().any(|p| after(name, p).is_some());
        let extra: Vec<_> =
            headers.keys().filter(|name| is_extra(name.as_str())).cloned().collect();
        for name in extra {
            headers.remove(name);
        }
    }
}

type Verify = dyn Fn(&[Bytes]) -> Result<Arc<ClientIdentity>, String> + Send + Sync;

/// Authenticator of users in the headers of a client with a front proxy's certificate.
pub struct RequestHeader {
    headers: RequestHeaders,
    /// Common names of front proxies (`--requestheader-allowed-names`); empty for any.
    allowed_names: Vec<String>,
    verify: Box<Verify>,
}

impl std::fmt::Debug for RequestHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestHeader").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl RequestHeader {
    /// Makes the authenticator. `verify` checks the client's certificate chain, leaf first, against the CAs of front
    /// proxies only.
    pub fn new(
        headers: RequestHeaders,
        allowed_names: &[String],
        verify: impl Fn(&[Bytes]) -> Result<Arc<ClientIdentity>, String> + Send + Sync + 'static,
    ) -> Self {
        let verify = Box::new(verify);
        RequestHeader { headers, allowed_names: allowed_names.to_vec(), verify }
    }

    fn user_of(&self, request: &mut Request) -> Authenticated {
        let certificates = &request.connection.certificates;
        if certificates.is_empty() {
            return Ok(None);
        }
        let proxy = (self.verify)(certificates).map_err(AuthError)?;
        let name = &proxy.common_name;
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(name) {
            let error = format!("x509: subject with cn={name} is not in the allowed list");
            return Err(AuthError(error));
        }
        let user = self.headers.user(&request.parts.headers)?;
        if user.is_some() {
            self.headers.forget(&mut request.parts.headers);
        }
        Ok(user.map(Arc::new))
    }
}

impl Authenticator for RequestHeader {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        let found = self.user_of(request);
        Box::pin(std::future::ready(found))
    }
}

/// Authenticator that removes the front proxy headers from every request.
#[derive(Debug)]
pub struct RemoveUserHeaders<A> {
    /// Inner authenticator.
    pub inner: A,
    /// Headers to remove afterwards.
    pub headers: RequestHeaders,
}

impl<A: Authenticator> Authenticator for RemoveUserHeaders<A> {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        Box::pin(async move {
            let found = self.inner.authenticate(request).await;
            self.headers.forget(&mut request.parts.headers);
            found
        })
    }
}

/// Rest of a name after a prefix, case-insensitive.
fn after<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = name.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn text(value: &HeaderValue) -> Result<String, AuthError> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|error| AuthError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use kevel_server::request::{Connection, RequestBody};

    use super::*;

    fn headers() -> RequestHeaders {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        RequestHeaders {
            username: names(&["X-Remote-User", "X-Other-User"]),
            uid: names(&["X-Remote-Uid"]),
            group: names(&["X-Remote-Group"]),
            extra_prefix: names(&["X-Remote-Extra-"]),
        }
    }

    fn request(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        map
    }

    #[test]
    fn headers_name_a_user() {
        let mut sent = request(&[
            ("x-other-user", "jane"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", ""),
            ("x-remote-group", "b"),
            ("x-remote-extra-scopes", "one"),
            ("x-remote-extra-scopes", "two"),
            ("x-remote-extra-acme.com%2fproject", "p"),
            ("x-remote-extra-bad%zz", "q"),
            ("accept", "*/*"),
        ]);
        let user = headers().user(&sent).unwrap().unwrap();
        let extra = |key: &str, values: &[&str]| {
            (key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
        };
        let expected = User {
            name: "jane".to_owned(),
            uid: "7".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: vec![
                extra("acme.com/project", &["p"]),
                extra("bad%zz", &["q"]),
                extra("scopes", &["one", "two"]),
            ],
        };
        assert_eq!(user, expected);
        headers().forget(&mut sent);
        assert_eq!(sent.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["accept"]);
    }

    /// Later handlers must not see what named the user; what named no user may be meant for them.
    #[tokio::test]
    async fn headers_that_name_a_user_go_no_further() {
        let proxy = |_: &[Bytes]| {
            let (common_name, none) = ("proxy".to_owned(), String::new);
            let (uid, credential_id) = (none(), none());
            Ok(Arc::new(ClientIdentity {
                common_name,
                organizations: Vec::new(),
                uid,
                credential_id,
            }))
        };
        let authenticator = RequestHeader::new(headers(), &[], proxy);
        let all = "accept x-remote-extra-scopes x-remote-group x-remote-uid x-remote-user";
        for (certificates, name, user, left) in
            [(1, "jane", Some("jane"), "accept"), (1, "", None, all), (0, "jane", None, all)]
        {
            let sent = http::Request::builder()
                .uri("/api")
                .header("x-remote-user", name)
                .header("x-remote-uid", "7")
                .header("x-remote-group", "system:masters")
                .header("x-remote-extra-scopes", "all")
                .header("accept", "*/*");
            let connection = Connection {
                certificates: vec![Bytes::from_static(b"der"); certificates],
                ..Connection::default()
            };
            let (parts, ()) = sent.body(()).unwrap().into_parts();
            let body = RequestBody::Bytes(Bytes::new());
            let mut request = Request::new(parts, body, Arc::new(connection)).unwrap();
            let found = authenticator.authenticate(&mut request).await.unwrap();
            assert_eq!(found.as_ref().map(|user| &*user.name), user, "{certificates} {name}");
            let mut kept: Vec<_> = request.parts.headers.keys().map(|name| name.as_str()).collect();
            kept.sort_unstable();
            assert_eq!(kept.join(" "), left, "{certificates} {name}");
        }
    }

    #[test]
    fn without_a_name_header_there_is_no_user() {
        let sent = request(&[("x-remote-user", ""), ("x-remote-group", "system:masters")]);
        assert_eq!(headers().user(&sent), Ok(None));
    }

    #[test]
    fn unreadable_name_header_gives_no_user() {
        for name in ["x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-scopes"] {
            let mut sent = request(&[("x-other-user", "jane")]);
            sent.append(name, HeaderValue::from_bytes(b"caf\xe9").unwrap());
            assert!(headers().user(&sent).is_err(), "{name}");
        }
    }
}
