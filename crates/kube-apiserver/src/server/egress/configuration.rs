//! The file of `--egress-selector-config-file`. Unknown and doubled fields are refused.

use std::path::Path as File;

use kevel_api::field_error::Path;
use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, strict_message};
use kevel_codec::yaml;

const KIND: &str = "EgressSelectorConfiguration";
/// The versions that it may be written in. Both have the same fields.
const VERSIONS: [(&str, &str); 2] =
    [("apiserver.k8s.io/v1beta1", "v1beta1"), ("apiserver.k8s.io/v1alpha1", "v1alpha1")];
/// Kinds of the same API group that do not belong into this file.
const OTHER_KINDS: [(&str, &[&str]); 4] = [
    ("apiserver.k8s.io/v1alpha1", &["AdmissionConfiguration"]),
    (
        "apiserver.config.k8s.io/v1",
        &[
            "AdmissionConfiguration",
            "AuthenticationConfiguration",
            "AuthorizationConfiguration",
            "EncryptionConfiguration",
            "TracingConfiguration",
        ],
    ),
    (
        "apiserver.config.k8s.io/v1beta1",
        &["AuthenticationConfiguration", "AuthorizationConfiguration", "TracingConfiguration"],
    ),
    (
        "apiserver.config.k8s.io/v1alpha1",
        &["AuthenticationConfiguration", "AuthorizationConfiguration", "TracingConfiguration"],
    ),
];
/// Location of the reference's scheme in its error messages.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// The ways that a server goes.
#[derive(Debug)]
pub struct EgressSelectorConfiguration {
    pub egress_selections: Option<Vec<EgressSelection>>,
}

/// The way to one network.
#[derive(Debug)]
pub struct EgressSelection {
    pub name: String,
    pub connection: Connection,
}

#[derive(Debug)]
pub struct Connection {
    /// `Direct`, `HTTPConnect` or `GRPC`.
    pub proxy_protocol: String,
    pub transport: Option<Transport>,
}

#[derive(Debug)]
pub struct Transport {
    pub tcp: Option<TcpTransport>,
    pub uds: Option<UdsTransport>,
}

#[derive(Debug)]
pub struct TcpTransport {
    pub url: String,
    pub tls_config: Option<TlsConfig>,
}

#[derive(Debug)]
pub struct UdsTransport {
    pub uds_name: String,
}

/// Files, and the name that the proxy's certificate must have, if not that of its URL.
#[derive(Debug)]
pub struct TlsConfig {
    pub ca_bundle: String,
    pub client_key: String,
    pub client_cert: String,
    pub tls_server_name: String,
}

impl EgressSelectorConfiguration {
    /// Reads the file.
    pub fn load(file: &File) -> Result<Self, String> {
        let text = std::fs::read(file).map_err(|error| {
            let shown = file.display().to_string();
            format!("unable to read egress selector configuration from {} [{error}]", quote(&shown))
        })?;
        EgressSelectorConfiguration::read(&text)
    }

    /// Reads its text.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let decoded = yaml::decode_any(text, Unknown::Report).map_err(|error| error.to_string())?;
        let (value, mut strict) = (decoded.value, decoded.strict);
        let version = version(&value, text)?;
        check(&value, &CONFIGURATION, &At { version, owner: "", path: &Path::NONE }, &mut strict)?;
        if !strict.is_empty() {
            return Err(strict_message(&strict));
        }
        let selections = present(&value, "egressSelections").and_then(Value::as_list);
        let egress_selections = selections.map(|all| all.iter().map(selection).collect());
        Ok(EgressSelectorConfiguration { egress_selections })
    }
}

/// The version of a configuration, if it is one.
fn version(value: &Value, text: &[u8]) -> Result<&'static str, String> {
    let shown = || String::from_utf8_lossy(text);
    let (version, kind) = (value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
    if kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{}'", shown()));
    }
    if version.is_empty() {
        return Err(format!("Object 'apiVersion' is missing in '{}'", shown()));
    }
    if let Some((_, version)) = VERSIONS.iter().find(|(known, _)| *known == version)
        && kind == KIND
    {
        return Ok(version);
    }
    let of_version = |(known, kinds): &(&str, &[&str])| *known == version && kinds.contains(&kind);
    if OTHER_KINDS.iter().any(of_version) {
        return Err(format!("unexpected config type: {version}, Kind={kind}"));
    }
    Err(format!(
        "no kind {} is registered for version {} in scheme {}",
        quote(kind),
        quote(version),
        quote(SCHEME)
    ))
}

