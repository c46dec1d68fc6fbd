//! `/statusz` and `/flagz`: status pages, as text and as objects (upstream: zpages).

use http::{HeaderValue, header};
use kevel_api::json_string::write_json_string;
use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_clock::{Clock, Moment};
use kevel_codec::{json, yaml};

use crate::body::Body;
use crate::handler::{Handler, Response};
use crate::negotiate::{MediaType, clauses, wants_pretty};
use crate::request::Request;
use crate::responses::{cbor_document, failure_in, form_of_failures};
use crate::version::Info;
use kevel_component::future::Pending;
use kevel_registry::resource::Cbor;

/// Name of the component on these pages.
const COMPONENT: &str = "apiserver";
const GROUP: &str = "config.k8s.io";
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
/// Version that is served with a deprecation warning.
const DEPRECATED: &str = "v1alpha1";

/// A status page.
pub trait Page: Send + Sync + 'static {
    /// Kind of the page's object.
    const KIND: &'static str;

    /// Text below the heading.
    fn text(&self) -> String;

    /// Fields of the page's object besides its metadata: names and JSON, in order.
    fn fields(&self) -> Vec<(&'static str, Vec<u8>)>;
}

/// Serves a page.
#[derive(Debug)]
pub struct PageHandler<P> {
    /// The page.
    pub page: P,
    /// Whether CBOR is supported.
    pub cbor: Cbor,
}

impl<P: Page> Handler for PageHandler<P> {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        let text = |name| request.parts.headers.get(name).and_then(|value| value.to_str().ok());
        let accept = text(header::ACCEPT).unwrap_or_default();
        let response = match page_format::<P>(accept, self.cbor) {
            Some(PageFormat::Text) => self.text(),
            Some(PageFormat::Object(media, version)) => self.object(&request, media, version),
            None => failure_in(not_acceptable(self.cbor), &form_of_failures(&request, self.cbor)),
        };
        Box::pin(std::future::ready(response))
    }
}

impl<P: Page> PageHandler<P> {
    fn text(&self) -> Response {
        let name = P::KIND.to_ascii_lowercase();
        let warning = "Warning: This endpoint is not meant to be machine parseable, has no \
                       formatting compatibility guarantees and is for debugging purposes only.";
        let text = format!("\n{COMPONENT} {name}\n{warning}\n{}", self.page.text());
        respond(text.into_bytes(), "text/plain; charset=utf-8")
    }

    fn object(&self, request: &Request, media: MediaType, version: &'static str) -> Response {
        let head = format!(
            r#"{{"kind":"{}","apiVersion":"{GROUP}/{version}","metadata":{{"name":"{COMPONENT}"}}"#,
            P::KIND
        );
        let mut document = head.into_bytes();
        for (name, value) in self.page.fields() {
            document.extend_from_slice(format!(",\"{name}\":").as_bytes());
            document.extend(value);
        }
        document.push(b'}');
        let body = match media {
            MediaType::Yaml => to_yaml(&document),
            MediaType::Cbor => to_cbor(&document),
            _ if wants_pretty(&request.parts.headers, &request.info.query) => {
                let mut pretty = Vec::new();
                json::indent(&document, &mut pretty);
                pretty
            }
            _ => {
                document.push(b'\n');
                document
            }
        };
        let media = format!("{};g={GROUP};v={version};as={}", media.name(), P::KIND);
        let mut response = respond(body, &media);
        if version == DEPRECATED {
            let name = P::KIND.to_ascii_lowercase();
            let warning = format!(
                "299 - \"This version of the {name} endpoint is deprecated. Please use a newer \
                 version.\""
            );
            if let Ok(warning) = HeaderValue::from_str(&warning) {
                response.headers_mut().insert(header::WARNING, warning);
            }
        }
        response
    }
}

