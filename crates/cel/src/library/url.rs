//! URL library.

use std::collections::BTreeMap;

use kevel_api::url::Url;

use super::{Extension, Row, row};
use crate::error::Error;
use crate::value::{Key, Text, Value};

pub(super) const ROWS: &[Row] = &[
    row("url", "string_to_url", "(string) -> kubernetes.URL", |args| match args {
        [Value::String(text)] => match Url::parse_request(text).and_then(|_| Url::parse(text)) {
            Ok(url) => Ok(Value::Extension(Extension::Url(url.into()))),
            Err(error) => {
                Err(Error::new(format!("URL parse error during conversion from string: {error}")))
            }
        },
        _ => Err(Error::no_such_overload()),
    }),
    row("isURL", "is_url_string", "(string) -> bool", |args| match args {
        [Value::String(text)] => Ok(Value::Bool(Url::parse_request(text).is_ok())),
        _ => Err(Error::no_such_overload()),
    }),
    row("getScheme", "url_get_scheme", GET, |args| part(args, |url| url.scheme().to_owned())),
    row("getHost", "url_get_host", GET, |args| part(args, |url| url.host().to_owned())),
    row("getHostname", "url_get_hostname", GET, |args| part(args, |url| url.hostname().to_owned())),
    row("getPort", "url_get_port", GET, |args| part(args, |url| url.port().to_owned())),
    row("getEscapedPath", "url_get_escaped_path", GET, |args| {
        part(args, |url| url.escaped_path().to_owned())
    }),
    row("getQuery", "url_get_query", "kubernetes.URL.() -> map(string, list(string))", |args| {
        match args {
            [Value::Extension(Extension::Url(url))] => {
                let entries = url.query_values().into_iter();
                let entries = entries
                    .map(|(key, values)| (Key::String(Text::from(key)), Value::strings(values)));
                Ok(Value::Map(entries.collect::<BTreeMap<_, _>>().into()))
            }
            _ => Err(Error::no_such_overload()),
        }
    }),
];

const GET: &str = "kubernetes.URL.() -> string";

fn part<'a>(args: &[Value<'a>], part: fn(&Url) -> String) -> Result<Value<'a>, Error> {
    match args {
        [Value::Extension(Extension::Url(url))] => Ok(Value::string(part(url))),
        _ => Err(Error::no_such_overload()),
    }
}
