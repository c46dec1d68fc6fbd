//! Upgrade handshakes of HTTP connections, with clients ([`websocket`], [`protocol_version`]) and with backends
//! ([`backend`]).

pub mod backend;
mod body;
mod hop_by_hop;
mod rewound;
pub mod websocket;

pub use hop_by_hop::drop_hop_by_hop;
pub use rewound::Rewound;

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

/// Value of `Upgrade` for SPDY.
pub const SPDY_31: &str = "SPDY/3.1";
/// Header of protocol versions over SPDY: those of the client, and the chosen one.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Header of the versions that would have been accepted.
pub const ACCEPTED_VERSIONS: HeaderName =
    HeaderName::from_static("x-accepted-stream-protocol-versions");

/// Response to a refused upgrade request. Boxed, to keep `Result`s small.
pub type Refusal = Box<Response<String>>;

/// Whether a request asks for an upgrade of any kind.
pub fn is_upgrade_request(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| contains(value, "upgrade"))
}

/// Whether the headers of a request or response upgrade to SPDY.
pub fn is_spdy(headers: &HeaderMap) -> bool {
    let says = |name, word| headers.get(name).is_some_and(|value| contains(value, word));
    says(header::CONNECTION, "upgrade") && says(header::UPGRADE, "spdy/3.1")
}

/// Chooses a protocol version over SPDY: the first of the client's that the server supports.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use kevel_streaming::upgrade::{PROTOCOL_VERSION, protocol_version};
/// let mut headers = HeaderMap::new();
/// let server = ["v4.channel.k8s.io", "channel.k8s.io"];
/// assert_eq!(protocol_version(&headers, &server).unwrap_err().status(), 400);
/// headers.append(PROTOCOL_VERSION, HeaderValue::from_static("v5.channel.k8s.io, channel.k8s.io"));
/// assert_eq!(protocol_version(&headers, &server).unwrap(), "channel.k8s.io");
/// ```
pub fn protocol_version<'s>(headers: &HeaderMap, server: &[&'s str]) -> Result<&'s str, Refusal> {
    const NAME: &str = "X-Stream-Protocol-Version";
    if !headers.contains_key(PROTOCOL_VERSION) {
        let count = headers.keys_len();
        return Err(refuse(
            StatusCode::BAD_REQUEST,
            format!(
                "unable to upgrade: header {NAME} does not exist in request with {count} headers"
            ),
        ));
    }
    let all = headers.get_all(PROTOCOL_VERSION);
    let values: Vec<&str> = all.iter().map(|value| value.to_str().unwrap_or_default()).collect();
    let versions = values.iter().flat_map(|value| value.split(','));
    let client: Vec<&str> =
        versions.map(|version| version.trim_matches(' ')).filter(|v| !v.is_empty()).collect();
    if client.is_empty() {
        return Err(refuse(
            StatusCode::BAD_REQUEST,
            format!(
                "unable to upgrade: header {NAME} contains [{}], but no valid protocols",
                values.join(" ")
            ),
        ));
    }
    let known = |version: &&str| server.iter().find(|known| *known == version).copied();
    client.iter().find_map(known).ok_or_else(|| {
        let mut refusal = refuse(
            StatusCode::FORBIDDEN,
            format!(
                "unable to upgrade: unable to negotiate protocol: client supports [{}], server \
                 accepts [{}]",
                client.join(" "),
                server.join(" ")
            ),
        );
        for version in server {
            if let Ok(version) = HeaderValue::from_str(version) {
                refusal.headers_mut().append(ACCEPTED_VERSIONS, version);
            }
        }
        refusal
    })
}

/// A refusal in the form of Go's `http.Error`.
pub fn refuse(status: StatusCode, message: String) -> Refusal {
    let mut refusal = Box::new(Response::new(format!("{message}\n")));
    *refusal.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    refusal.headers_mut().insert(header::CONTENT_TYPE, plain);
    let nosniff = HeaderValue::from_static("nosniff");
    refusal.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    refusal
}

/// Whether a header contains a word, as the reference checks.
fn contains(value: &HeaderValue, word: &str) -> bool {
    let value = value.as_bytes().to_ascii_lowercase();
    value.windows(word.len()).any(|part| part == word.as_bytes())
}

/// Values of a comma-separated header; of its first line only, like the reference.
fn listed(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let text = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(',').map(str::trim).filter(|value| !value.is_empty())
}
