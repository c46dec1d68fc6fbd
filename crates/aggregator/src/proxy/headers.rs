//! Headers of proxied requests: which are passed on, replaced or removed.

use http::{HeaderMap, HeaderValue, header};
use kevel_registry::query::escape_path;
use kevel_server::proxy::headers;
use kevel_server::request::Request;

use crate::identity;

/// Headers of a request that is proxied to `host:port`. The client's hop-by-hop headers are removed before this
/// server's own are added: a client can name any header in `Connection` to have it dropped.
pub(super) fn outgoing(request: &Request, address: &str) -> Result<HeaderMap, String> {
    let mut headers = headers::outgoing(request);
    introduce(request, &mut headers)?;
    for (name, text) in [
        ("x-forwarded-uri", &*escape_path(&request.info.path)),
        ("x-forwarded-host", address),
        ("x-forwarded-proto", "https"),
    ] {
        headers.insert(name, value(text)?);
    }
    Ok(headers)
}

/// Headers of a proxied upgrade request.
pub(super) fn outgoing_upgrade(request: &Request, address: &str) -> Result<HeaderMap, String> {
    let mut headers = headers::outgoing_upgrade(request);
    introduce(request, &mut headers)?;
    headers.insert(header::HOST, value(address)?);
    Ok(headers)
}

/// Adds the user and the audit ID.
fn introduce(request: &Request, headers: &mut HeaderMap) -> Result<(), String> {
    let user = request.user.as_ref().ok_or("missing user")?;
    // `Host` is set for the extension server.
    headers.remove(header::HOST);
    if !request.audit_id.is_empty() {
        headers.insert("audit-id", value(&request.audit_id)?);
    }
    identity::set(headers, user)
}

fn value(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::HeaderName;
    use kevel_registry::user::User;
    use kevel_server::request::{Connection, RequestBody};

    use super::*;

    fn request(connection: &str) -> Request {
        let parts = http::Request::get("/apis/a.io/v1/things/a%2fb?x=1")
            .header("host", "kubernetes.default")
            .header("authorization", "Bearer x")
            .header("connection", connection)
            .header("x-mine", "1")
            .header("te", "trailers, deflate")
            .header("upgrade", "h2c")
            .header("x-forwarded-for", "10.0.0.1")
            .header("x-remote-user", "admin")
            .header("x-remote-extra-scopes", "all")
            .header("accept", "application/json");
        let parts = parts.body(()).unwrap().into_parts().0;
        let peer = Some("10.0.0.2:5".parse().unwrap());
        let connection = Arc::new(Connection { peer, ..Connection::default() });
        let body = RequestBody::Bytes(bytes::Bytes::new());
        let mut request = Request::new(parts, body, connection).unwrap();
        request.user = Some(Arc::new(User::anonymous()));
        request.audit_id = "7".to_owned();
        request
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        let mut lines: Vec<_> = headers.iter().map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_belongs_to_a_connection_ends_with_it() {
        let mut request = request("close, X-Mine");
        assert_eq!(
            shown(&outgoing(&request, "10.1.0.7:443").unwrap()),
            [
                "accept: application/json",
                "audit-id: 7",
                "te: trailers",
                "x-forwarded-for: 10.0.0.1, 10.0.0.2",
                "x-forwarded-host: 10.1.0.7:443",
                "x-forwarded-proto: https",
                "x-forwarded-uri: /apis/a.io/v1/things/a/b",
                "x-remote-group: system:unauthenticated",
                "x-remote-user: system:anonymous",
            ]
        );
        request.user = None;
        assert_eq!(outgoing(&request, "10.1.0.7:443"), Err("missing user".to_owned()));
    }

    /// No `Connection` header of a client removes the headers that this server adds about the client.
    #[test]
    fn no_client_drops_who_it_is() {
        let ours = [
            "audit-id: 7",
            "x-forwarded-for: 10.0.0.2",
            "x-remote-group: system:unauthenticated",
            "x-remote-user: system:anonymous",
        ];
        let list = "X-Remote-User, x-remote-group,X-REMOTE-UID, Audit-Id, X-Forwarded-For, \
                    X-Forwarded-Host, X-Forwarded-Uri, X-Forwarded-Proto";
        for connection in [list.to_owned(), format!("Upgrade, {list}"), format!("{list}, upgrade")]
        {
            let request = request(&connection);
            let plain = shown(&outgoing(&request, "10.1.0.7:443").unwrap());
            let upgraded = shown(&outgoing_upgrade(&request, "10.1.0.7:443").unwrap());
            for line in ours {
                assert!(plain.iter().any(|said| said == line), "{connection}: {plain:?}");
                assert!(upgraded.iter().any(|said| said == line), "{connection}: {upgraded:?}");
            }
            assert!(plain.iter().any(|said| said == "x-forwarded-host: 10.1.0.7:443"), "{plain:?}");
            // `Connection` does not ask later hops to drop them either.
            let asks = ["connection: Upgrade", "upgrade: h2c"];
            assert!(asks.iter().all(|line| upgraded.iter().any(|said| said == line)));
        }
    }
}
