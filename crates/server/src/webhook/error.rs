//! Errors of calls.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode, header};

use crate::egress::failure;

/// Error of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There was no answer.
    Connection {
        /// The request: `Post "https://webhook/authorize"`.
        request: String,
        /// Error message.
        reason: String,
        /// Whether the connection was there and broke.
        lost: bool,
    },
    /// There was no answer in time.
    Timeout {
        /// The request.
        request: String,
        /// Whether the answer had begun.
        reading: bool,
    },
    /// The answer broke off.
    Answer {
        /// Error message.
        reason: String,
    },
    /// The answer is larger than anybody wants to read.
    TooLarge {
        /// The request.
        request: String,
        /// Limit in bytes.
        limit: usize,
    },
    /// The answer says that the call failed; see [`succeeded`].
    Status {
        /// The status of HTTP.
        code: StatusCode,
        /// Message of the response.
        message: String,
        /// Seconds of `Retry-After`, if the response has it.
        retry_after: Option<Duration>,
    },
}

impl Error {
    /// Whether the reference would make the call again: not because of a server that is not there,
    /// but because of one that broke off, is overloaded or says when to come back.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Connection { lost, .. } => *lost,
            Error::Timeout { .. } | Error::Answer { .. } | Error::TooLarge { .. } => false,
            Error::Status { code, retry_after, .. } => {
                retry_after.is_some() || matches!(code.as_u16(), 429 | 500 | 504)
            }
        }
    }

    pub(super) fn connection(
        request: String,
        error: &(dyn StdError + 'static),
        address: &str,
    ) -> Self {
        let causes = || std::iter::successors(Some(error), |&error| error.source());
        let lost = causes().any(|cause| {
            let broken = cause.downcast_ref::<io::Error>().is_some_and(|error| {
                matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
            });
            broken || cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout)
        });
        Error::Connection { request, reason: failure::of_request(error, address), lost }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Connection { request, reason, .. } => write!(f, "{request}: {reason}"),
            Error::Timeout { request, reading: false } => write!(f, "{request}: {LATE}"),
            Error::Timeout { .. } => write!(f, "{BROKEN_OFF}{LATE}"),
            Error::Answer { reason } => write!(f, "{BROKEN_OFF}{reason}"),
            Error::TooLarge { request, limit } => {
                write!(f, "{request}: the answer is larger than {limit} bytes")
            }
            Error::Status { message, .. } => f.write_str(message),
        }
    }
}

impl StdError for Error {}

/// The words of the reference's client for a time that is up, and for an answer that breaks off.
const LATE: &str = "context deadline exceeded";
const BROKEN_OFF: &str =
    "unexpected error when reading response body. Please retry. Original error: ";

/// Length to which a response that is no Status is quoted.
const MAX_TOLD: usize = 1024;

/// The body of an answer, unless the answer says that the call failed.
pub fn succeeded(answer: Response<Bytes>) -> Result<Bytes, Error> {
    let code = answer.status();
    if code.is_success() {
        return Ok(answer.into_body());
    }
    let seconds = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = seconds.and_then(|text| text.parse::<u64>().ok());
    let retry_after = seconds.map(Duration::from_secs);
    Err(Error::Status { code, message: message(&answer), retry_after })
}

/// A Status says it itself.
fn message(answer: &Response<Bytes>) -> String {
    let body = answer.body();
    let decoded = kevel_codec::json::decode_any(body, kevel_codec::json::Unknown::Ignore);
    let said = decoded.ok().map(|decoded| decoded.value.str_at(&["message"]).to_owned());
    if let Some(said) = said.filter(|said| !said.is_empty()) {
        return said;
    }
    let told = String::from_utf8_lossy(body.get(..body.len().min(MAX_TOLD)).unwrap_or_default());
    match told.trim() {
        "" => format!("the server answered {}", answer.status()),
        told => format!("the server answered {}: {told}", answer.status()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_made_again_if_it_may_succeed() {
        let answers = [
            (500, None, true),
            (503, None, false),
            (503, Some("1"), true),
            (504, None, true),
            (429, None, true),
            (403, None, false),
            (404, None, false),
        ];
        for (code, retry_after, expected) in answers {
            let mut answer = Response::builder().status(code);
            if let Some(seconds) = retry_after {
                answer = answer.header(header::RETRY_AFTER, seconds);
            }
            let error = succeeded(answer.body(Bytes::new()).unwrap()).unwrap_err();
            assert_eq!(error.is_transient(), expected, "{code} {retry_after:?}");
        }
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert!(!Error::connection(String::new(), &refused, "").is_transient());
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        assert!(Error::connection(String::new(), &reset, "").is_transient());
    }

    #[test]
    fn an_answer_says_why_it_failed() {
        for (body, expected) in [
            (r#"{"kind":"Status","message":"no"}"#, "no"),
            ("busy\n", "the server answered 503 Service Unavailable: busy"),
            ("", "the server answered 503 Service Unavailable"),
        ] {
            let answer = Response::builder().status(503).body(Bytes::from(body)).unwrap();
            assert_eq!(succeeded(answer).unwrap_err().to_string(), expected);
        }
    }
}
