//! Audit events of requests, by stage.

mod json;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use kevel_api::quote::quote;
use kevel_api::status::{ListMeta, Status};
use kevel_api::time::MicroTime;

use super::object;
use kevel_registry::audit::Level;
use kevel_registry::user::User;
use kevel_registry::verb::Verb;

/// Audit stage of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The request has been received.
    #[default]
    RequestReceived,
    /// The response has begun; only for long-running and refused requests.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The handler panicked.
    Panic,
}

impl Stage {
    /// All stages.
    pub const ALL: [Stage; 4] =
        [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete, Stage::Panic];

    /// Name of the stage.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

/// An `Event` of `audit.k8s.io/v1`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Event {
    pub level: Level,
    pub audit_id: String,
    pub stage: Stage,
    pub request_uri: String,
    pub verb: Verb,
    /// Authenticated user; `None` if authentication failed.
    pub user: Option<Arc<User>>,
    /// Impersonated user.
    pub impersonated_user: Option<User>,
    /// Constrained verb that permitted the impersonation, if any.
    pub impersonation_constraint: String,
    pub source_ips: Vec<IpAddr>,
    pub user_agent: String,
    pub object_ref: Option<ObjectReference>,
    pub response_status: Option<ResponseStatus>,
    /// Compact JSON.
    pub request_object: Option<Bytes>,
    /// Compact JSON.
    pub response_object: Option<Bytes>,
    pub request_received_timestamp: MicroTime,
    pub stage_timestamp: MicroTime,
    pub annotations: BTreeMap<String, String>,
}

/// Object of a request (`objectRef`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ObjectReference {
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub api_group: String,
    pub api_version: String,
    pub resource_version: String,
    pub subresource: String,
}

/// Status of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseStatus {
    /// HTTP status code.
    pub code: u16,
    json: Bytes,
}

/// Beginning of an encoded Status.
const STATUS: &[u8] = br#"{"kind":"Status","apiVersion":"v1","#;

impl ResponseStatus {
    /// A status with a code only.
    pub fn code(code: u16) -> Self {
        ResponseStatus { code, json: format!(r#"{{"metadata":{{}},"code":{code}}}"#).into() }
    }

    /// A Status as JSON without kind and version.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// A Status with the response's code, which a successful Status does not have.
    pub fn of(code: u16, status: &Status) -> Self {
        let status = Status { metadata: ListMeta::default(), code, ..status.clone() };
        ResponseStatus { code, json: without_kind(&status.to_json()).into() }
    }

    /// Status of a response: its code, and all other fields if the body is a Status.
    pub fn read(code: u16, content_type: &str, body: &[u8]) -> Self {
        match object::status(content_type, body, code) {
            Some(status) => ResponseStatus { code, json: without_kind(&status).into() },
            None => ResponseStatus::code(code),
        }
    }
}

fn without_kind(status: &[u8]) -> Vec<u8> {
    let rest = status.strip_prefix(STATUS).unwrap_or_default();
    [b"{", rest].concat()
}

impl Event {
    /// The event as a JSON document with a line break at its end.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#.to_vec();
        self.write_fields(&mut out);
        out.push(b'\n');
        out
    }

    /// Appends the event as an item of a list, without kind and version.
    pub fn write_item(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_fields(out);
    }

    /// The event as a line of text (`--audit-log-format=legacy`).
    pub fn to_legacy(&self) -> String {
        let list = |items: &[String]| {
            let quoted: Vec<String> = items.iter().map(|item| quote(item)).collect();
            quoted.join(",")
        };
        let or = |text: &str, otherwise: &'static str| match text {
            "" => otherwise.to_owned(),
            text => text.to_owned(),
        };
        let user = self.user.as_deref().filter(|user| !user.name.is_empty());
        let groups = user.map(|user| list(&user.groups)).unwrap_or_default();
        let other = self.impersonated_user.as_ref();
        let ip = self.source_ips.first().map(IpAddr::to_string).unwrap_or_default();
        let namespace = self.object_ref.as_ref().map_or("", |object| &object.namespace);
        let response = self.response_status.as_ref().map(|status| status.code.to_string());
        let fields = [
            ("id", self.audit_id.clone()),
            ("stage", self.stage.name().to_owned()),
            ("ip", or(&ip, "<unknown>")),
            ("method", self.verb.to_string()),
            ("user", or(user.map_or("", |user| &user.name), "<none>")),
            ("groups", or(&groups, "<none>")),
            ("as", other.map_or_else(|| "<self>".to_owned(), |user| user.name.clone())),
            ("asgroups", or(&other.map(|user| list(&user.groups)).unwrap_or_default(), "<lookup>")),
            ("user-agent", self.user_agent.clone()),
            ("namespace", or(namespace, "<none>")),
            ("uri", self.request_uri.clone()),
            ("response", response.unwrap_or_else(|| "<deferred>".to_owned())),
        ];
        let mut line = format!("{} AUDIT:", trimmed(self.request_received_timestamp));
        for (name, value) in fields {
            // Writing to a String cannot fail.
            let _ = write!(line, " {name}={}", quote(&value));
        }
        line
    }
}

