//! Validation of the downward API: `fieldRef` and `resourceFieldRef` in volumes and environment variables.

use kevel_api::name;

use crate::validation::Field;

/// Fields that downward API volumes may refer to.
const VOLUME_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Fields that environment variables may refer to.
const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields of pods with a label conversion; other paths are invalid.
const FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const BYTES: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub fn volume(source: Field) {
    source.at("defaultMode").file_mode();
    // The reference does not report the index of the item.
    source.at("items").items().for_each(|item| file(item.named(source.path())));
}

pub fn file(file: Field) {
    file.at("path").must("");
    file.at("path").local_unreserved_path();
    let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
    match (field.is_set(), resource.is_set()) {
        (true, both) => {
            field_ref(field, VOLUME_FIELDS);
            if both {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                file.invalid_as("resource", why);
            }
        }
        (false, true) => resource_ref(resource, true),
        (false, false) => file.required("one of fieldRef and resourceFieldRef is required"),
    }
    file.at("mode").file_mode();
}

/// Checks `fieldRef` of an environment variable.
pub fn env_field_ref(field: Field) {
    field_ref(field, ENV_FIELDS);
}

fn field_ref(field: Field, known: &[&str]) {
    let (version, path) = (field.at("apiVersion"), field.at("fieldPath"));
    if !version.must("") || !path.must("") {
        return;
    }
    let subscript = path.str().strip_suffix("']").and_then(|rest| rest.split_once("['"));
    let subscript = subscript.filter(|(map, _)| !map.is_empty());
    let problem = match (version.str(), subscript) {
        ("v1", Some(("metadata.annotations" | "metadata.labels", _))) => None,
        ("v1", Some(_)) => Some(format!("field label does not support subscript: {}", path.str())),
        ("v1", None) if path.str() == "spec.host" || FIELDS.contains(&path.str()) => None,
        ("v1", None) => Some(format!("field label not supported: {}", path.str())),
        (other, _) => Some(format!("unsupported pod version: {other}")),
    };
    if let Some(problem) = problem {
        return path.invalid(format!("error converting fieldPath: {problem}"));
    }
    match subscript {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            name::is_label_key(&key).into_iter().for_each(|p| field.invalid_as(key.as_str(), p));
        }
        Some((_, key)) => {
            name::is_label_key(key).into_iter().for_each(|p| field.invalid_as(key, p))
        }
        None => {
            let known_as = match path.str() {
                "spec.host" => "spec.nodeName",
                other => other,
            };
            if !known.contains(&known_as) {
                path.unsupported_as(known_as, known);
            }
        }
    }
}

/// Checks `resourceFieldRef`; in a file, `containerName` is required.
pub fn resource_ref(reference: Field, in_file: bool) {
    let (container, resource) = (reference.at("containerName"), reference.at("resource"));
    let huge = ["requests.hugepages-", "limits.hugepages-"]
        .iter()
        .any(|prefix| resource.str().starts_with(prefix));
    if in_file && container.is_empty() {
        container.required("");
    } else if resource.must("") && !huge {
        resource.one_of(RESOURCES);
    }
    divisor(reference, huge);
}

fn divisor(reference: Field, huge: bool) {
    let (divisor, resource) = (reference.at("divisor"), reference.at("resource"));
    if divisor.quantity().is_none_or(|amount| amount.is_zero()) {
        return;
    }
    let said = divisor.quantity_text();
    let (units, what) = match resource.str() {
        "limits.cpu" | "requests.cpu" => {
            if !["1m", "1"].contains(&said.as_str()) {
                let why = "only divisor's values 1m and 1 are supported with the cpu resource";
                divisor.invalid_as(resource.str(), why);
            }
            return;
        }
        "limits.memory" | "requests.memory" => (BYTES, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (BYTES, "local ephemeral storage")
        }
        _ if huge => (BYTES, "hugepages"),
        _ => return,
    };
    if !units.contains(&said.as_str()) {
        let units = units.join(", ");
        let why = format!("only divisor's values {units} are supported with the {what} resource");
        divisor.invalid_as(resource.str(), why);
    }
}
