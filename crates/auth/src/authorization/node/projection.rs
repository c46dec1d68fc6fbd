//! The parts of stored objects that the graph is made of, as texts in the objects' wire bytes.

use std::sync::LazyLock;

use kevel_api::json_string::write_json_string;
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};
use kevel_store::cache::{FieldPath, Object};

use super::graph::{Kind, MIRROR};

/// Parts of a Pod. The first must be the node's name.
const POD: [&str; 11] = [
    "spec.nodeName",
    "spec.serviceAccountName",
    "spec.imagePullSecrets",
    "spec.volumes",
    "spec.initContainers",
    "spec.containers",
    "spec.ephemeralContainers",
    "spec.resourceClaims",
    "status.resourceClaimStatuses",
    "status.extendedResourceClaimStatus",
    "metadata.annotations",
];
/// Parts that are strings: their texts have no quotes.
const STRINGS: [&str; 2] = ["spec.nodeName", "spec.serviceAccountName"];
const VOLUME: [&str; 1] = ["spec"];
const OF_NODE: [&str; 1] = ["spec.nodeName"];

static POD_PATHS: LazyLock<Vec<FieldPath>> = LazyLock::new(|| paths(&POD));
static VOLUME_PATHS: LazyLock<Vec<FieldPath>> = LazyLock::new(|| paths(&VOLUME));
static OF_NODE_PATHS: LazyLock<Vec<FieldPath>> = LazyLock::new(|| paths(&OF_NODE));

fn paths(names: &[&str]) -> Vec<FieldPath> {
    names.iter().map(|name| FieldPath::new(name, name)).collect()
}

/// The parts of an object that decide its place in the graph.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Projection<'o> {
    kind: Kind,
    texts: Vec<&'o str>,
}

impl<'o> Projection<'o> {
    pub fn new(kind: Kind, object: &'o Object) -> Self {
        let paths = match kind {
            Kind::Pod => &POD_PATHS,
            Kind::Volume => &VOLUME_PATHS,
            _ => &OF_NODE_PATHS,
        };
        let mut texts = object.texts_at(paths);
        if kind == Kind::Pod {
            for (name, text) in POD.iter().zip(&mut texts) {
                if needle(name).is_some_and(|needle| !text.contains(needle)) {
                    *text = "";
                }
            }
        }
        Projection { kind, texts }
    }

    /// Whether the object is in no relation to any node.
    pub fn is_without_node(&self) -> bool {
        self.kind != Kind::Volume && self.texts.first().is_none_or(|name| name.is_empty())
    }

    /// A tree of the parts alone, and of the object's name.
    pub fn decode(&self, object: &Object) -> Result<Value, json::Error> {
        let mut text = Vec::new();
        let names = [("namespace", object.namespace()), ("name", object.name())];
        let names = names.map(|(key, name)| {
            let mut member = format!("\"{key}\":").into_bytes();
            write_json_string(&mut member, name);
            member
        });
        text.extend_from_slice(b"{\"metadata\":{");
        text.extend_from_slice(&names.join(&b','));
        self.push_parts(&mut text, "metadata.", b",");
        if self.kind == Kind::Volume {
            let spec = self.texts.first().filter(|spec| !spec.is_empty());
            let spec = spec.copied().unwrap_or("{}");
            text.extend_from_slice(format!("}},\"spec\":{spec}}}").as_bytes());
        } else {
            text.extend_from_slice(b"},\"spec\":{");
            self.push_parts(&mut text, "spec.", b"");
            text.extend_from_slice(b"},\"status\":{");
            self.push_parts(&mut text, "status.", b"");
            text.extend_from_slice(b"}}");
        }
        let decoded = json::decode_any(&text, Unknown::Ignore);
        decoded.map(|decoded| decoded.value)
    }

    /// Writes the members of a section that the object has, each behind a comma but the first.
    fn push_parts(&self, out: &mut Vec<u8>, section: &str, first: &[u8]) {
        let names = if self.kind == Kind::Pod { POD.as_slice() } else { &OF_NODE };
        let mut separator = first;
        for (name, text) in names.iter().zip(&self.texts).filter(|(_, text)| !text.is_empty()) {
            let Some(field) = name.strip_prefix(section) else { continue };
            let quote = if STRINGS.contains(name) { "\"" } else { "" };
            out.extend_from_slice(separator);
            out.extend_from_slice(format!("\"{field}\":{quote}{text}{quote}").as_bytes());
            separator = b",";
        }
    }
}

/// Text that a part of a Pod must have to matter: the annotation of mirror Pods, and references in containers
/// (`secretRef`, `configMapKeyRef`).
fn needle(name: &str) -> Option<&'static str> {
    match name {
        "metadata.annotations" => Some(MIRROR),
        "spec.initContainers" | "spec.containers" | "spec.ephemeralContainers" => Some("Ref\":"),
        _ => None,
    }
}
