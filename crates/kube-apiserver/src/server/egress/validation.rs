//! Whether a configuration of ways out makes sense, in the reference's order and words.

use std::collections::BTreeSet;
use std::path::Path as File;

use kevel_api::field_error::{BadValue, FieldError, Path, aggregate};
use kevel_api::value::Value;
use kevel_codec::json::encode_any;
use kevel_server::egress::EgressType;

use super::configuration::{
    Connection, EgressSelectorConfiguration, TcpTransport, TlsConfig, Transport, UdsTransport,
};

const PROTOCOLS: [&str; 3] = ["Direct", "HTTPConnect", "GRPC"];
const NAMES: [&str; 3] = ["cluster", "controlplane", "etcd"];

impl EgressSelectorConfiguration {
    /// Validates the configuration; the error lists all problems.
    pub fn validate(&self) -> Result<(), String> {
        let selections = self.egress_selections.as_deref().unwrap_or_default();
        let at = Path::new("service");
        let at = at.child("connection");
        let mut errors: Vec<FieldError> =
            selections.iter().flat_map(|one| connection(&one.connection, &at)).collect();
        let mut seen = BTreeSet::new();
        for (index, selection) in selections.iter().enumerate() {
            let name = selection.name.to_lowercase();
            if seen.contains(&name) {
                errors.push(FieldError::duplicate(&at.index(index), name));
                continue;
            }
            if EgressType::named(&name).is_none() {
                errors.push(FieldError::not_supported(&at, name.clone(), NAMES));
            }
            seen.insert(name);
        }
        aggregate(errors).map_or(Ok(()), Err)
    }
}

fn connection(connection: &Connection, at: &Path<'_>) -> Vec<FieldError> {
    let transport = connection.transport.as_ref();
    match connection.proxy_protocol.as_str() {
        "Direct" => transport
            .map(|_| {
                let detail = "config must be absent for direct connect";
                FieldError::invalid(&at.child("transport"), "direct", detail)
            })
            .into_iter()
            .collect(),
        "HTTPConnect" => http_connect(transport, at),
        "GRPC" => grpc(transport, at),
        protocol => {
            let protocol = BadValue::named_string(protocol);
            vec![FieldError::not_supported(&at.child("protocol"), protocol, PROTOCOLS)]
        }
    }
}

fn http_connect(transport: Option<&Transport>, at: &Path<'_>) -> Vec<FieldError> {
    let Some(Transport { tcp, uds }) = transport else {
        let detail = "transport must be set for HTTPConnect";
        return vec![FieldError::required(&at.child("transport"), detail)];
    };
    let of_tcp = at.child("tcp");
    match (tcp, uds) {
        (Some(tcp), Some(_)) => {
            let detail = "TCP and UDS cannot both be set";
            vec![FieldError::invalid(&of_tcp, shown(tcp), detail)]
        }
        (None, None) => vec![FieldError::required(&of_tcp, "One of TCP or UDS must be set")],
        (Some(tcp), None) => tcp_connection(tcp, at),
        (None, Some(uds)) => uds_connection(uds, at),
    }
}

fn grpc(transport: Option<&Transport>, at: &Path<'_>) -> Vec<FieldError> {
    let Some(transport) = transport else {
        let detail = "transport must be set for GRPC";
        return vec![FieldError::required(&at.child("transport"), detail)];
    };
    match &transport.uds {
        Some(uds) => uds_connection(uds, at),
        None => vec![FieldError::required(&at.child("uds"), "UDS must be set with GRPC")],
    }
}

fn uds_connection(uds: &UdsTransport, at: &Path<'_>) -> Vec<FieldError> {
    if !uds.uds_name.is_empty() {
        return Vec::new();
    }
    let detail = "must be present for UDS connections";
    vec![FieldError::invalid(&at.child("udsName"), "nil", detail)]
}

fn tcp_connection(tcp: &TcpTransport, at: &Path<'_>) -> Vec<FieldError> {
    let at_tls = at.child("tlsConfig");
    let is = |scheme: &str| tcp.url.starts_with(scheme);
    match &tcp.tls_config {
        Some(_) if is("http://") => {
            let detail = "config must not be present when using HTTP";
            vec![FieldError::invalid(&at_tls, "nil", detail)]
        }
        None if is("http://") => Vec::new(),
        Some(tls) if is("https://") => tls_config(tls, &at_tls),
        None if is("https://") => {
            vec![FieldError::required(&at_tls, "TLSConfig must be present when using HTTPS")]
        }
        _ => {
            let detail = "supported connection protocols are http:// and https://";
            vec![FieldError::invalid(&at.child("url"), tcp.url.as_str(), detail)]
        }
    }
}

fn tls_config(tls: &TlsConfig, at: &Path<'_>) -> Vec<FieldError> {
    // The field, what it names, what is said if it names nothing (where it must), and if that is not there.
    let files = [
        ("caBundle", &tls.ca_bundle, None, "TLS config ca bundle does not exist"),
        (
            "clientCert",
            &tls.client_cert,
            Some("Using TLS requires clientCert"),
            "TLS client cert does not exist",
        ),
        (
            "clientKey",
            &tls.client_key,
            Some("Using TLS requires requires clientKey"),
            "TLS client key does not exist",
        ),
    ];
    let wrong = files.into_iter().filter_map(|(field, file, missing, absent)| {
        let (value, detail) = match file.as_str() {
            "" => ("nil", missing?),
            file if File::new(file).exists() => return None,
            file => (file, absent),
        };
        Some(FieldError::invalid(&at.child(field), value, detail))
    });
    wrong.collect()
}

/// Value in messages, with the reference's field names.
fn shown(tcp: &TcpTransport) -> BadValue {
    let text = |text: &str| {
        let mut json = Vec::new();
        encode_any(&Value::from(text), &mut json);
        String::from_utf8_lossy(&json).into_owned()
    };
    let tls = tcp.tls_config.as_ref().map_or("null".to_owned(), |tls| {
        let fields = [
            ("CABundle", &tls.ca_bundle),
            ("ClientKey", &tls.client_key),
            ("ClientCert", &tls.client_cert),
            ("TLSServerName", &tls.tls_server_name),
        ];
        let fields = fields.map(|(field, value)| format!("{}:{}", text(field), text(value)));
        format!("{{{}}}", fields.join(","))
    });
    BadValue::Text(format!("{{\"URL\":{},\"TLSConfig\":{tls}}}", text(&tcp.url)))
}
