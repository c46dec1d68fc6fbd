//! Which documents there are, and how each is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kevel_api::builtin;
use kevel_openapi_text::Texts;

use super::component::Component;
use super::operation::{self, Operation, PathItem};
use super::remote::{self, Known, Merged};
use super::v2::{self, Json, Sink};
use super::v2_protobuf::Protobuf;
use super::v3;
use crate::discovery::documents::Snapshot;
use crate::resource::Resource;

/// A document, in one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Document {
    V2Json,
    V2Protobuf,
    /// By its path below `/openapi/v3/`.
    V3(String),
}

/// Makes a document. `parts` are what other servers add to that of OpenAPI 2.
pub(super) fn make(snapshot: &Snapshot, parts: &[Bytes], document: &Document) -> Vec<u8> {
    let texts = Texts::unpack();
    match document {
        Document::V2Json => {
            let mut sink = Json::new();
            v2_document(snapshot, parts, &texts, &mut sink);
            sink.finish()
        }
        Document::V2Protobuf => {
            let mut sink = Protobuf::default();
            v2_document(snapshot, parts, &texts, &mut sink);
            sink.finish()
        }
        Document::V3(name) => {
            let rows = rows(snapshot, name);
            let defined = are_defined(&rows);
            v3::document(&paths(name, &rows), home(name), defined, &texts)
        }
    }
}

fn v2_document(snapshot: &Snapshot, parts: &[Bytes], texts: &Texts, sink: &mut impl Sink) {
    let parts = remote::read(parts);
    if parts.is_empty() {
        return v2_paths(snapshot, |paths| v2::document(paths, texts, sink));
    }
    // What names are taken is known only at the end, and must be known from the start.
    let mut known = Known::new(&parts);
    v2_paths(snapshot, |paths| v2::document(paths, texts, &mut known));
    let mut merged = Merged::new(sink, parts, known);
    v2_paths(snapshot, |paths| v2::document(paths, texts, &mut merged));
    merged.finish();
}

/// The rows of a group and version.
pub(super) fn rows(snapshot: &Snapshot, name: &str) -> Vec<Arc<Resource>> {
    let Some((group, version)) = home(name) else { return Vec::new() };
    snapshot.resources(group, version).into_values().cloned().collect()
}

/// The group and version that a document is about.
fn home(name: &str) -> Option<(&str, &str)> {
    let mut parts = name.split('/');
    match parts.next()? {
        "api" => Some(("", parts.next()?)),
        "apis" => Some((parts.next()?, parts.next()?)),
        _ => None,
    }
}

/// The paths of a document.
fn paths<'r>(name: &str, rows: &'r [Arc<Resource>]) -> BTreeMap<String, PathItem<'r>> {
    let mut paths = BTreeMap::new();
    for row in rows {
        operation::add(row, &mut paths);
    }
    if are_defined(rows) {
        return paths;
    }
    let depth = name.split('/').count();
    let (operation, kind) = match (name.split('/').next(), depth) {
        (Some("api"), 1) => ("APIVersions", "APIVersions"),
        (Some("apis"), 1) => ("APIVersions", "APIGroupList"),
        (Some("apis"), 2) => ("APIGroup", "APIGroup"),
        (Some("api" | "apis"), _) => ("APIResources", "APIResourceList"),
        _ => ("CodeVersion", ""),
    };
    let path = format!("/{name}/");
    let answer = builtin::schema("", "v1", kind).map_or(Component::Version, Component::BuiltIn);
    let mut about = operation::document(&path, operation, answer);
    if kind.is_empty() {
        about = Operation {
            consumes: vec!["application/json"],
            produces: vec!["application/json"],
            ..about
        };
    }
    paths.insert(path, PathItem::from([("get", about)]));
    paths
}

/// Whether these rows are of definitions, of which nothing but their own paths is told.
fn are_defined(rows: &[Arc<Resource>]) -> bool {
    !rows.is_empty() && rows.iter().all(|row| row.conventions.published.by_definition())
}

/// All paths of all documents.
fn v2_paths(snapshot: &Snapshot, with: impl FnOnce(&BTreeMap<String, PathItem<'_>>)) {
    let names: Vec<String> = names(snapshot);
    let rows: Vec<_> = names.iter().map(|name| (name, rows(snapshot, name))).collect();
    let mut all = BTreeMap::new();
    for (name, rows) in &rows {
        all.append(&mut paths(name, rows));
    }
    with(&all);
}

/// The names of all documents.
pub(super) fn names(snapshot: &Snapshot) -> Vec<String> {
    let mut names = vec!["apis".to_owned(), "version".to_owned()];
    for (group, versions) in &snapshot.groups {
        let root = if group.is_empty() { "api".to_owned() } else { format!("apis/{group}") };
        names.extend(versions.iter().map(|version| format!("{root}/{version}")));
        let is_defined = |version: &String| {
            let rows = snapshot.resources(group, version);
            rows.values().all(|row| row.conventions.published.by_definition())
        };
        if !versions.iter().all(is_defined) {
            names.push(root);
        }
    }
    names.sort_unstable();
    names
}
