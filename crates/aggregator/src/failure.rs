//! Why a server cannot be asked, in the words that the reference's clients are used to.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// Why a request on kept connections failed.
pub(crate) fn of_request(error: &(dyn Error + 'static), address: &str) -> String {
    let causes = || std::iter::successors(Some(error), |&error| error.source());
    if let Some(cause) = causes().find_map(|cause| cause.downcast_ref::<io::Error>()) {
        return of_connection(cause, address);
    }
    causes().last().map(ToString::to_string).unwrap_or_default()
}

/// Why a connection could not be made, or broke.
pub(crate) fn of_connection(error: &io::Error, address: &str) -> String {
    let dial = |what: &str| format!("dial tcp {address}: {what}");
    match error.kind() {
        io::ErrorKind::ConnectionRefused => return dial("connect: connection refused"),
        io::ErrorKind::HostUnreachable => return dial("connect: no route to host"),
        io::ErrorKind::NetworkUnreachable => return dial("connect: network is unreachable"),
        io::ErrorKind::TimedOut => return dial("i/o timeout"),
        io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
        _ => {}
    }
    // Whoever passes an error on wraps it in another.
    let mut inner = error.get_ref();
    while let Some(io) = inner.and_then(|inner| inner.downcast_ref::<io::Error>()) {
        match io.get_ref() {
            Some(next) => inner = Some(next),
            None => return of_connection(io, address),
        }
    }
    match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(wrong)) => {
            format!("tls: failed to verify certificate: x509: {}", certificate(wrong))
        }
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
        _ => error.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented
                .iter()
                .filter_map(|name| name.strip_prefix("DnsName(\"")?.strip_suffix("\")"))
                .collect();
            let expected = expected.to_str();
            match names.is_empty() {
                true => format!(
                    "certificate is not valid for any names, but wanted to match {expected}"
                ),
                false => format!("certificate is valid for {}, not {expected}", names.join(", ")),
            }
        }
        other => other.to_string(),
    }
}
