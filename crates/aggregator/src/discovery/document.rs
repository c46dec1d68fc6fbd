//! Discovery documents of extension servers, as this server returns them.

use std::collections::HashMap;

use bytes::Bytes;
use http::{Response, header};
use kevel_api::builtin;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{self, Unknown};

/// API group and version.
pub(super) type GroupVersion = (String, String);

/// `APIVersionDiscovery` documents.
pub(super) type Versions = HashMap<GroupVersion, Value>;

/// Whether a response is aggregated discovery.
pub(crate) fn is_aggregated(answer: &Response<Bytes>) -> bool {
    let media = answer.headers().get(header::CONTENT_TYPE);
    let media = media.and_then(|media| media.to_str().ok()).unwrap_or_default();
    let mut parts = media.split(';').map(str::trim).skip(1);
    let parts: HashMap<&str, &str> =
        parts.by_ref().filter_map(|part| part.split_once('=')).collect();
    parts.get("g") == Some(&"apidiscovery.k8s.io")
        && parts.get("as") == Some(&"APIGroupDiscoveryList")
        && parts.get("v").is_some_and(|version| matches!(*version, "v2" | "v2beta1"))
}

/// Parses an `APIGroupDiscoveryList` for this server's responses.
pub(crate) fn list(body: &[u8]) -> Result<Value, String> {
    let mut list = read(body, "apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")?;
    let groups = list.at_mut(&["items"]).and_then(Value::as_list_mut);
    for group in groups.into_iter().flatten() {
        let versions = group.at_mut(&["versions"]).and_then(Value::as_list_mut);
        versions.into_iter().flatten().for_each(name_kinds);
    }
    Ok(list)
}

/// Versions of an `APIGroupDiscoveryList`, whose v2 and v2beta1 differ in name only.
pub(super) fn aggregated(body: &[u8]) -> Result<Versions, String> {
    let list = list(body)?;
    let mut versions = Versions::new();
    for group in list.list_at(&["items"]) {
        for version in group.list_at(&["versions"]) {
            let name = version.str_at(&["version"]).to_owned();
            let group = group.str_at(&["metadata", "name"]).to_owned();
            versions.insert((group, name), version.clone());
        }
    }
    Ok(versions)
}

/// Converts an `APIResourceList` into an `APIVersionDiscovery`.
pub(super) fn alone(body: &[u8], version: &str) -> Result<Value, String> {
    let list = read(body, "", "v1", "APIResourceList")?;
    let all = list.list_at(&["resources"]);
    let name = |resource: &Value| resource.str_at(&["name"]).to_owned();
    let mut resources: Vec<(String, Map)> = Vec::new();
    for resource in all.iter().filter(|resource| !name(resource).contains('/')) {
        let mut entry = Map::from_iter([
            ("resource", Value::from(name(resource).as_str())),
            ("scope", scope(resource)),
            ("responseKind", kind(resource)),
        ]);
        for (from, to) in [
            ("verbs", "verbs"),
            ("shortNames", "shortNames"),
            ("categories", "categories"),
            ("singularName", "singularResource"),
        ] {
            if let Some(value) = resource.at(&[from]) {
                entry.insert(to, value.clone());
            }
        }
        resources.push((name(resource), entry));
    }
    for resource in all {
        let full = name(resource);
        let Some((parent, sub)) = full.split_once('/') else { continue };
        let position = resources.iter().position(|(name, _)| name == parent);
        let position = position.unwrap_or_else(|| {
            let entry = [
                ("resource", Value::from(parent)),
                ("scope", scope(resource)),
                ("responseKind", Value::Map(Map::new())),
            ];
            resources.push((parent.to_owned(), Map::from_iter(entry)));
            resources.len() - 1
        });
        let Some((_, entry)) = resources.get_mut(position) else { continue };
        if entry.get("scope") != Some(&scope(resource)) {
            return Err(format!("the scopes of {parent} and {full} do not match"));
        }
        let mut subresource =
            Map::from_iter([("subresource", Value::from(sub)), ("responseKind", kind(resource))]);
        if let Some(verbs) = resource.at(&["verbs"]) {
            subresource.insert("verbs", verbs.clone());
        }
        let mut known = entry.remove("subresources").unwrap_or(Value::List(Default::default()));
        if let Some(known) = known.as_list_mut() {
            known.push(Value::Map(subresource));
        }
        entry.insert("subresources", known);
    }
    let resources = resources.into_iter().map(|(_, entry)| Value::Map(entry)).collect();
    let entries = [("version", version.into()), ("resources", Value::List(resources))];
    Ok(Value::Map(Map::from_iter(entries)))
}

