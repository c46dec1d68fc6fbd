//! Content negotiation: media types of responses and of request bodies.

use http::{HeaderMap, header};
use kevel_api::status::StatusError;

use kevel_registry::failure::bare_with;
use kevel_registry::list_options::truthy;
use kevel_registry::resource::Cbor;

/// A media type of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`
    #[default]
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// `application/cbor`, if enabled.
    Cbor,
}

/// Shape of objects in a response.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Shape {
    /// Whole objects.
    #[default]
    Whole,
    /// A Table; the accepted version of `meta.k8s.io`.
    Table(String),
    /// PartialObjectMetadata.
    Metadata(String),
    /// PartialObjectMetadataList.
    MetadataList(String),
}

/// Negotiated form of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Media type.
    pub media: MediaType,
    /// Shape of the objects.
    pub shape: Shape,
    /// Whether the text is indented.
    pub pretty: bool,
    /// For the in-process client: objects and failures stay trees and are not encoded.
    pub in_process: bool,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CBOR: &str = "application/cbor";
const JSON_STREAM: &str = "application/json;stream=watch";
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const CBOR_STREAM: &str = "application/cbor-seq";

/// Media types of request bodies and of responses other than lists and watches, in the order of error messages.
pub fn body_types(cbor: Cbor) -> &'static [&'static str] {
    if cbor.0 { &[JSON, YAML, PROTOBUF, CBOR] } else { &[JSON, YAML, PROTOBUF] }
}

/// Media types of lists and watches.
pub fn list_types(cbor: Cbor) -> &'static [&'static str] {
    match cbor.0 {
        true => &[JSON, YAML, PROTOBUF, CBOR, JSON_STREAM, PROTOBUF_STREAM, CBOR_STREAM],
        false => &[JSON, YAML, PROTOBUF, JSON_STREAM, PROTOBUF_STREAM],
    }
}

/// Media types of watches.
pub fn stream_types(cbor: Cbor) -> &'static [&'static str] {
    match cbor.0 {
        true => &[JSON_STREAM, PROTOBUF_STREAM, CBOR_STREAM],
        false => &[JSON_STREAM, PROTOBUF_STREAM],
    }
}

/// All media types, preferred first.
fn media_types(cbor: Cbor) -> &'static [MediaType] {
    use MediaType::{Cbor, Json, Protobuf, Yaml};
    if cbor.0 { &[Json, Yaml, Protobuf, Cbor] } else { &[Json, Yaml, Protobuf] }
}

impl MediaType {
    /// Name in `Content-Type`.
    pub fn name(self) -> &'static str {
        match self {
            MediaType::Json => JSON,
            MediaType::Yaml => YAML,
            MediaType::Protobuf => PROTOBUF,
            MediaType::Cbor => CBOR,
        }
    }

    /// Name in the `Content-Type` of a watch.
    pub fn stream_name(self) -> &'static str {
        match self {
            MediaType::Protobuf => PROTOBUF_STREAM,
            // `application/cbor` would mean a single item.
            MediaType::Cbor => CBOR_STREAM,
            _ => JSON,
        }
    }

    /// The first media type that matches a name in an Accept header.
    pub(crate) fn parse(name: &str, cbor: Cbor) -> Option<Self> {
        media_types(cbor).iter().copied().find(|media| media.is_meant(name))
    }

    /// Whether a name in an Accept header matches this media type, also as a wildcard.
    fn is_meant(self, name: &str) -> bool {
        name == self.name() || matches!(name, "*/*" | "application/*" | "")
    }
}

/// Media type of a request's body.
pub fn body(content_type: &str, cbor: Cbor) -> Result<MediaType, StatusError> {
    let (name, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let name = name.trim().to_ascii_lowercase();
    let named = |media: &MediaType| media.name() == name || content_type.is_empty();
    let media = media_types(cbor).iter().copied().find(named);
    let media = media.filter(|_| are_parameters(parameters));
    media.ok_or_else(|| StatusError::unsupported_media_type(body_types(cbor)))
}

/// Whether the text after a media type is valid parameters: `name=value`, none of them twice.
fn are_parameters(text: &str) -> bool {
    let mut names = Vec::new();
    let mut parts = text.split(';').map(str::trim).peekable();
    while let Some(part) = parts.next() {
        if part.is_empty() && parts.peek().is_none() {
            return true;
        }
        let Some((name, value)) = part.split_once('=') else { return false };
        let name = name.to_ascii_lowercase();
        let quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
        if !is_token(&name) || !(quoted || is_token(value)) || names.contains(&name) {
            return false;
        }
        names.push(name);
    }
    true
}

/// A token of RFC 2045.
fn is_token(text: &str) -> bool {
    let of_token = |byte: u8| byte.is_ascii_graphic() && !br#"()<>@,;:\"/[]?="#.contains(&byte);
    !text.is_empty() && text.bytes().all(of_token)
}

/// Forms that a response may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Objects: whole, as a Table or as metadata.
    Objects {
        /// Whether whole objects can be encoded in protobuf.
        protobuf: bool,
        /// Whether Tables are supported.
        table: bool,
        /// Whether CBOR is supported.
        cbor: Cbor,
    },
    /// Documents of one shape, such as failures and discovery.
    Documents(Cbor),
}

