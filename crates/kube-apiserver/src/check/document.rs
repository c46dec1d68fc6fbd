//! InputDocuments to check, and what has to be known of them before they are sent.

use std::sync::Arc;

use bytes::Bytes;
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};
use kevel_codec::yaml;
use kevel_server::incoming::MAX_BODY;

use super::files::ManifestFile;
use super::finding::{CheckFinding, FindingLevel, FindingPlace};
use super::locate::field_of;
use super::split::{leading_lines, split};

/// Most lists in each other: a List may be an item of a List.
const MAX_NESTED_LISTS: usize = 8;

/// Most documents: each is kept until the end.
const MAX_DOCUMENTS: usize = 1_000_000;

/// An object to check.
#[derive(Clone, Debug)]
pub struct CheckedDocument {
    /// Place in its file.
    pub place: DocumentPlace,
    /// `apps/v1`
    pub api_version: String,
    /// `Deployment`
    pub kind: String,
    /// `metadata.name`, or `metadata.generateName`.
    pub name: String,
    /// `metadata.namespace`
    pub namespace: String,
    /// Body of the request.
    pub body: Bytes,
    /// Media type of the body.
    pub media_type: &'static str,
}

/// Place of a document, or of an item of a list, in a file.
#[derive(Clone, Debug)]
pub struct DocumentPlace {
    /// File.
    pub file: Arc<str>,
    /// Line at which the text begins, counted from 1.
    pub line: usize,
    /// Text of the whole document, which findings look for fields in.
    pub text: Bytes,
    /// Whether the text is JSON.
    pub json: bool,
    /// Path of the item in the document: `items[3]`; empty if it is the document itself.
    pub item: String,
}

impl DocumentPlace {
    /// Line in the file at which the content begins.
    pub fn first_line(&self) -> usize {
        self.line + leading_lines(&self.text)
    }

    /// Path of a field in the document.
    pub fn path_of(&self, field: &str) -> String {
        let path = [self.item.as_str(), field].into_iter().filter(|path| !path.is_empty());
        path.collect::<Vec<_>>().join(".")
    }

    /// Lines in the file of fields, by their paths in the document.
    pub fn lines_of(&self, paths: &[String]) -> Vec<usize> {
        let paths = paths.iter().map(String::as_str);
        let lines = match self.json && self.text.contains(&b'\t') {
            // YAML has no tabs between tokens; those in strings do not matter to the lines.
            true => yaml::lines_of(&without_tabs(&self.text), paths),
            false => yaml::lines_of(&self.text, paths),
        };
        let first = self.first_line();
        lines.into_iter().map(|line| line.map_or(first, |line| self.line + line - 1)).collect()
    }
}

fn without_tabs(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if *byte == b'\t' { b' ' } else { *byte }).collect()
}

/// InputDocuments of files, in order, and what is wrong with texts that are none.
#[derive(Debug, Default)]
pub struct InputDocuments {
    /// Objects.
    pub objects: Vec<CheckedDocument>,
    /// Parts that cannot be read.
    pub findings: Vec<CheckFinding>,
}

impl InputDocuments {
    /// Reads files.
    pub fn read(files: Vec<ManifestFile>) -> Self {
        let mut documents = InputDocuments::default();
        for file in files {
            let (name, bytes): (Arc<str>, _) = (file.name.into(), Bytes::from(file.bytes));
            for part in split(&bytes) {
                let text = bytes.slice(part.bytes);
                let (line, json) = (part.line, part.json);
                let (file, item) = (name.clone(), String::new());
                documents.document(DocumentPlace { file, line, text, json, item });
            }
        }
        documents
    }

    fn document(&mut self, mut place: DocumentPlace) {
        let DecodedText { value, json, text, repeated } = match decode(&place) {
            Ok(decoded) => decoded,
            Err(error) => {
                let message = format!("error parsing {}: {error}", place.file);
                return self.wrong(&place, "ParseError", message);
            }
        };
        place.json = json;
        if value.is_null() {
            return;
        }
        if items(&value).is_some() {
            if let Some(repeated) = repeated {
                let message = format!("strict decoding error: {repeated}");
                self.wrong(&place, "BadRequest", message);
            }
            return self.list(&place, &value, 0);
        }
        let body = match text {
            // A cluster is sent JSON, which is shorter: what fits there must fit here.
            Some(text) if place.text.len() > MAX_BODY => (text, "application/json"),
            Some(_) => (place.text.clone(), "application/yaml"),
            None => (place.text.clone(), "application/json"),
        };
        self.object(place, &value, body);
    }

