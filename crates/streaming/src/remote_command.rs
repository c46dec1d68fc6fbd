//! Remote commands in containers, as a kubelet runs them: protocol versions, streams, and results (upstream:
//! remotecommand).

use http::{StatusCode, Uri, header};
use kevel_api::json_string::write_json_string;
use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::upgrade::backend::{Answer, handshake, spdy_request};
use crate::upgrade::{PROTOCOL_VERSION, Rewound, is_spdy};

/// Header with the type of a stream, and its values.
pub const STREAM_TYPE: &str = "streamtype";
#[allow(missing_docs)]
pub mod stream_type {
    pub const STDIN: &str = "stdin";
    pub const STDOUT: &str = "stdout";
    pub const STDERR: &str = "stderr";
    pub const ERROR: &str = "error";
    pub const RESIZE: &str = "resize";
}

/// Versions that the API server requests, in order of preference.
pub const VERSIONS: [&str; 5] = [
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
];
/// Versions that a kubelet supports over SPDY.
pub const KUBELET_VERSIONS: [&str; 4] = [VERSIONS[1], VERSIONS[2], VERSIONS[3], VERSIONS[4]];

/// Version of the remote command protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Version {
    V1,
    V2,
    /// With terminal resizing.
    V3,
    /// With a `Status` on the error stream.
    V4,
    /// Over SPDY the same as V4.
    V5,
}

impl Version {
    /// Version of a name. Kubelets that choose none use V1.
    pub fn of(name: &str) -> Option<Self> {
        use Version::*;
        let versions = [V5, V4, V3, V2, V1];
        let at = VERSIONS.iter().position(|known| *known == name);
        at.map(|at| versions[at]).or((name.is_empty()).then_some(V1))
    }

    /// Result of a command, from the contents of the error stream.
    pub fn outcome(self, message: &[u8]) -> Outcome {
        if message.is_empty() {
            return Outcome::Success;
        }
        let text = || String::from_utf8_lossy(message);
        match self {
            Version::V1 => Outcome::Failure(format!("Error executing remote command: {}", text())),
            Version::V2 | Version::V3 => {
                Outcome::Failure(format!("error executing remote command: {}", text()))
            }
            Version::V4 | Version::V5 => of_status(message),
        }
    }
}

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code 0.
    Success,
    /// The command ended with an exit code other than 0.
    Exit(u8),
    /// The command was not run, or its result is unknown.
    Failure(String),
}

impl Outcome {
    /// HTTP status for metrics: a failed command is not a server error.
    pub fn code(&self) -> StatusCode {
        match self {
            Outcome::Success | Outcome::Exit(_) => StatusCode::OK,
            Outcome::Failure(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The `Status` for the client, in JSON, without a kind, as in the reference.
    ///
    /// ```
    /// use kevel_streaming::remote_command::Outcome;
    /// assert_eq!(Outcome::Success.status(), br#"{"metadata":{},"status":"Success"}"#);
    /// ```
    pub fn status(&self) -> Vec<u8> {
        let mut out = br#"{"metadata":{},"status":""#.to_vec();
        match self {
            Outcome::Success => out.extend_from_slice(br#"Success"}"#),
            Outcome::Exit(code) => {
                let status = format!(
                    "Failure\",\"message\":\"command terminated with non-zero exit code: command \
                     terminated with exit code {code}\",\"reason\":\"NonZeroExitCode\",\"details\":\
                     {{\"causes\":[{{\"reason\":\"ExitCode\",\"message\":\"{code}\"}}]}}}}"
                );
                out.extend_from_slice(status.as_bytes());
            }
            Outcome::Failure(why) => {
                out.extend_from_slice(br#"Failure","message":"#);
                write_json_string(&mut out, &format!("Internal error occurred: {why}"));
                out.extend_from_slice(
                    br#","reason":"InternalError","details":{"causes":[{"message":"#,
                );
                write_json_string(&mut out, why);
                out.extend_from_slice(br#"}]},"code":500}"#);
            }
        }
        out
    }
}

/// Result in a kubelet's `Status`, with the reference's messages.
fn of_status(message: &[u8]) -> Outcome {
    let wrong = |what: String| Outcome::Failure(format!("error stream protocol error: {what}"));
    let status = match decode_any(message, Unknown::Ignore) {
        Ok(decoded) => decoded.value,
        Err(error) => {
            return wrong(format!("{error} in {}", quote(&String::from_utf8_lossy(message))));
        }
    };
    match status.str_at(&["status"]) {
        "Success" => return Outcome::Success,
        "Failure" => {}
        _ => return wrong("unknown error".to_owned()),
    }
    if status.str_at(&["reason"]) != "NonZeroExitCode" {
        return Outcome::Failure(status.str_at(&["message"]).to_owned());
    }
    if status.at(&["details"]).is_none_or(Value::is_null) {
        return wrong("details must be set".to_owned());
    }
    let mut causes = status.list_at(&["details", "causes"]).iter();
    let Some(cause) = causes.find(|cause| cause.str_at(&["reason"]) == "ExitCode") else {
        return wrong("no ExitCode cause given".to_owned());
    };
    let code = cause.str_at(&["message"]);
    match code.parse() {
        Ok(code) if !cause.str_at(&["message"]).starts_with('+') => Outcome::Exit(code),
        _ => wrong(format!("invalid exit code value {}", quote(code))),
    }
}

/// Requests a command's streams from a kubelet, on a connection to it. The error has the reference's message, for an
/// [`Outcome::Failure`].
pub async fn connect<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    target: Uri,
) -> Result<(Rewound<IO>, Version), String> {
    let request = spdy_request(target.clone(), &VERSIONS);
    let answer = handshake(io, &request).await;
    let answer = answer.map_err(|error| not_sent(&target.to_string(), &error.to_string()))?;
    match answer {
        Answer::Switched(parts, io) if is_spdy(&parts.headers) => {
            let name = parts.headers.get(PROTOCOL_VERSION).map(|value| value.to_str());
            let name = name.unwrap_or(Ok("")).unwrap_or("?");
            let version = Version::of(name);
            let version = version.ok_or_else(|| upgrading(&format!("unknown protocol {name}")))?;
            Ok((io, version))
        }
        Answer::Switched(..) => Err(upgrading("empty server response")),
        Answer::Refused(answer) => {
            let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            match to.filter(|_| answer.status().is_redirection()) {
                Some(to) => Err(not_sent(to, "redirect not allowed")),
                None => Err(upgrading(&refusal(answer.body()))),
            }
        }
    }
}

/// Error message when the request cannot be sent to the kubelet: `dial tcp 10.0.0.1:10250: connect: connection refused`
/// and the like.
///
/// ```
/// use kevel_streaming::remote_command::not_sent;
/// let told = not_sent("https://node/exec", "EOF");
/// assert_eq!(told, r#"error sending request: Post "https://node/exec": EOF"#);
/// ```
pub fn not_sent(target: &str, why: &str) -> String {
    format!("error sending request: Post {}: {why}", quote(target))
}

fn upgrading(why: &str) -> String {
    format!("unable to upgrade connection: {why}")
}

/// Message of a kubelet's response that is not an upgrade: of a `Status`, or the plain text.
fn refusal(body: &[u8]) -> String {
    let status = decode_any(body, Unknown::Ignore).map(|decoded| decoded.value).unwrap_or_default();
    let text = String::from_utf8_lossy(body);
    let said = [status.str_at(&["message"]).trim(), status.str_at(&["error"]).trim(), text.trim()];
    let said = said.into_iter().find(|said| !said.is_empty());
    said.unwrap_or("empty server response").to_owned()
}
