//! Traces, as the file of `--tracing-config-file` wants them (upstream: `TracingOptions`).

use std::fmt;
use std::io;

use http::Uri;
use kevel_api::field_error::{FieldError, Path, aggregate};
use kevel_api::quote::quote;
use kevel_api::url::Url;
use kevel_api::value::{Map, Value};
use kevel_codec::json::strict_message;
use kevel_server::config_file;
use kevel_server::egress::{Connector, EgressSelector, EgressType};
use kevel_trace::{ExportError, Sampling, TraceProvider, export};
use tonic::transport::{Channel, Endpoint};

use crate::options::CompletedOptions;

const KIND: &str = "TracingConfiguration";
/// Name of the scheme in the reference's messages.
const SCHEME: &str = "pkg/runtime/scheme.go:111";
const FIELDS: [&str; 4] = ["apiVersion", "kind", "endpoint", "samplingRatePerMillion"];

/// Collector of a configuration that names none.
const DEFAULT_ENDPOINT: &str = "localhost:4317";
/// Port of an endpoint without one: that of gRPC's names.
const DEFAULT_PORT: u16 = 443;
const MILLION: i32 = 1_000_000;

/// Reason why spans cannot be recorded as the flag's file says.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The file cannot be read.
    #[error("failed to read tracing config: unable to read tracing configuration from {}: {error}", quote(.file))]
    Read {
        /// The file.
        file: String,
        /// Reason of the error.
        error: io::Error,
    },
    /// The file is no configuration.
    #[error("failed to read tracing config: unable to decode tracing configuration data: {0}")]
    Decode(String),
    /// The configuration is invalid.
    #[error("failed to validate tracing configuration: {0}")]
    Invalid(String),
    /// Invalid endpoint of the collector.
    #[error("cannot send spans to {}: {error}", quote(.endpoint))]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// Reason of the error.
        error: tonic::transport::Error,
    },
    /// The exporter cannot be made.
    #[error(transparent)]
    Export(#[from] ExportError),
}

/// The recorder of spans, if the flag is given. Must be called in a runtime.
pub fn provider(
    options: &CompletedOptions,
    egress: &EgressSelector,
) -> Result<Option<TraceProvider>, TracesError> {
    let file = options.flags.traces.tracing_config_file.as_str();
    if file.is_empty() {
        return Ok(None);
    }
    let text =
        std::fs::read(file).map_err(|error| TracesError::Read { file: file.to_owned(), error })?;
    let configuration = TracingConfiguration::read(&text)?;
    configuration.validate()?;
    let endpoint = configuration.endpoint.as_deref().unwrap_or(DEFAULT_ENDPOINT);
    let channel = channel(endpoint, egress)
        .map_err(|error| TracesError::Endpoint { endpoint: endpoint.to_owned(), error })?;
    let rate = configuration.sampling_rate_per_million.unwrap_or(0);
    let sampling = Sampling(u32::try_from(rate).unwrap_or(0));
    Ok(Some(export(channel, sampling, &options.server_id())?))
}

/// A connection that is made when there is something to send.
fn channel(endpoint: &str, egress: &EgressSelector) -> Result<Channel, tonic::transport::Error> {
    match GrpcTarget::of(endpoint) {
        GrpcTarget::Socket(path) => {
            let endpoint = Endpoint::from_shared(format!("unix:{path}"))?;
            Ok(endpoint.origin(Uri::from_static("http://localhost")).connect_lazy())
        }
        GrpcTarget::Address(address) => {
            let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
            let connector = Connector::new(egress.dialer(EgressType::ControlPlane));
            Ok(endpoint.connect_with_connector_lazy(connector))
        }
    }
}

/// Target of a name as gRPC understands it.
#[derive(Debug, PartialEq, Eq)]
enum GrpcTarget {
    /// Unix socket; a zero byte begins an abstract one.
    Socket(String),
    /// Host and port.
    Address(String),
}

impl GrpcTarget {
    fn of(endpoint: &str) -> Self {
        if let Some(name) = endpoint.strip_prefix("unix-abstract:") {
            return GrpcTarget::Socket(format!("\0{}", name.trim_start_matches("//")));
        }
        if let Some(path) = endpoint.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return GrpcTarget::Socket(path.to_owned());
        }
        let name = match endpoint.strip_prefix("dns:") {
            // What stands before the name is the server to be asked for it; the system's is.
            Some(name) => match name.strip_prefix("//") {
                Some(rest) => rest.split_once('/').map_or(rest, |(_, name)| name),
                None => name,
            },
            None => endpoint,
        };
        let has_port = name.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        GrpcTarget::Address(match has_port {
            true => name.to_owned(),
            false => format!("{name}:{DEFAULT_PORT}"),
        })
    }
}

/// Configuration of traces (`apiserver.config.k8s.io`).
#[derive(Debug, Default, PartialEq, Eq)]
struct TracingConfiguration {
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i32>,
}

