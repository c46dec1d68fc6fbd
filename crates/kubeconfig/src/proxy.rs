//! Proxies of clusters (`proxy-url`).

use http::Uri;
use kevel_codec::base64;

use crate::Error;

/// An HTTP proxy: its address, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct ProxyUrl {
    /// Host and port.
    pub address: String,
    /// Host, which its certificate must name, if it is spoken to with TLS.
    pub tls_name: Option<String>,
    /// Line of the `Proxy-Authorization` header, empty without credentials in the URL.
    pub authorization: String,
}

impl ProxyUrl {
    /// Reads the URL of a proxy: `http://user:password@host:3128`.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let uri: Uri = url.parse().map_err(|_| Error::ProxyUrl)?;
        let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => return Err(Error::ProxyScheme(scheme)),
        };
        let authority = uri.authority().ok_or(Error::ProxyUrl)?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        let authorization = user.map(|user| {
            let pair = if user.contains(':') { user.to_owned() } else { format!("{user}:") };
            let pair = base64::encode(unescaped(&pair).as_bytes());
            format!("Proxy-Authorization: Basic {pair}\r\n")
        });
        let name = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(default_port);
        Ok(ProxyUrl {
            address: format!("{}:{port}", authority.host()),
            tls_name: (scheme == "https").then_some(name),
            authorization: authorization.unwrap_or_default(),
        })
    }
}

/// Undoes `%XX` in a URL's user.
fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte =
            digits.filter(|_| *first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}
