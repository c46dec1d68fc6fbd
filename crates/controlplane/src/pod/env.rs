//! Validation of a container's environment variables.

use kevel_api::name;

use super::downward_api;
use crate::validation::Field;

/// Field of `valueFrom`, with its check.
type EnvVarSource = (&'static str, fn(Field));

/// Sources in `valueFrom`.
const SOURCES: &[EnvVarSource] = &[
    ("fieldRef", downward_api::env_field_ref),
    ("resourceFieldRef", |source| downward_api::resource_ref(source, false)),
    ("configMapKeyRef", key_ref),
    ("secretKeyRef", key_ref),
    ("fileKeyRef", file_key_ref),
];

pub fn env(variables: Field) {
    for variable in variables.items() {
        variable.at("name").must_form("", name::is_relaxed_env_var_name);
        let from = variable.at("valueFrom");
        if from.is_absent() {
            continue;
        }
        let mut sources = 0;
        for (kind, check) in SOURCES {
            let source = from.at(kind);
            if source.is_set() {
                sources += 1;
                check(source);
            }
        }
        if sources == 0 {
            from.invalid_as(
                "",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                 `secretKeyRef` or `fileKeyRef`",
            );
        } else if !variable.at("value").is_empty() {
            from.invalid_as("", "may not be specified when `value` is not empty");
        } else if sources > 1 {
            from.invalid_as("", "may not have more than one field specified at a time");
        }
    }
}

fn key_ref(source: Field) {
    source.at("name").object_name(name::name_is_dns_subdomain);
    source.at("key").must_form("", name::is_config_map_key);
}

fn file_key_ref(source: Field) {
    source.at("key").must_form("", name::is_relaxed_env_var_name);
    source.at("volumeName").must_form("", name::is_dns1123_label);
    if source.at("path").must("") {
        source.at("path").no_backsteps();
    }
}

pub fn env_from(sources: Field) {
    for source in sources.items() {
        let prefix = source.at("prefix");
        if !prefix.is_empty() {
            prefix.form(name::is_relaxed_env_var_name);
        }
        let mut found = 0;
        for kind in ["configMapRef", "secretRef"] {
            let object = source.at(kind);
            if object.is_set() {
                found += 1;
                // The name may be a prefix, as in the reference.
                let name = object.at("name");
                if name.must("") {
                    let problems = name::name_is_dns_subdomain(name.str(), true);
                    problems.into_iter().for_each(|problem| name.invalid(problem));
                }
            }
        }
        match found {
            0 => sources.invalid_as("", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => sources.invalid_as("", "may not have more than one field specified at a time"),
        }
    }
}

/// Checks that `fileKeyRef` names an `emptyDir` volume.
pub fn file_volumes(spec: Field) {
    let volumes = spec.at("volumes");
    super::each_container(spec, |container| {
        for variable in container.at("env").items() {
            let from = variable.at("valueFrom");
            let file = from.at("fileKeyRef");
            if file.is_absent() {
                continue;
            }
            let name = file.at("volumeName");
            // Of two volumes with the same name, the last counts.
            let volume = volumes.items().filter(|v| v.at("name").str() == name.str()).last();
            match volume.map(|volume| volume.at("emptyDir").is_set()) {
                None => name.not_found(),
                Some(false) => name.invalid("referenced volume must be of type emptyDir"),
                Some(true) => {}
            }
        }
    });
}