impl TracingConfiguration {
    fn read(text: &[u8]) -> Result<Self, TracesError> {
        let (value, mut strict) =
            config_file::decode(text, KIND, SCHEME).map_err(TracesError::Decode)?;
        let empty = Map::new();
        let fields = value.as_map().unwrap_or(&empty);
        let unknown = fields.iter().filter(|(name, _)| !FIELDS.contains(name));
        strict.extend(unknown.map(|(name, _)| format!("unknown field {}", quote(name))));
        let endpoint = match fields.get("endpoint") {
            None | Some(Value::Null) => None,
            Some(Value::String(endpoint)) => Some(endpoint.to_string()),
            Some(other) => return Err(mistyped(other, "endpoint", "string")),
        };
        let rate = match fields.get("samplingRatePerMillion") {
            None | Some(Value::Null) => None,
            Some(other) => match other.as_int().and_then(|rate| i32::try_from(rate).ok()) {
                Some(rate) => Some(rate),
                None => return Err(mistyped(other, "samplingRatePerMillion", "int32")),
            },
        };
        match strict.is_empty() {
            true => Ok(TracingConfiguration { endpoint, sampling_rate_per_million: rate }),
            false => Err(TracesError::Decode(strict_message(&strict))),
        }
    }

    fn validate(&self) -> Result<(), TracesError> {
        let mut errors = Vec::new();
        if let Some(rate) = self.sampling_rate_per_million {
            let path = Path::new("samplingRatePerMillion");
            let mut wrong = |why| errors.push(FieldError::invalid(&path, i64::from(rate), why));
            if rate < 0 {
                wrong("sampling rate must be positive");
            }
            if rate > MILLION {
                wrong("sampling rate per million must be less than or equal to one million");
            }
        }
        errors.extend(self.endpoint.as_deref().and_then(endpoint_error));
        aggregate(&errors).map_or(Ok(()), |errors| Err(TracesError::Invalid(errors)))
    }
}

fn endpoint_error(endpoint: &str) -> Option<FieldError> {
    let path = Path::new("endpoint");
    let full = match endpoint.contains("//") {
        true => endpoint.to_owned(),
        false => format!("dns://{endpoint}"),
    };
    let why = match Url::parse(&full) {
        Err(error) => error,
        Ok(url) if matches!(url.scheme(), "dns" | "unix" | "unix-abstract") => return None,
        Ok(url) => format!(
            "unsupported scheme: {}.  Options are none, dns, unix, or unix-abstract.  See \
             https://github.com/grpc/grpc/blob/master/doc/naming.md",
            url.scheme()
        ),
    };
    Some(FieldError::invalid(&path, full, why))
}

/// Error of a field of another type, in the words of Go's decoder.
fn mistyped(value: &Value, field: &str, ty: &str) -> TracesError {
    let shown = match value {
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        Value::Int(number) if ty != "string" => {
            return TracesError::Decode(message(&format_args!("number {number}"), field, ty));
        }
        _ => "number",
    };
    TracesError::Decode(message(&shown, field, ty))
}

fn message(value: &dyn fmt::Display, field: &str, ty: &str) -> String {
    format!("json: cannot unmarshal {value} into Go struct field {KIND}.{field} of type {ty}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &str) -> Result<TracingConfiguration, String> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: {KIND}\n{fields}");
        let read = TracingConfiguration::read(text.as_bytes());
        read.and_then(|read| read.validate().map(|()| read)).map_err(|error| error.to_string())
    }

    #[test]
    fn configurations_are_read_as_by_the_reference() {
        assert_eq!(read("").unwrap(), TracingConfiguration::default());
        let all = read("endpoint: localhost:4317\nsamplingRatePerMillion: 1000000").unwrap();
        assert_eq!(all.endpoint.as_deref(), Some("localhost:4317"));
        assert_eq!(all.sampling_rate_per_million, Some(MILLION));
        for (fields, expected) in [
            (
                "endpoin: a",
                "failed to read tracing config: unable to decode tracing configuration data: strict \
                 decoding error: unknown field \"endpoin\"",
            ),
            (
                "endpoint: 1",
                "failed to read tracing config: unable to decode tracing configuration data: json: \
                 cannot unmarshal number into Go struct field TracingConfiguration.endpoint of type \
                 string",
            ),
            (
                "samplingRatePerMillion: -1",
                "failed to validate tracing configuration: samplingRatePerMillion: Invalid value: -1: \
                 sampling rate must be positive",
            ),
            (
                "samplingRatePerMillion: 1000001",
                "failed to validate tracing configuration: samplingRatePerMillion: Invalid value: \
                 1000001: sampling rate per million must be less than or equal to one million",
            ),
            (
                "endpoint: http://localhost:4317",
                "failed to validate tracing configuration: endpoint: Invalid value: \
                 \"http://localhost:4317\": unsupported scheme: http.  Options are none, dns, unix, \
                 or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md",
            ),
        ] {
            assert_eq!(read(fields).unwrap_err(), expected, "{fields}");
        }
    }

    #[test]
    fn endpoints_are_names_of_grpc() {
        let address = |text: &str| GrpcTarget::Address(text.to_owned());
        let socket = |text: &str| GrpcTarget::Socket(text.to_owned());
        for (endpoint, expected) in [
            ("localhost:4317", address("localhost:4317")),
            ("collector", address("collector:443")),
            ("dns:///collector:1", address("collector:1")),
            ("dns://8.8.8.8/collector:1", address("collector:1")),
            ("[::1]:4317", address("[::1]:4317")),
            ("[::1]", address("[::1]:443")),
            ("unix:///run/otel.sock", socket("/run/otel.sock")),
            ("unix:/run/otel.sock", socket("/run/otel.sock")),
            ("unix-abstract:otel", socket("\0otel")),
        ] {
            assert_eq!(GrpcTarget::of(endpoint), expected, "{endpoint}");
        }
    }
}
