//! Texts of client errors, in the words of Go's client.

use std::error::Error;
use std::io;
use std::net::IpAddr;

use rustls::{CertificateError, OtherError};

/// Error of a request on pooled connections.
pub fn of_request(error: &(dyn Error + 'static), address: &str) -> String {
    let causes = || std::iter::successors(Some(error), |&error| error.source());
    if let Some(cause) = causes().find_map(|cause| cause.downcast_ref::<io::Error>()) {
        return of_connection(cause, address);
    }
    let mut of_http = causes().filter_map(|cause| cause.downcast_ref::<hyper::Error>());
    if of_http.any(|cause| cause.is_incomplete_message() || cause.is_closed()) {
        return "EOF".to_owned();
    }
    causes().last().map(ToString::to_string).unwrap_or_default()
}

/// Error of a truncated response.
pub(crate) fn of_answer(error: &(dyn Error + 'static), address: &str) -> String {
    match of_request(error, address) {
        // A part of the response had been received.
        reason if reason == "EOF" => "unexpected EOF".to_owned(),
        reason => reason,
    }
}

/// Error of a connection that failed or broke.
pub fn of_connection(error: &io::Error, address: &str) -> String {
    let dial = |what: &str| format!("dial tcp {address}: {what}");
    match error.kind() {
        io::ErrorKind::ConnectionRefused => return dial("connect: connection refused"),
        io::ErrorKind::HostUnreachable => return dial("connect: no route to host"),
        io::ErrorKind::NetworkUnreachable => return dial("connect: network is unreachable"),
        io::ErrorKind::TimedOut => return dial("i/o timeout"),
        io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
        io::ErrorKind::ConnectionReset => return "connection reset by peer".to_owned(),
        io::ErrorKind::BrokenPipe => return "broken pipe".to_owned(),
        _ => {}
    }
    // Errors may be wrapped several times.
    let mut inner = error.get_ref();
    while let Some(io) = inner.and_then(|inner| inner.downcast_ref::<io::Error>()) {
        match io.get_ref() {
            Some(next) => inner = Some(next),
            None => return of_connection(io, address),
        }
    }
    match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(wrong)) => {
            format!("tls: failed to verify certificate: {}", certificate(wrong))
        }
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
        Some(rustls::Error::InvalidMessage(_)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Error of a failed dial: like [`of_connection`], and for names that cannot be resolved.
pub(crate) fn of_dial(error: &(dyn Error + 'static), address: &str) -> String {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    let cause = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let is_ip = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    match cause {
        // Resolver errors have an unstable kind that cannot be matched.
        Some(cause) if !is_ip && cause.raw_os_error().is_none() && cause.get_ref().is_some() => {
            match cause.kind() {
                io::ErrorKind::TimedOut => of_connection(cause, address),
                _ => format!("dial tcp: lookup {host}: no such host"),
            }
        }
        Some(cause) => of_connection(cause, address),
        None => format!("dial tcp {address}: {error}"),
    }
}

/// Error of a Unix socket without its number: `no such file or directory`.
pub(super) fn of_socket(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// Error of the certificate verifier, in Go's words.
fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Other(OtherError(inner)) => inner.to_string(),
        other => format!("x509: {other}"),
    }
}
