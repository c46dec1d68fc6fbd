//! Parsing of the `Impersonate-*` headers.

use http::HeaderMap;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;

use kevel_registry::query::unescape;
use kevel_registry::user::{ExtraBuilder, User};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// The impersonated user, if the headers name one. The headers are removed, so that later handlers and proxied servers
/// do not see them.
pub(super) fn take(headers: &mut HeaderMap) -> Result<Option<User>, StatusError> {
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name| headers.get(name).map(text).unwrap_or_default();
    // Several headers may name the same key, percent-encoded or not.
    let mut extra = ExtraBuilder::default();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = unescape(key, false).unwrap_or_else(|| key.to_owned());
            extra.add(key, headers.get_all(name).iter().map(text));
        }
    }
    let wanted = User {
        name: first(USER),
        uid: first(UID),
        groups: headers.get_all(GROUP).iter().map(text).collect(),
        extra: extra.build(),
    };
    if wanted.name.is_empty() {
        let asks = !wanted.uid.is_empty() || !wanted.groups.is_empty() || !wanted.extra.is_empty();
        return match asks {
            true => Err(StatusError::bad_request(format!(
                "requested {} without impersonating a user name",
                described(&wanted)
            ))),
            false => Ok(None),
        };
    }
    let names = headers.keys().filter(|name| {
        let name = name.as_str();
        [USER, UID, GROUP].contains(&name) || name.starts_with(EXTRA_PREFIX)
    });
    let names: Vec<_> = names.cloned().collect();
    for name in names {
        headers.remove(name);
    }
    Ok(Some(wanted))
}

/// A user formatted as the reference formats it in error messages.
fn described(user: &User) -> String {
    let list = |values: &[String]| {
        let values: Vec<_> = values.iter().map(|value| quote(value)).collect();
        format!("[]string{{{}}}", values.join(", "))
    };
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let mut extra: Vec<_> = user.extra.iter().collect();
    extra.sort();
    let extra: Vec<_> =
        extra.iter().map(|(key, values)| format!("{}:{}", quote(key), list(values))).collect();
    let extra = match extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        quote(&user.name),
        quote(&user.uid)
    )
}

#[cfg(test)]
mod tests {
    use kevel_clock::Stopwatch;
    use std::time::Duration;

    use http::{HeaderName, HeaderValue};

    use super::*;

    /// Almost as many names as a `HeaderMap` can hold.
    const MANY: usize = 24_000;
    /// A hundred times what one pass over so many headers takes in a debug build, and less than a comparison of each
    /// header with all others takes.
    const LINEAR: Duration = Duration::from_secs(2);

    fn extra_header(key: &str) -> HeaderName {
        HeaderName::try_from(format!("{EXTRA_PREFIX}{key}")).unwrap()
    }

    #[test]
    fn many_extra_headers_are_read_in_linear_time() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::from_static("jane"));
        let key = |number| format!("an-extra-key-of-some-length-{number:05}");
        for number in 0..MANY {
            headers.insert(extra_header(&key(number)), HeaderValue::from(number));
        }
        let started = Stopwatch::start();
        let wanted = take(&mut headers).unwrap().unwrap();
        assert!(started.elapsed() < LINEAR, "{:?}", started.elapsed());
        assert_eq!(wanted.extra.len(), MANY);
        for (number, (found, values)) in wanted.extra.iter().enumerate() {
            assert_eq!((found, values), (&key(number), &vec![number.to_string()]));
        }
        assert!(headers.is_empty());
    }

    #[test]
    fn extra_values_of_one_key_are_joined_in_their_order() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::from_static("jane"));
        for (key, value) in [("b", "1"), ("a%2fb", "2"), ("b", "3"), ("%62", "4"), ("bad%zz", "5")]
        {
            headers.append(extra_header(key), HeaderValue::from_static(value));
        }
        let wanted = take(&mut headers).unwrap().unwrap();
        let extra = |key: &str, values: &[&str]| {
            (key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            wanted.extra,
            [extra("b", &["1", "3", "4"]), extra("a/b", &["2"]), extra("bad%zz", &["5"])]
        );
    }
}
