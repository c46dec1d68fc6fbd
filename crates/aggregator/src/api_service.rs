//! `APIService`: the server that serves a version of an API group.

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_codec::base64;

/// API group of APIServices.
pub const GROUP: &str = "apiregistration.k8s.io";
/// Label that tells who manages an APIService.
pub const MANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
/// APIService of the core group, which has no name and a path of its own.
pub const LEGACY: &str = "v1.";

/// Parsed APIService.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiService {
    /// `v1.apps`
    pub name: String,
    pub uid: String,
    pub group: String,
    pub version: String,
    pub group_priority: i64,
    pub version_priority: i64,
    /// Service of the extension server; `None` for a local APIService, which this server serves itself.
    pub service: Option<ServiceReference>,
    /// CA bundle (PEM).
    pub ca_bundle: Vec<u8>,
    pub insecure_skip_tls_verify: bool,
    pub managed: Managed,
    pub available: bool,
    /// Whether its Available condition is that of a local APIService.
    pub is_local_said: bool,
}

/// Reference to a Service and its port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    pub port: i64,
}

/// Manager of an APIService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// Its creator.
    ByOthers,
    /// This server, at start.
    OnStart,
    /// This server, always.
    Always,
}

impl Managed {
    /// Value of the label.
    pub fn label(self) -> &'static str {
        match self {
            Managed::ByOthers => "",
            Managed::OnStart => "onstart",
            Managed::Always => "true",
        }
    }
}

impl ApiService {
    pub fn read(object: &Value) -> Self {
        let text = |field: &str| object.str_at(&["spec", field]).to_owned();
        let number = |field: &str| object.at(&["spec", field]).and_then(Value::as_int);
        let service = object.at(&["spec", "service"]).map(|service| ServiceReference {
            namespace: service.str_at(&["namespace"]).to_owned(),
            name: service.str_at(&["name"]).to_owned(),
            port: service.at(&["port"]).and_then(Value::as_int).unwrap_or(443),
        });
        let label = object.str_at(&["metadata", "labels", MANAGED_LABEL]);
        let kept =
            [Managed::OnStart, Managed::Always].into_iter().find(|kept| kept.label() == label);
        ApiService {
            name: object.str_at(&["metadata", "name"]).to_owned(),
            uid: object.str_at(&["metadata", "uid"]).to_owned(),
            group: text("group"),
            version: text("version"),
            group_priority: number("groupPriorityMinimum").unwrap_or(0),
            version_priority: number("versionPriority").unwrap_or(0),
            service,
            ca_bundle: ca_bundle(object),
            insecure_skip_tls_verify: insecure_skip_tls_verify(object),
            managed: kept.unwrap_or(Managed::ByOthers),
            available: Condition::is_available(object),
            is_local_said: Condition::local().is_said(object),
        }
    }

    /// Discovery path of the version.
    pub fn path(&self) -> String {
        match self.name.as_str() {
            LEGACY => format!("/api/{}", self.version),
            _ => format!("/apis/{}/{}", self.group, self.version),
        }
    }
}

/// Whether an APIService is local: this server serves it itself.
pub fn is_local(object: &Value) -> bool {
    object.at(&["spec", "service"]).is_none()
}

/// CA bundle (PEM).
pub fn ca_bundle(object: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    match base64::decode_into(object.str_at(&["spec", "caBundle"]), &mut bytes) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

pub fn insecure_skip_tls_verify(object: &Value) -> bool {
    object.at(&["spec", "insecureSkipTLSVerify"]).and_then(Value::as_bool).unwrap_or(false)
}

/// The Available condition of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

const AVAILABLE: &str = "Available";

impl Condition {
    /// Condition of a local APIService.
    pub fn local() -> Self {
        let message = "Local APIServices are always available".to_owned();
        Condition { status: "True", reason: "Local", message }
    }

    /// Whether an object has the condition Available=True.
    pub fn is_available(object: &Value) -> bool {
        available(object).is_some_and(|condition| condition.str_at(&["status"]) == "True")
    }

    /// Whether an object has exactly this condition.
    fn is_said(&self, object: &Value) -> bool {
        let Condition { status, reason, message } = self;
        available(object).is_some_and(|said| {
            let said = |field| said.str_at(&[field]);
            (said("status"), said("reason"), said("message")) == (status, reason, message)
        })
    }

    /// Writes the condition. `lastTransitionTime` changes only with the status.
    pub fn set(&self, object: &mut Value, now: Time) {
        let conditions = object.make_list(&["status"], "conditions");
        let known = conditions.iter_mut().find(|known| known.str_at(&["type"]) == AVAILABLE);
        let now = || Value::from(now.to_string().as_str());
        match known.and_then(Value::as_map_mut) {
            Some(known) => {
                if known.get("status").and_then(Value::as_str) != Some(self.status) {
                    known.insert("status", self.status.into());
                    known.insert("lastTransitionTime", now());
                }
                known.insert("reason", self.reason.into());
                known.insert("message", self.message.as_str().into());
            }
            None => conditions.push(Value::Map(Map::from_iter([
                ("type", Value::from(AVAILABLE)),
                ("status", self.status.into()),
                ("lastTransitionTime", now()),
                ("reason", self.reason.into()),
                ("message", self.message.as_str().into()),
            ]))),
        }
    }
}

fn available(object: &Value) -> Option<&Value> {
    let conditions = object.list_at(&["status", "conditions"]);
    conditions.iter().find(|condition| condition.str_at(&["type"]) == AVAILABLE)
}
