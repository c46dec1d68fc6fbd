//! Which form an answer takes, and which form a request's body has.

use http::{HeaderMap, header};
use kevel_api::status::StatusError;

use crate::failure::bare_with;
use crate::list_options::truthy;

/// A form that objects are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`
    #[default]
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// What an answer shows of an object.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Shape {
    /// Objects as they are.
    #[default]
    Whole,
    /// Rows for people; the version of `meta.k8s.io` that is accepted.
    Table(String),
    /// Metadata only.
    Metadata(String),
    /// The metadata of a list's items.
    MetadataList(String),
}

/// The form that a client accepts best.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// How it is written.
    pub media: MediaType,
    /// What of the objects is written.
    pub shape: Shape,
    /// Indented for people.
    pub pretty: bool,
    /// Not written where it need not be: the server's own client takes trees and failures as they are.
    pub in_process: bool,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What bodies may be written in, as error messages list it.
pub const BODY_TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];
/// What answers may be written in, as error messages list it.
pub const ANSWER_TYPES: [&str; 5] = [
    JSON,
    YAML,
    PROTOBUF,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

impl MediaType {
    /// The name that `Content-Type` has.
    pub fn name(self) -> &'static str {
        match self {
            MediaType::Json => JSON,
            MediaType::Yaml => YAML,
            MediaType::Protobuf => PROTOBUF,
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            JSON | "*/*" | "application/*" | "" => Some(MediaType::Json),
            YAML | "application/x-yaml" | "text/yaml" => Some(MediaType::Yaml),
            PROTOBUF => Some(MediaType::Protobuf),
            _ => None,
        }
    }
}

/// The form of a request's body.
pub fn body(content_type: &str) -> Result<MediaType, StatusError> {
    let name = content_type.split(';').next().unwrap_or_default().trim();
    MediaType::parse(&name.to_ascii_lowercase())
        .filter(|_| !name.contains('*'))
        .ok_or_else(|| StatusError::unsupported_media_type(&BODY_TYPES))
}

/// The form of the answer to a request.
pub fn answer(
    headers: &HeaderMap,
    query: &[(String, String)],
    protobuf: bool,
) -> Result<Accepted, StatusError> {
    let header = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept(header.unwrap_or_default(), wants_pretty(headers, query), protobuf)
}

/// Whether the response is indented: on request, and for browsers and curl.
pub(crate) fn wants_pretty(headers: &HeaderMap, query: &[(String, String)]) -> bool {
    let asked = query.iter().find(|(key, _)| key == "pretty");
    let person = || {
        let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let agent = agent.unwrap_or_default();
        ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| agent.starts_with(name))
    };
    asked.map_or_else(person, |(_, value)| truthy(value))
}

/// A part of an Accept header.
pub(crate) struct Clause {
    /// In thousandths.
    pub weight: u32,
    pub media: String,
    parameters: Vec<(String, String)>,
}

impl Clause {
    /// What a parameter says; empty if it is not there.
    pub fn parameter(&self, name: &str) -> &str {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

/// The parts of an Accept header, those with the highest weight first.
pub(crate) fn clauses(header: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = Vec::new();
    for clause in header.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        if media.is_empty() && !header.trim().is_empty() {
            continue;
        }
        let parameters: Vec<(String, String)> = parts
            .filter_map(|p| p.split_once('='))
            .map(|(k, v)| (k.trim().to_ascii_lowercase(), v.trim().trim_matches('"').to_owned()))
            .collect();
        let mut clause = Clause { weight: 0, media, parameters };
        let weight = clause.parameter("q").parse::<f32>().unwrap_or(1.0);
        clause.weight = (weight.clamp(0.0, 1.0) * 1000.0) as u32;
        clauses.push(clause);
    }
    clauses.sort_by_key(|clause| std::cmp::Reverse(clause.weight));
    clauses
}

/// The form of an answer: the first clause with the highest weight that can be served.
pub fn accept(header: &str, pretty: bool, protobuf: bool) -> Result<Accepted, StatusError> {
    for clause in clauses(header).into_iter().filter(|clause| clause.weight > 0) {
        let Some(media) = MediaType::parse(&clause.media) else { continue };
        let get = |name: &str| clause.parameter(name);
        let version = get("v").to_owned();
        let known = get("g") == "meta.k8s.io" && matches!(version.as_str(), "v1" | "v1beta1");
        let shape = match get("as") {
            "" => Shape::Whole,
            "Table" if known && media != MediaType::Protobuf => Shape::Table(version),
            "PartialObjectMetadata" if known => Shape::Metadata(version),
            "PartialObjectMetadataList" if known => Shape::MetadataList(version),
            _ => continue,
        };
        // Metadata has a protobuf form even where objects have none.
        if media == MediaType::Protobuf && !protobuf && shape == Shape::Whole {
            continue;
        }
        let pretty = pretty || get("pretty") == "1" || get("pretty") == "true";
        return Ok(Accepted { media, shape, pretty, in_process: false });
    }
    Err(not_acceptable(&BODY_TYPES))
}

/// The 406 for a client that accepts none of these.
pub fn not_acceptable(types: &[&str]) -> StatusError {
    let types = types.join(", ");
    bare_with(406, &format!("406: Not Acceptable\n\nAvailable representations: {types}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_form_that_can_be_served_is_chosen() {
        use MediaType::*;
        for (header, media, shape) in [
            ("", Json, Shape::Whole),
            ("*/*", Json, Shape::Whole),
            ("application/yaml", Yaml, Shape::Whole),
            ("application/vnd.kubernetes.protobuf,application/json", Protobuf, Shape::Whole),
            ("text/html;q=0.9, application/json;q=0.1", Json, Shape::Whole),
            ("application/json;q=0.1, application/yaml;q=0.5", Yaml, Shape::Whole),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Json,
                Shape::Table("v1".into()),
            ),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/yaml", Yaml, Shape::Whole),
        ] {
            let accepted = accept(header, false, true).unwrap();
            assert_eq!((accepted.media, accepted.shape), (media, shape), "{header}");
        }
        assert_eq!(accept("text/html", false, true).unwrap_err().status().code, 406);
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf", false, false).unwrap_err().status().code,
            406
        );
    }
}
