//! Who asks, as one API server tells another.

use http::{HeaderMap, HeaderName, HeaderValue};
use kevel_server::user::User;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// Writes a user into headers. What was there before a client has said, and is not believed.
pub(crate) fn set(headers: &mut HeaderMap, user: &User) {
    let told =
        |name: &HeaderName| [USER, UID, GROUP].contains(name) || name.as_str().starts_with(EXTRA);
    let told: Vec<HeaderName> = headers.keys().filter(|name| told(name)).cloned().collect();
    for name in told {
        headers.remove(name);
    }
    let mut add = |name: HeaderName, value: &str| {
        // What no header can say is not said: the user has less then, never more.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.append(name, value);
        }
    };
    add(USER, &user.name);
    if !user.uid.is_empty() {
        add(UID, &user.uid);
    }
    user.groups.iter().for_each(|group| add(GROUP, group));
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escape(key)).parse::<HeaderName>();
        if let Ok(name) = name {
            values.iter().for_each(|value| add(name.clone(), value));
        }
    }
}

/// A key in which only what the names of headers may have is left.
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
            groups: vec![text("devs"), text("ops")],
            extra: vec![(text("example.com/scopes"), vec![text("a"), text("b")])],
        };
        set(&mut headers, &user);
        let mut found: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                "accept: */*",
                "x-remote-extra-example.com%2fscopes: a",
                "x-remote-extra-example.com%2fscopes: b",
                "x-remote-group: devs",
                "x-remote-group: ops",
                "x-remote-uid: 7",
                "x-remote-user: jane",
            ]
        );
    }
}