/// Shape of a value, with the reference's name of its type.
enum Shape {
    Text(&'static str),
    List(&'static str, &'static Shape),
    Object(&'static str, &'static [(&'static str, Shape)]),
}

use Shape::{List, Object, Text};

const STRING: Shape = Text("string");
const CONFIGURATION: Shape = Object(
    "EgressSelectorConfiguration",
    &[
        ("apiVersion", STRING),
        ("kind", STRING),
        ("egressSelections", List("[]VERSION.EgressSelection", &SELECTION)),
    ],
);
const SELECTION: Shape = Object("EgressSelection", &[("name", STRING), ("connection", CONNECTION)]);
const CONNECTION: Shape = Object(
    "Connection",
    &[("proxyProtocol", Text("VERSION.ProtocolType")), ("transport", TRANSPORT)],
);
const TRANSPORT: Shape = Object("Transport", &[("tcp", TCP), ("uds", UDS)]);
const TCP: Shape = Object("TCPTransport", &[("url", STRING), ("tlsConfig", TLS)]);
const UDS: Shape = Object("UDSTransport", &[("udsName", STRING)]);
const TLS: Shape = Object(
    "TLSConfig",
    &[
        ("caBundle", STRING),
        ("clientKey", STRING),
        ("clientCert", STRING),
        ("tlsServerName", STRING),
    ],
);

/// Position of a value in the file.
struct At<'a> {
    version: &'static str,
    /// The type whose field it is.
    owner: &'static str,
    path: &'a Path<'a>,
}

/// Checks the shape of a value; unknown fields are recorded.
fn check(
    value: &Value,
    shape: &Shape,
    at: &At<'_>,
    strict: &mut Vec<String>,
) -> Result<(), String> {
    match (shape, value) {
        (_, Value::Null) | (Text(_), Value::String(_)) => Ok(()),
        (List(_, item), Value::List(items)) => {
            items.iter().enumerate().try_for_each(|(index, value)| {
                check(value, item, &At { path: &at.path.index(index), ..*at }, strict)
            })
        }
        (Object(owner, fields), Value::Map(map)) => map.iter().try_for_each(|(name, value)| {
            let path = at.path.child(name);
            match fields.iter().find(|(known, _)| *known == name) {
                Some((_, shape)) => check(value, shape, &At { owner, path: &path, ..*at }, strict),
                None => {
                    strict.push(format!("unknown field {}", quote(&path.to_string())));
                    Ok(())
                }
            }
        }),
        (Text(ty) | List(ty, _), found) => Err(mismatch(found, ty, at)),
        (Object(ty, _), found) => Err(mismatch(found, &format!("VERSION.{ty}"), at)),
    }
}

/// A value of another type, as Go's decoder tells of it: by the path without the places in lists.
fn mismatch(found: &Value, ty: &str, at: &At<'_>) -> String {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "number",
    };
    let path = at.path.to_string();
    let path: String =
        path.split('[').map(|part| part.rsplit(']').next().unwrap_or(part)).collect();
    let ty = ty.replace("VERSION", at.version);
    match at.owner {
        "" => format!("json: cannot unmarshal {found} into Go value of type {ty}"),
        owner => {
            format!(
                "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {ty}"
            )
        }
    }
}

fn selection(value: &Value) -> EgressSelection {
    let connection = value.at(&["connection"]).unwrap_or(&Value::Null);
    EgressSelection {
        // What it was called once.
        name: match value.str_at(&["name"]) {
            "master" => "controlplane".to_owned(),
            name => name.to_owned(),
        },
        connection: Connection {
            proxy_protocol: text(connection, "proxyProtocol"),
            transport: present(connection, "transport").map(|transport| Transport {
                tcp: present(transport, "tcp").map(tcp),
                uds: present(transport, "uds")
                    .map(|uds| UdsTransport { uds_name: text(uds, "udsName") }),
            }),
        },
    }
}

fn tcp(value: &Value) -> TcpTransport {
    TcpTransport {
        url: text(value, "url"),
        tls_config: present(value, "tlsConfig").map(|tls| TlsConfig {
            ca_bundle: text(tls, "caBundle"),
            client_key: text(tls, "clientKey"),
            client_cert: text(tls, "clientCert"),
            tls_server_name: text(tls, "tlsServerName"),
        }),
    }
}

fn present<'v>(value: &'v Value, field: &str) -> Option<&'v Value> {
    value.at(&[field]).filter(|value| !value.is_null())
}

fn text(value: &Value, field: &str) -> String {
    value.str_at(&[field]).to_owned()
}
