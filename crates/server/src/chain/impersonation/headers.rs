//! The `Impersonate-*` headers.

use http::HeaderMap;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;

use crate::query::unescape;
use crate::user::User;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// Who the headers want to be, if they do. Nobody behind shall see that somebody speaks for
/// another: they are taken away.
pub(super) fn take(headers: &mut HeaderMap) -> Result<Option<User>, StatusError> {
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name| headers.get(name).map(text).unwrap_or_default();
    let mut wanted = User {
        name: first(USER),
        uid: first(UID),
        groups: headers.get_all(GROUP).iter().map(text).collect(),
        extra: Vec::new(),
    };
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let values = headers.get_all(name).iter().map(text);
            let key = unescape(key, false).unwrap_or_else(|| key.to_owned());
            add_extra(&mut wanted, key, values.collect());
        }
    }
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

/// Different headers may name the same key, percent-encoded or not.
fn add_extra(user: &mut User, key: String, values: Vec<String>) {
    match user.extra.iter_mut().find(|(known, _)| *known == key) {
        Some((_, known)) => known.extend(values),
        None => user.extra.push((key, values)),
    }
}

/// A user in the words of the reference.
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