enum PageFormat {
    Text,
    Object(MediaType, &'static str),
}

/// The format that the client prefers: an object only if it names the kind.
fn page_format<P: Page>(accept: &str, cbor: Cbor) -> Option<PageFormat> {
    if accept.trim().is_empty() {
        return Some(PageFormat::Text);
    }
    clauses(accept).into_iter().filter(|clause| clause.weight > 0).find_map(|clause| {
        if clause.parameter("as").is_empty() {
            let text = matches!(clause.media.as_str(), "text/plain" | "text/*" | "*/*");
            return text.then_some(PageFormat::Text);
        }
        let media = MediaType::parse(&clause.media, cbor);
        let media = media.filter(|media| *media != MediaType::Protobuf)?;
        let known = clause.parameter("as") == P::KIND && clause.parameter("g") == GROUP;
        let version = VERSIONS.into_iter().find(|version| *version == clause.parameter("v"))?;
        known.then_some(PageFormat::Object(media, version))
    })
}

fn not_acceptable(cbor: Cbor) -> StatusError {
    let types = ["application/json", "application/yaml", "text/plain", "application/cbor"];
    StatusError::not_acceptable(types.get(..if cbor.0 { 4 } else { 3 }).unwrap_or_default())
}

fn to_yaml(document: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if let Ok(decoded) = json::decode_any(document, json::Unknown::Ignore) {
        // Numbers and strings can always be encoded in YAML.
        let _ = yaml::encode_any(&decoded.value, &mut out);
    }
    out
}

fn to_cbor(document: &[u8]) -> Vec<u8> {
    let decoded = json::decode_any(document, json::Unknown::Ignore);
    decoded.map_or_else(|_| Vec::new(), |decoded| cbor_document(&decoded.value, None))
}

fn respond(body: Vec<u8>, media: &str) -> Response {
    let mut response = Response::new(Body::from(body));
    if let Ok(media) = HeaderValue::from_str(media) {
        response.headers_mut().insert(header::CONTENT_TYPE, media);
    }
    response
}

/// `/statusz`: start time and version of the server.
#[derive(Debug)]
pub struct Statusz {
    started: (Moment, Time),
    clock: Clock,
    info: Info,
    paths: Vec<String>,
}

impl Statusz {
    /// A server that starts now. `paths` are listed on the page.
    pub fn new(info: Info, mut paths: Vec<String>, clock: Clock) -> Self {
        paths.sort();
        Statusz { started: (clock.moment(), Time::now(&clock)), clock, info, paths }
    }

    /// API level without the build suffix.
    fn binary_version(&self) -> &str {
        let version = self.info.git_version.trim_start_matches('v');
        version.split_once('+').map_or(version, |(version, _)| version)
    }

    fn emulation_version(&self) -> String {
        format!("{}.{}", self.info.emulation.0, self.info.emulation.1)
    }

    fn start_time(&self) -> String {
        self.started.1.to_string()
    }
}

impl Page for Statusz {
    const KIND: &'static str = "Statusz";

    fn text(&self) -> String {
        let up = self.clock.since(self.started.0).as_secs();
        let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
        format!(
            "\nStarted:  {}\nUp:  {hours} hr {minutes:02} min {seconds:02} sec\n\
             Binary version:  {}\nEmulation version:  {}\nPaths:  {}\n",
            self.start_time(),
            self.binary_version(),
            self.emulation_version(),
            self.paths.join(" "),
        )
    }

    fn fields(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut paths = Vec::from(b"[");
        for (index, path) in self.paths.iter().enumerate() {
            paths.extend_from_slice(if index == 0 { b"" } else { b"," });
            write_json_string(&mut paths, path);
        }
        paths.push(b']');
        vec![
            ("startTime", quoted(&self.start_time())),
            ("uptimeSeconds", self.clock.since(self.started.0).as_secs().to_string().into_bytes()),
            ("goVersion", quoted(&self.info.go_version)),
            ("binaryVersion", quoted(self.binary_version())),
            ("emulationVersion", quoted(&self.emulation_version())),
            ("paths", paths),
        ]
    }
}

/// `/flagz`: flags of the command line, by name.
#[derive(Debug)]
pub struct Flagz(pub std::collections::BTreeMap<String, String>);

impl Page for Flagz {
    const KIND: &'static str = "Flagz";

    fn text(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
    }

    fn fields(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut flags = Vec::from(b"{");
        for (index, (name, value)) in self.0.iter().enumerate() {
            flags.extend_from_slice(if index == 0 { b"" } else { b"," });
            write_json_string(&mut flags, name);
            flags.push(b':');
            write_json_string(&mut flags, value);
        }
        flags.push(b'}');
        vec![("flags", flags)]
    }
}

fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_json_string(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_form_needs_an_explicit_accept_header() {
        let shown = |accept: &str| match page_format::<Flagz>(accept, Cbor(false)) {
            Some(PageFormat::Text) => "text",
            Some(PageFormat::Object(MediaType::Json, version)) => version,
            Some(PageFormat::Object(_, _)) => "yaml",
            None => "none",
        };
        for (accept, expected) in [
            ("", "text"),
            ("*/*", "text"),
            ("application/json, */*", "text"),
            ("application/json", "none"),
            ("application/json;g=config.k8s.io;v=v1beta1;as=Flagz", "v1beta1"),
            ("application/json;g=config.k8s.io;v=v1alpha1;as=Flagz", "v1alpha1"),
            ("application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz", "yaml"),
            ("application/json;g=config.k8s.io;v=v1;as=Flagz", "none"),
            ("application/json;g=config.k8s.io;v=v1beta1;as=Statusz", "none"),
            ("application/vnd.kubernetes.protobuf;g=config.k8s.io;v=v1beta1;as=Flagz", "none"),
            ("application/cbor;g=config.k8s.io;v=v1beta1;as=Flagz", "none"),
        ] {
            assert_eq!(shown(accept), expected, "{accept:?}");
        }
    }
}