/// A version with its freshness: the server's document, or only the name if it is unknown.
pub(super) fn with_freshness(known: Option<&Value>, version: &str, freshness: &str) -> Value {
    let mut document = known.cloned().unwrap_or_default();
    let map = document.make_map(&[]);
    map.insert("version", version.into());
    map.insert("freshness", freshness.into());
    document
}

fn read(body: &[u8], group: &str, version: &str, kind: &str) -> Result<Value, String> {
    let schema = builtin::schema(group, version, kind).ok_or("no such kind")?;
    let read = json::decode(body, schema, Unknown::Ignore);
    read.map(|decoded| decoded.value).map_err(|error| error.to_string())
}

/// Clients expect `responseKind` to be present, even if it is empty.
fn name_kinds(version: &mut Value) {
    let resources = version.at_mut(&["resources"]).and_then(Value::as_list_mut);
    for resource in resources.into_iter().flatten() {
        let subresources = resource.at_mut(&["subresources"]).and_then(Value::as_list_mut);
        for subresource in subresources.into_iter().flatten() {
            subresource.make_map(&["responseKind"]);
        }
        resource.make_map(&["responseKind"]);
    }
}

fn scope(resource: &Value) -> Value {
    let namespaced = resource.at(&["namespaced"]).and_then(Value::as_bool).unwrap_or(false);
    if namespaced { "Namespaced".into() } else { "Cluster".into() }
}

fn kind(resource: &Value) -> Value {
    let fields = ["group", "version", "kind"].into_iter();
    let said = fields.filter_map(|field| Some((field, resource.at(&[field])?.clone())));
    Value::Map(said.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &Value) -> String {
        let mut text = Vec::new();
        json::encode_any(value, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn legacy_discovery_is_converted_to_the_aggregated_form() {
        let list = r#"{"kind":"APIResourceList","groupVersion":"a.io/v1","resources":[
            {"name":"things/status","singularName":"","namespaced":true,"kind":"Thing","verbs":["get"]},
            {"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list"],"shortNames":["th"]},
            {"name":"lost/found","namespaced":false,"verbs":["create"]}]}"#;
        assert_eq!(
            text(&alone(list.as_bytes(), "v1").unwrap()),
            r#"{"resources":[{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Namespaced","shortNames":["th"],"singularResource":"thing","subresources":[{"responseKind":{"kind":"Thing"},"subresource":"status","verbs":["get"]}],"verbs":["get","list"]},{"resource":"lost","responseKind":{},"scope":"Cluster","subresources":[{"responseKind":{},"subresource":"found","verbs":["create"]}]}],"version":"v1"}"#
        );
        let scopes = r#"{"resources":[{"name":"a","namespaced":true},{"name":"a/b"}]}"#;
        assert!(alone(scopes.as_bytes(), "v1").is_err());
        assert!(alone(b"[]", "v1").is_err());
    }

    #[test]
    fn every_version_is_found_and_its_kinds_are_named() {
        let list = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"a.io"},"versions":[
            {"version":"v1","resources":[{"resource":"things","scope":"Cluster","subresources":[{"subresource":"x"}]}]}]}]}"#;
        let versions = aggregated(list.as_bytes()).unwrap();
        let version = versions.get(&("a.io".to_owned(), "v1".to_owned()));
        assert_eq!(
            text(&with_freshness(version, "v1", "Current")),
            r#"{"freshness":"Current","resources":[{"resource":"things","responseKind":{},"scope":"Cluster","subresources":[{"responseKind":{},"subresource":"x"}]}],"version":"v1"}"#
        );
        assert_eq!(
            text(&with_freshness(None, "v1", "Stale")),
            r#"{"freshness":"Stale","version":"v1"}"#
        );
    }

    #[test]
    fn the_form_is_told_by_the_media_type() {
        for (media, expected) in [
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", true),
            ("application/json; as=APIGroupDiscoveryList; v=v2beta1; g=apidiscovery.k8s.io", true),
            ("application/json", false),
            ("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", false),
        ] {
            let answer = Response::builder().header(header::CONTENT_TYPE, media);
            assert_eq!(is_aggregated(&answer.body(Bytes::new()).unwrap()), expected, "{media}");
        }
    }
}
