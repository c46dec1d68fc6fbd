//! Resources and what is on by default, from discovery documents.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kevel_definition::{Facts, Module, Resource};
use serde_json::Value;

use super::Error;

/// Adds the resources of each group and version, and marks what is served only when asked for.
pub fn add_resources(modules: &mut BTreeMap<String, Module>, data: &Path) -> Result<(), Error> {
    let read = |path: &Path| -> Result<Value, Error> {
        Ok(serde_json::from_slice(
            &fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?,
        )?)
    };
    let served = read(&data.join("captures/discovery.json"))?;
    for module in modules.values_mut() {
        let (file, path) = match module.group.as_str() {
            "" => (format!("api__{}.json", module.version), format!("/api/{}", module.version)),
            group => (
                format!("apis__{group}__{}.json", module.version),
                format!("/apis/{group}/{}", module.version),
            ),
        };
        let file = data.join("discovery").join(file);
        if !file.exists() {
            module.facts.set("spoken", None);
            continue;
        }
        for stage in ["alpha", "beta"] {
            if module.version.contains(stage) {
                module.facts.set("stage", Some(stage));
            }
        }
        let by_default = served.get(&path).and_then(|document| document.get("resources"));
        if by_default.is_none() {
            module.facts.set("off", None);
        }
        let document = read(&file)?;
        let resources = document.get("resources").and_then(Value::as_array);
        for entry in resources.into_iter().flatten() {
            let mut resource = resource(&module.stem, entry);
            let on = by_default
                .and_then(Value::as_array)
                .is_none_or(|list| list.iter().any(|r| r["name"] == resource.path.as_str()));
            if !on {
                resource.facts.set("off", None);
            }
            module.resources.push(resource);
        }
        module.resources.sort_by(|a, b| a.path.cmp(&b.path));
    }
    Ok(())
}

fn resource(stem: &str, entry: &Value) -> Resource {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let words = |key: &str| {
        let list = entry.get(key).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
    };
    let kind = match (text("version"), text("group")) {
        ("", _) => text("kind").to_owned(),
        (version, group) => {
            let group = group.split('.').next().filter(|g| !g.is_empty()).unwrap_or("core");
            match format!("{group}.{version}") {
                home if home == stem => text("kind").to_owned(),
                home => format!("{home}.{}", text("kind")),
            }
        }
    };
    let mut facts = Facts::default();
    for (fact, value) in [
        ("singular", text("singularName").to_owned()),
        ("short", words("shortNames")),
        ("categories", words("categories")),
        ("verbs", words("verbs")),
    ] {
        if !value.is_empty() {
            facts.set(fact, Some(&value));
        }
    }
    let namespaced = entry.get("namespaced").and_then(Value::as_bool) == Some(true);
    Resource { path: text("name").to_owned(), kind, namespaced, facts }
}