    fn object(&mut self, place: DocumentPlace, value: &Value, body: (Bytes, &'static str)) {
        if self.objects.len() == MAX_DOCUMENTS {
            let message = format!("there are more than {MAX_DOCUMENTS} documents");
            return self.wrong(&place, "TooManyDocuments", message);
        }
        let of = |path: &[&str]| value.str_at(path).to_owned();
        let (api_version, kind) = (of(&["apiVersion"]), of(&["kind"]));
        // The messages of kubectl, without the object that they repeat.
        for (field, missing) in [(&kind, "Kind"), (&api_version, "apiVersion")] {
            if field.is_empty() {
                let message = format!("Object '{missing}' is missing");
                return self.wrong(&place, "ParseError", message);
            }
        }
        let name = match of(&["metadata", "name"]) {
            name if name.is_empty() => of(&["metadata", "generateName"]),
            name => name,
        };
        let namespace = of(&["metadata", "namespace"]);
        let (body, media_type) = body;
        self.objects.push(CheckedDocument {
            place,
            api_version,
            kind,
            name,
            namespace,
            body,
            media_type,
        });
    }

    /// Adds the items of a list, as kubectl does: those that do not say their kind have that of the list.
    fn list(&mut self, place: &DocumentPlace, list: &Value, depth: usize) {
        let (api_version, kind) = (list.str_at(&["apiVersion"]), list.str_at(&["kind"]));
        let kind = kind.strip_suffix("List").unwrap_or_default();
        for (at, item) in items(list).unwrap_or_default().iter().enumerate() {
            let path = format!("items[{at}]");
            let item_path = match place.item.as_str() {
                "" => path,
                outer => format!("{outer}.{path}"),
            };
            let place = DocumentPlace { item: item_path, ..place.clone() };
            if items(item).is_some() && depth < MAX_NESTED_LISTS {
                self.list(&place, item, depth + 1);
                continue;
            }
            let mut item = item.clone();
            if let Some(fields) = item.as_map_mut().filter(|fields| !fields.contains_key("kind"))
                && !kind.is_empty()
            {
                fields.insert("kind", kind.into());
                fields.insert("apiVersion", api_version.into());
            }
            let mut text = Vec::new();
            json::encode_any(&item, &mut text);
            self.object(place, &item, (text.into(), "application/json"));
        }
    }

    fn wrong(&mut self, place: &DocumentPlace, reason: &'static str, message: String) {
        self.findings.push(CheckFinding {
            place: FindingPlace::of(place, field_of(&message, "")),
            object: None,
            level: FindingLevel::Error,
            reason: reason.into(),
            field: String::new(),
            status: message.clone(),
            message,
        });
    }
}

/// Text that was read as a tree.
struct DecodedText {
    value: Value,
    /// Whether the text is JSON.
    json: bool,
    /// JSON of a YAML text.
    text: Option<Bytes>,
    /// Keys that stand there twice.
    repeated: Option<String>,
}

// reference message
fn decode(place: &DocumentPlace) -> Result<DecodedText, String> {
    let mut refused = None;
    if place.json {
        match json::decode_any(&place.text, Unknown::Report) {
            Ok(decoded) => {
                let repeated: Vec<String> =
                    decoded.strict.iter().map(ToString::to_string).collect();
                let repeated = (!repeated.is_empty()).then(|| repeated.join(", "));
                return Ok(DecodedText { value: decoded.value, json: true, text: None, repeated });
            }
            Err(error) => refused = Some(error.to_string()),
        }
    }
    let converted = yaml::to_json(&place.text).map_err(|error| {
        refused.unwrap_or_else(|| format!("error converting YAML to JSON: {error}"))
    })?;
    let decoded = json::decode_any(&converted.text, Unknown::Ignore);
    let value = decoded.map_err(|error| error.to_string())?.value;
    let text = Some(Bytes::from(converted.text));
    Ok(DecodedText { value, json: false, text, repeated: converted.duplicates })
}

/// Items of a list.
fn items(value: &Value) -> Option<&[Value]> {
    let is_list = value.str_at(&["kind"]).ends_with("List");
    value.at(&["items"]).filter(|_| is_list)?.as_list()
}
