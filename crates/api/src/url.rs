//! URLs, parsed as in Go.

use std::collections::BTreeMap;
use std::fmt;

use crate::quote::quote;

/// Parsed URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    opaque: String,
    user: Option<String>,
    /// Host with port, unescaped.
    host: String,
    /// Path, escaped.
    path: String,
    query: Option<String>,
    fragment: String,
}

impl Url {
    /// Parses a request URI: an absolute URI or an absolute path.
    pub fn parse_request(text: &str) -> Result<Url, String> {
        parse(text, true).map_err(|error| format!("parse {}: {error}", quote(text)))
    }

    /// Parses any URL; errors are worded as in Go.
    pub fn parse(text: &str) -> Result<Url, String> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url =
            parse(text, false).map_err(|error| format!("parse {}: {error}", quote(text)))?;
        url.fragment = fragment.to_owned();
        Ok(url)
    }

    /// Scheme in lower case; empty if there is none.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Host with port; empty if there is none.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// User information, as in the URL.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Text after the question mark.
    pub fn query(&self) -> &str {
        self.query.as_deref().unwrap_or_default()
    }

    /// Text after the hash.
    pub fn fragment(&self) -> &str {
        &self.fragment
    }

    /// Path, escaped.
    pub fn escaped_path(&self) -> &str {
        &self.path
    }

    /// Host without port.
    pub fn hostname(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((address, _)) => address,
            None => self.host.rsplit_once(':').map_or(&*self.host, |(name, _)| name),
        }
    }

    /// Port; empty if there is none.
    pub fn port(&self) -> &str {
        let after = match self.host.rsplit_once(']') {
            Some((_, after)) => after,
            None => &self.host,
        };
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// Query parameters by key; invalid ones are left out.
    pub fn query_values(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.as_deref().unwrap_or_default().split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let plain = |text: &str| unescape(&text.replace('+', " "), |_| true).ok();
            if let (Some(key), Some(value)) = (plain(key), plain(value)) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        f.write_str(&self.opaque)?;
        if !self.host.is_empty() || self.user.is_some() {
            f.write_str("//")?;
            if let Some(user) = &self.user {
                write!(f, "{user}@")?;
            }
            f.write_str(&self.host)?;
        }
        f.write_str(&self.path)?;
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", self.fragment)?;
        }
        Ok(())
    }
}

fn parse(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = text.to_owned();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let mut rest = match rest.split_once('?') {
        Some((rest, query)) => {
            url.query = Some(query.to_owned());
            rest
        }
        None => rest,
    };
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let has_authority = !url.scheme.is_empty() || (!request && !rest.starts_with("///"));
    if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
        let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
        rest = path;
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
                if !user.chars().all(valid) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                unescape(user, |_| true)?;
                url.user = Some(user.to_owned());
                host
            }
            None => authority,
        };
        url.host = parse_host(host)?;
    }
    let path = unescape(rest, |_| true)?;
    url.path = if is_encoded_path(rest) { rest.to_owned() } else { escape_path(&path) };
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_host(host: &str) -> Result<String, String> {
    let port = match host.strip_prefix('[') {
        Some(_) => {
            let end = host.rfind(']').ok_or_else(|| "missing ']' in host".to_owned())?;
            host.get(end + 1..).unwrap_or_default()
        }
        None => host.find(':').and_then(|at| host.get(at..)).unwrap_or_default(),
    };
    let valid_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !valid_port {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    let allowed = |c: char| {
        c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"".contains(c) || !c.is_ascii()
    };
    if let Some(bad) = host.chars().find(|c| !allowed(*c) && *c != '%') {
        return Err(format!("invalid character {} in host name", quote(&bad.to_string())));
    }
    unescape(host, |byte| byte >= 0x80 || host.starts_with('['))
}

/// Resolves `%xx`, if the resulting byte may be escaped.
fn unescape(text: &str, allowed: impl Fn(u8) -> bool) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok()).filter(|b| allowed(*b));
        let Some(byte) = byte else {
            let end = after.len().min(2);
            let shown = format!("%{}", String::from_utf8_lossy(&after[..end]));
            return Err(format!("invalid URL escape {}", quote(&shown)));
        };
        out.push(byte);
        rest = &after[2..];
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn is_encoded_path(path: &str) -> bool {
    path.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:@[]/%".contains(c))
}

fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