/// A time without trailing zeros.
fn trimmed(time: MicroTime) -> String {
    let text = time.to_string();
    let digits = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    format!("{digits}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        let user = User {
            name: "admin".into(),
            uid: String::new(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            extra: vec![("z".into(), vec!["1".into(), "2".into()]), ("a".into(), vec![])],
        };
        Event {
            level: Level::RequestResponse,
            audit_id: "42".into(),
            stage: Stage::ResponseComplete,
            request_uri: "/api/v1/namespaces/default/pods?a=1&b=2".into(),
            verb: Verb::Create,
            user: Some(Arc::new(user)),
            source_ips: vec![IpAddr::from([127, 0, 0, 1])],
            user_agent: "kubectl/v1.36".into(),
            object_ref: Some(ObjectReference {
                resource: "pods".into(),
                namespace: "default".into(),
                api_version: "v1".into(),
                ..ObjectReference::default()
            }),
            response_status: Some(ResponseStatus::code(201)),
            request_object: Some(Bytes::from_static(br#"{"kind":"Pod"}"#)),
            response_object: Some(Bytes::from_static(br#"{"kind":"Pod","uid":"1"}"#)),
            request_received_timestamp: MicroTime { seconds: 1_700_000_000, nanos: 120_000_000 },
            stage_timestamp: MicroTime { seconds: 1_700_000_001, nanos: 0 },
            annotations: BTreeMap::from([("b".into(), "2".into()), ("a".into(), "".into())]),
            ..Event::default()
        }
    }

    #[test]
    fn json_has_the_fields_in_the_reference_s_order() {
        let expected = concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","#,
            r#""auditID":"42","stage":"ResponseComplete","#,
            r#""requestURI":"/api/v1/namespaces/default/pods?a=1\u0026b=2","verb":"create","#,
            r#""user":{"username":"admin","groups":["system:masters","system:authenticated"],"#,
            r#""extra":{"a":[],"z":["1","2"]}},"sourceIPs":["127.0.0.1"],"#,
            r#""userAgent":"kubectl/v1.36","#,
            r#""objectRef":{"resource":"pods","namespace":"default","apiVersion":"v1"},"#,
            r#""responseStatus":{"metadata":{},"code":201},"requestObject":{"kind":"Pod"},"#,
            r#""responseObject":{"kind":"Pod","uid":"1"},"#,
            r#""requestReceivedTimestamp":"2023-11-14T22:13:20.120000Z","#,
            r#""stageTimestamp":"2023-11-14T22:13:21.000000Z","annotations":{"a":"","b":"2"}}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(event().to_json()).unwrap(), expected);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut event = Event { level: Level::Metadata, ..Event::default() };
        event.impersonated_user = Some(User { uid: "7".into(), ..User::default() });
        event.impersonation_constraint = "impersonate:user-info".into();
        let expected = concat!(
            r#"{"level":"Metadata","auditID":"","stage":"RequestReceived","requestURI":"","#,
            r#""verb":"","user":{},"impersonatedUser":{"uid":"7"},"#,
            r#""authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"#,
            r#""requestReceivedTimestamp":null,"stageTimestamp":null}"#,
        );
        let mut out = Vec::new();
        event.write_item(&mut out);
        let times = r#""0001-01-01T00:00:00.000000Z""#;
        assert_eq!(String::from_utf8(out).unwrap().replace(times, "null"), expected);
    }

    #[test]
    fn legacy_lines_are_those_of_the_reference() {
        let mut event = event();
        event.impersonated_user = Some(User { name: "jane".into(), ..User::default() });
        for (event, expected) in [
            (
                event,
                r#"2023-11-14T22:13:20.12Z AUDIT: id="42" stage="ResponseComplete" ip="127.0.0.1" method="create" user="admin" groups="\"system:masters\",\"system:authenticated\"" as="jane" asgroups="<lookup>" user-agent="kubectl/v1.36" namespace="default" uri="/api/v1/namespaces/default/pods?a=1&b=2" response="201""#,
            ),
            (
                Event::default(),
                r#"0001-01-01T00:00:00Z AUDIT: id="" stage="RequestReceived" ip="<unknown>" method="" user="<none>" groups="<none>" as="<self>" asgroups="<lookup>" user-agent="" namespace="<none>" uri="" response="<deferred>""#,
            ),
        ] {
            assert_eq!(event.to_legacy(), expected);
        }
    }

    #[test]
    fn a_status_is_kept_without_its_kind() {
        let body = concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"no","reason":"NotFound","code":404}"#,
            "\n",
        );
        let read = |body: &[u8]| ResponseStatus::read(404, "application/json", body);
        let status = read(body.as_bytes());
        let expected =
            r#"{"metadata":{},"status":"Failure","message":"no","reason":"NotFound","code":404}"#;
        assert_eq!((status.code, &*status.json), (404, expected.as_bytes()));
        let mut pretty = Vec::new();
        kevel_codec::json::indent(body.as_bytes(), &mut pretty);
        assert_eq!(read(&pretty), status);
        assert_eq!(read(br#"{"kind":"Pod","apiVersion":"v1"}"#), ResponseStatus::code(404));
    }

    #[test]
    fn status_of_a_deletion_has_the_code_of_the_answer() {
        let body = concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"7"},"#,
            r#""status":"Success","details":{"name":"a","kind":"pods","uid":"u"}}"#,
        );
        let status = ResponseStatus::read(200, "application/json", body.as_bytes());
        let expected = concat!(
            r#"{"metadata":{},"status":"Success","details":{"name":"a","kind":"pods","uid":"u"},"#,
            r#""code":200}"#,
        );
        assert_eq!(String::from_utf8_lossy(&status.json), expected);
    }
}