impl Offer {
    fn cbor(self) -> Cbor {
        let (Offer::Objects { cbor, .. } | Offer::Documents(cbor)) = self;
        cbor
    }
}

/// Negotiates the form of the response to a request.
pub fn answer(
    headers: &HeaderMap,
    query: &[(String, String)],
    offer: Offer,
) -> Result<Accepted, StatusError> {
    accept(accept_header(headers), wants_pretty(headers, query), offer)
}

/// The Accept header of a request.
pub(crate) fn accept_header(headers: &HeaderMap) -> &str {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether a go-restful route that produces these types matches an Accept header, by the names of the media types
/// alone.
pub(crate) fn is_routed(header: &str, produced: &[&str]) -> bool {
    let names = header.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
    header.is_empty() || names.into_iter().any(|name| name == "*/*" || produced.contains(&name))
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

/// A clause of an Accept header.
pub(crate) struct Clause {
    /// Quality value in thousandths.
    pub weight: u32,
    pub media: String,
    parameters: Vec<(String, String)>,
}

impl Clause {
    /// Value of a parameter; empty if absent.
    pub fn parameter(&self, name: &str) -> &str {
        // Of duplicates, the last one counts.
        let found = self.parameters.iter().rfind(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// Media type of a document, if the clause accepts one.
    pub fn document(&self, cbor: Cbor) -> Option<MediaType> {
        self.meets(Offer::Documents(cbor)).map(|(media, _)| media)
    }

    /// The preferred form of an offer that the clause accepts.
    fn meets(&self, offer: Offer) -> Option<(MediaType, Shape)> {
        let all = media_types(offer.cbor()).iter().copied();
        let meant = all.filter(|media| media.is_meant(&self.media));
        meant.filter(|media| self.allows(*media)).find_map(|media| {
            let shape = self.shape(media, offer)?;
            // Metadata has a protobuf encoding even where objects have none.
            let written = media != MediaType::Protobuf
                || shape != Shape::Whole
                || !matches!(offer, Offer::Objects { protobuf: false, .. });
            written.then_some((media, shape))
        })
    }

    /// Requested shape; `None` if it is not offered.
    fn shape(&self, media: MediaType, offer: Offer) -> Option<Shape> {
        let [shape, group, version] = ["as", "g", "v"].map(|name| self.parameter(name));
        if [shape, group, version].iter().all(|said| said.is_empty()) {
            return Some(Shape::Whole);
        }
        let known = group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1");
        let Offer::Objects { table, .. } = offer else { return None };
        if !known {
            return None;
        }
        let version = version.to_owned();
        match shape {
            "Table" if media != MediaType::Protobuf && table => Some(Shape::Table(version)),
            "PartialObjectMetadata" => Some(Shape::Metadata(version)),
            "PartialObjectMetadataList" => Some(Shape::MetadataList(version)),
            _ => None,
        }
    }

    /// Whether a media type supports the requested stream and version.
    fn allows(&self, media: MediaType) -> bool {
        let stream = match self.parameter("stream") {
            "" => true,
            stream => stream == "watch" && media != MediaType::Yaml,
        };
        stream && matches!(self.parameter("sv"), "" | "v1")
    }
}

/// Clauses of an Accept header, by descending quality value, and exact types before wildcards. As in the reference, a
/// quality value of zero is the lowest and does not exclude the type.
pub(crate) fn clauses(header: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = Vec::new();
    for clause in header.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = match parts.next().unwrap_or_default() {
            "*" => "*/*",
            media => media,
        };
        let typed =
            media.split_once('/').is_some_and(|(_, sub)| !sub.is_empty() && !sub.contains('/'));
        if !typed && !header.is_empty() {
            continue;
        }
        let parameters: Vec<(String, String)> = parts
            .filter_map(|p| p.split_once('='))
            .map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()))
            .filter(|(_, value)| !value.is_empty() && !value.contains('='))
            .collect();
        let mut clause = Clause { weight: 0, media: media.to_owned(), parameters };
        let weight = match clause.parameter("q") {
            "" => 1.0,
            weight => weight.parse::<f32>().unwrap_or_default(),
        };
        clause.weight = (weight.max(0.0) * 1000.0) as u32;
        clauses.push(clause);
    }
    clauses.sort_by_key(|clause| (std::cmp::Reverse(clause.weight), clause.media.contains('*')));
    clauses
}

/// Negotiates the form of a response: the first clause that can be served.
pub fn accept(header: &str, pretty: bool, offer: Offer) -> Result<Accepted, StatusError> {
    for clause in clauses(header) {
        if let Some((media, shape)) = clause.meets(offer) {
            let pretty = pretty || clause.parameter("pretty") == "1";
            return Ok(Accepted { media, shape, pretty, in_process: false });
        }
    }
    Err(StatusError::not_acceptable(body_types(offer.cbor())))
}

/// The 406 that lists these media types.
pub fn not_acceptable(types: &[&str]) -> StatusError {
    let types = types.join(", ");
    bare_with(406, &format!("406: Not Acceptable\n\nAvailable representations: {types}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_form_that_can_be_served_is_chosen() {
        use MediaType::{Json, Protobuf, Yaml};
        let offer = Offer::Objects { protobuf: true, table: true, cbor: Cbor(false) };
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
            ("application/json;v=v1;g=meta.k8s.io,application/yaml", Yaml, Shape::Whole),
            ("application/*", Json, Shape::Whole),
            ("*/*,application/yaml", Yaml, Shape::Whole),
            ("application/json;q=0", Json, Shape::Whole),
            ("application/yaml;stream=watch,*/*", Json, Shape::Whole),
        ] {
            let accepted = accept(header, false, offer).unwrap();
            assert_eq!((accepted.media, accepted.shape), (media, shape), "{header}");
        }
        for (header, offer) in [
            ("text/html", offer),
            ("application", offer),
            ("application/json;as=Table", offer),
            ("application/cbor", offer),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", Offer::Documents(Cbor(true))),
            (
                "application/vnd.kubernetes.protobuf",
                Offer::Objects { protobuf: false, table: true, cbor: Cbor(true) },
            ),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                Offer::Objects { protobuf: true, table: false, cbor: Cbor(false) },
            ),
        ] {
            let error = accept(header, false, offer).unwrap_err();
            assert_eq!(error.status().code, 406, "{header}");
        }
    }

    #[test]
    fn cbor_is_the_last_choice_where_it_is_spoken() {
        let offer = Offer::Objects { protobuf: false, table: true, cbor: Cbor(true) };
        for (header, media, shape) in [
            ("*/*", MediaType::Json, Shape::Whole),
            ("application/*", MediaType::Json, Shape::Whole),
            ("application/cbor", MediaType::Cbor, Shape::Whole),
            ("application/cbor,application/json;q=0.9", MediaType::Cbor, Shape::Whole),
            ("application/cbor;q=0.9,application/json", MediaType::Json, Shape::Whole),
            ("application/cbor;stream=watch", MediaType::Cbor, Shape::Whole),
            (
                "application/cbor;as=Table;v=v1;g=meta.k8s.io",
                MediaType::Cbor,
                Shape::Table("v1".into()),
            ),
        ] {
            let accepted = accept(header, false, offer).unwrap();
            assert_eq!((accepted.media, accepted.shape), (media, shape), "{header}");
        }
        // `application/cbor-seq` is the content type of watches and cannot be requested.
        let error = accept("application/cbor-seq", false, offer).unwrap_err();
        assert!(error.status().message.ends_with("application/cbor"), "{error}");
    }

    #[test]
    fn routes_go_by_names_alone() {
        for (header, routed) in [
            ("", true),
            ("*/*", true),
            ("text/html, application/json;q=0", true),
            ("application/*", false),
            ("text/html", false),
        ] {
            let produced = body_types(Cbor(false));
            assert_eq!(is_routed(header, produced), routed, "{header}");
        }
    }

    #[test]
    fn a_body_says_its_form() {
        for (said, form) in [
            ("", Some(MediaType::Json)),
            ("APPLICATION/JSON", Some(MediaType::Json)),
            ("application/json; charset=utf-8;", Some(MediaType::Json)),
            ("application/yaml;a=\"b c\"", Some(MediaType::Yaml)),
            ("application/json;charset", None),
            ("application/json;a=b;a=b", None),
            ("application/x-yaml", None),
            ("*/*", None),
            ("application/cbor", None),
        ] {
            assert_eq!(body(said, Cbor(false)).ok(), form, "{said}");
        }
        assert_eq!(body("application/cbor", Cbor(true)).ok(), Some(MediaType::Cbor));
    }
}
