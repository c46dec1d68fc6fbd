//! User of a proxied request, in the front proxy's headers.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use kevel_api::quote::quote;
use kevel_registry::user::User;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";
/// Prefix of impersonation headers, which this server has processed.
const IMPERSONATE: &str = "impersonate-";

/// Writes a user into the `X-Remote-*` headers, replacing those of the client, which are not trusted. Fails if headers
/// cannot represent the user, rather than pass on another one.
pub(crate) fn set(headers: &mut HeaderMap, user: &User) -> Result<(), String> {
    let told = |name: &HeaderName| {
        let name = name.as_str();
        [USER.as_str(), UID.as_str(), GROUP.as_str(), header::AUTHORIZATION.as_str()]
            .contains(&name)
            || name.starts_with(EXTRA)
            || name.starts_with(IMPERSONATE)
    };
    let told: Vec<HeaderName> = headers.keys().filter(|name| told(name)).cloned().collect();
    for name in told {
        headers.remove(name);
    }
    let mut add = |name: HeaderName, value: &str| {
        let invalid =
            |_| format!("net/http: invalid header field value for {}", quote(name.as_str()));
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(invalid)?;
        headers.append(name, value);
        Ok::<(), String>(())
    };
    add(USER, &user.name)?;
    if !user.uid.is_empty() {
        add(UID, &user.uid)?;
    }
    for group in &user.groups {
        add(GROUP, group)?;
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escape(key)).parse::<HeaderName>();
        let name = name.map_err(|error| error.to_string())?;
        for value in values {
            add(name.clone(), value)?;
        }
    }
    Ok(())
}

/// Escapes an extra key for use in a header name.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => escaped.push(byte.into()),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
            | b'|' | b'~' => escaped.push(byte.into()),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_not_believed_what_it_says_it_is() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer x"),
            ("impersonate-user", "admin"),
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("accept", "*/*"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let text = |text: &str| text.to_owned();
        let user = User {
            name: text("jane"),
            uid: text("7"),
            groups: vec![text("devs"), text("ärzte")],
            extra: vec![(text("example.com/scopes"), vec![text("a"), text("b")])],
        };
        set(&mut headers, &user).unwrap();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut found: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
        found.sort();
        assert_eq!(
            found,
            [
                "accept: */*",
                "x-remote-extra-example.com%2fscopes: a",
                "x-remote-extra-example.com%2fscopes: b",
                "x-remote-group: devs",
                "x-remote-group: ärzte",
                "x-remote-uid: 7",
                "x-remote-user: jane",
            ]
        );
    }

    #[test]
    fn user_names_that_headers_cannot_hold_are_escaped() {
        let text = |text: &str| text.to_owned();
        let jane = User { name: text("jane"), ..User::default() };
        for user in [
            User { name: text("jane\r\nX-Remote-Group: system:masters"), ..User::default() },
            User { uid: text("\n"), ..jane.clone() },
            User { groups: vec![text("\0")], ..jane.clone() },
            User { extra: vec![(text("scopes"), vec![text("\r")])], ..jane.clone() },
        ] {
            assert!(set(&mut HeaderMap::new(), &user).is_err(), "{user:?}");
        }
    }
}
