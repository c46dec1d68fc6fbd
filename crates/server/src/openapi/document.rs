//! The set of OpenAPI documents, and how each is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kevel_api::builtin;
use kevel_openapi_text::Texts;

use super::About;
use super::component::Component;
use super::operation::{self, Operation, PathItem};
use super::remote::{self, Known, Merged};
use super::v2::{self, Json, Sink};
use super::v2_protobuf::Protobuf;
use super::v3::{self, Info};
use crate::discovery::documents::Snapshot;
use kevel_registry::resource::Resource;

/// A document in one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Document {
    V2Json,
    V2Protobuf,
    /// Path below `/openapi/v3/`.
    V3(String),
}

/// Makes a document. `parts` are added by aggregated servers to the OpenAPI 2 document.
pub(super) fn make(
    snapshot: &Snapshot,
    about: &About,
    parts: &[Bytes],
    document: &Document,
) -> Vec<u8> {
    let texts = Texts::unpack();
    match document {
        Document::V2Json => {
            let mut sink = Json::new(&about.version);
            v2_document(snapshot, about, parts, &texts, &mut sink);
            sink.finish()
        }
        Document::V2Protobuf => {
            let mut sink = Protobuf::new(&about.version);
            v2_document(snapshot, about, parts, &texts, &mut sink);
            sink.finish()
        }
        Document::V3(name) => {
            let rows = rows(snapshot, name);
            let info = match are_defined(&rows) {
                true => Info::Defined,
                false => Info::Served(&about.version),
            };
            v3::document(&paths(name, about, &rows), home(name), info, &texts, about.without_enums)
        }
    }
}

fn v2_document(
    snapshot: &Snapshot,
    about: &About,
    parts: &[Bytes],
    texts: &Texts,
    sink: &mut impl Sink,
) {
    let parts = remote::read(parts);
    if parts.is_empty() {
        return v2_paths(snapshot, about, |paths| {
            v2::document(paths, texts, about.without_enums, sink)
        });
    }
    // The set of used names is complete only at the end and needed from the start, so there are two passes.
    let mut known = Known::new(&parts);
    v2_paths(snapshot, about, |paths| v2::document(paths, texts, about.without_enums, &mut known));
    let mut merged = Merged::new(sink, parts, known);
    v2_paths(snapshot, about, |paths| v2::document(paths, texts, about.without_enums, &mut merged));
    merged.finish();
}

/// Resources of a document's group and version.
pub(super) fn rows(snapshot: &Snapshot, name: &str) -> Vec<Arc<Resource>> {
    let Some((group, version)) = home(name) else { return Vec::new() };
    snapshot.resources(group, version).into_values().cloned().collect()
}

/// Group and version of a document.
fn home(name: &str) -> Option<(&str, &str)> {
    let mut parts = name.split('/');
    match parts.next()? {
        "api" => Some(("", parts.next()?)),
        "apis" => Some((parts.next()?, parts.next()?)),
        _ => None,
    }
}

/// Paths of a document.
fn paths<'r>(
    name: &str,
    about: &About,
    rows: &'r [Arc<Resource>],
) -> BTreeMap<String, PathItem<'r>> {
    let mut paths = BTreeMap::new();
    if let Some(plain) = about.plain.iter().find(|plain| plain.name() == name) {
        paths.insert(format!("/{name}/"), PathItem::from([("get", operation::plain(plain))]));
        return paths;
    }
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

/// Whether all resources are custom ones, whose documents have no paths but their own.
fn are_defined(rows: &[Arc<Resource>]) -> bool {
    !rows.is_empty() && rows.iter().all(|row| row.conventions.published.by_definition())
}

/// Paths of all documents.
fn v2_paths(
    snapshot: &Snapshot,
    about: &About,
    with: impl FnOnce(&BTreeMap<String, PathItem<'_>>),
) {
    let names: Vec<String> = names(snapshot, about);
    let rows: Vec<_> = names.iter().map(|name| (name, rows(snapshot, name))).collect();
    let mut all = BTreeMap::new();
    for (name, rows) in &rows {
        all.append(&mut paths(name, about, rows));
    }
    with(&all);
}

/// Names of all documents.
pub(super) fn names(snapshot: &Snapshot, about: &About) -> Vec<String> {
    let mut names = vec!["apis".to_owned(), "version".to_owned()];
    names.extend(about.plain.iter().map(|plain| plain.name().to_owned()));
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
