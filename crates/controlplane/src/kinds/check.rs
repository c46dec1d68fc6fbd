//! Check of the kinds' declarations at start: the server refuses to start if one does not fit.

use kevel_api::builtin;
use kevel_api::schema::Schema;

use crate::kind::{Kind, REPLICAS, SELECTOR, STATUS_REPLICAS, Subresource};

/// Checks a list of kinds: definitions without a kind and kinds without a definition, subresources that only one of
/// both has, unknown fields and versions, columns without a title.
pub fn check(kinds: &[&Kind]) -> Result<(), String> {
    let mut wrong: Vec<String> =
        builtin::resources().iter().filter_map(|resource| definition(resource, kinds)).collect();
    for (index, kind) in kinds.iter().enumerate() {
        let same = |other: &&Kind| (other.group, other.plural) == (kind.group, kind.plural);
        if kinds.iter().take(index).copied().any(|other| same(&other)) {
            wrong.push(format!("{kind} is there twice"));
        }
        wrong.extend(declaration(kind).into_iter().map(|problem| format!("{kind}: {problem}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// Error about a defined resource without a declared kind or subresource.
fn definition(resource: &builtin::Resource, kinds: &[&Kind]) -> Option<String> {
    let (plural, sub) = match resource.path.split_once('/') {
        Some((plural, sub)) => (plural, Some(sub)),
        None => (resource.path, None),
    };
    let Some(kind) = kinds.iter().find(|k| (k.group, k.plural) == (resource.group, plural)) else {
        return Some(format!(
            "{plural} of group {:?} has a definition and no kind",
            resource.group
        ));
    };
    let unknown = sub.filter(|sub| kind.subresource(sub).is_none())?;
    Some(format!("{kind} does not say what its subresource {unknown} is"))
}

/// Errors in the declaration of a kind.
fn declaration(kind: &Kind) -> Vec<String> {
    let versions: Vec<&builtin::Resource> = kind.definitions().collect();
    if versions.is_empty() {
        return vec!["there is no definition".into()];
    }
    let mut wrong = Vec::new();
    if versions.iter().any(|version| version.verbs.contains(&"get") == kind.creater) {
        wrong.push("what is asked by a POST has no get, all else has".into());
    }
    for (sub, _) in kind.subresources {
        let path = format!("{}/{sub}", kind.plural);
        if !builtin::resources().iter().any(|r| (r.group, r.path) == (kind.group, &*path)) {
            wrong.push(format!("there is no definition of its subresource {sub}"));
        }
    }
    if kind.columns.definitions.iter().any(|column| column.name.is_empty()) {
        wrong.push("a column has no title".into());
    }
    let stored = kind.storage_version;
    if let Some(version) = stored.filter(|stored| versions.iter().all(|v| v.version != *stored)) {
        wrong.push(format!("there is no version {version} to store it in"));
    }
    if kind.stored_with.is_some_and(|home| home.storage_version.is_none()) {
        wrong.push("a kind that another is stored with must name its version".into());
    }
    wrong.extend(fields(kind, &versions));
    wrong
}

/// Errors about declared fields that no version of the kind has.
fn fields(kind: &Kind, versions: &[&builtin::Resource]) -> Vec<String> {
    let schemas: Vec<Schema<'_>> =
        versions.iter().filter_map(|r| builtin::schema(r.group, r.version, r.kind)).collect();
    if schemas.len() < versions.len() {
        return vec!["a version has no schema".into()];
    }
    let mut named: Vec<Vec<&str>> = Vec::new();
    let selectable = kind.selectable_fields.iter();
    let selectable = selectable.flat_map(|field| [Some(field.path), field.otherwise]).flatten();
    named.extend(selectable.map(|path| path.split('.').collect()));
    named.extend(kind.reset_fields.iter().map(|field| vec![*field]));
    named.extend(kind.kept_by_status.iter().map(|field| vec!["metadata", *field]));
    let status = format!("{}/status", kind.plural);
    if builtin::resources().iter().any(|r| (r.group, r.path) == (kind.group, &*status)) {
        named.extend(kind.reset_by_status.iter().map(|path| path.to_vec()));
    }
    for (_, subresource) in kind.subresources {
        match subresource {
            Subresource::Fields { paths, .. } => {
                named.extend(paths.iter().map(|path| path.to_vec()));
            }
            Subresource::Scale(_) => {
                named.extend([REPLICAS, STATUS_REPLICAS, SELECTOR].map(|path| path.to_vec()));
            }
            _ => {}
        }
    }
    let unknown = named.iter().filter(|path| !schemas.iter().any(|schema| has(*schema, path)));
    let fields = unknown.map(|path| format!("there is no field {}", path.join(".")));
    let home = kind.stored_with.unwrap_or(kind);
    let selectable = |name: &str| {
        matches!(name, "metadata.name" | "metadata.namespace")
            || home.selectable_fields.iter().any(|field| field.name == name)
    };
    let labels = kind.field_labels.iter().filter(|(_, name)| !selectable(name));
    fields.chain(labels.map(|(label, name)| format!("{label} is no {name}"))).collect()
}

/// True if a schema has the field at a path, in which `*` is every item of a list.
fn has(schema: Schema<'_>, path: &[&str]) -> bool {
    match path {
        [] => true,
        ["*", rest @ ..] => schema.item().is_some_and(|item| has(item, rest)),
        [name, rest @ ..] => schema.field(name).is_some_and(|field| has(field.schema(), rest)),
    }
}

#[cfg(test)]
mod tests {
    use kevel_registry::columns::Column;
    use kevel_registry::scale::Selector;

    use super::*;
    use crate::columns::Columns;
    use crate::kind::Selectable;
    use crate::kinds::{KINDS, find};

    #[test]
    fn every_kind_fits_its_definition() {
        assert_eq!(check(KINDS), Ok(()));
    }

    /// Metadata that status writes do not own, for kinds where that is neither all nor nothing.
    const RESET_METADATA: [(&str, &[&str]); 2] =
        [("deployments", &["labels"]), ("pods", &["deletionTimestamp", "ownerReferences"])];
    /// Kinds with a status subresource that owns only `status`.
    const RESET_ALL: [&str; 11] = [
        "devicetaintrules",
        "flowschemas",
        "podgroups",
        "prioritylevelconfigurations",
        "resourceclaims",
        "resourcepoolstatusrequests",
        "servicecidrs",
        "storageversionmigrations",
        "storageversions",
        "validatingadmissionpolicies",
        "volumeattachments",
    ];
    /// Kind with a status subresource that keeps the metadata and owns it nevertheless, as in the reference.
    const OWNS_WHAT_IT_KEEPS: &str = "podcertificaterequests";

    #[test]
    fn status_writes_do_not_own_the_metadata_they_keep() {
        let all = ["annotations", "deletionTimestamp", "finalizers", "labels", "ownerReferences"];
        for kind in KINDS {
            let status = format!("{}/status", kind.plural);
            let definitions = builtin::resources().iter();
            let mut definitions =
                definitions.filter(|r| (r.group, r.path) == (kind.group, &*status));
            if definitions.next().is_none() {
                continue;
            }
            let resets = |field: &str| {
                let reset = [&["metadata"][..], &["metadata", field]];
                reset.iter().any(|path| kind.reset_by_status.contains(path))
            };
            let some = RESET_METADATA.iter().find(|(plural, _)| *plural == kind.plural);
            let some = some.map_or(&[][..], |(_, fields)| fields);
            for field in all {
                let expected = RESET_ALL.contains(&kind.plural) || some.contains(&field);
                assert_eq!(resets(field), expected, "{kind} {field}");
                let kept = kind.kept_by_status.contains(&field);
                assert!(kept == expected || kind.plural == OWNS_WHAT_IT_KEEPS, "{kind} {field}");
            }
            assert!(kind.reset_by_status.contains(&&["spec"][..]), "{kind}");
        }
    }

    #[test]
    fn mismatch_names_the_kind() {
        let deployments = *find("apps", "deployments").unwrap();
        let cases = [
            (
                Kind { plural: "deployment", ..deployments },
                "deployment.apps: there is no definition",
            ),
            (
                Kind { plural: "deployment", ..deployments },
                "deployments of group \"apps\" has a definition and no kind",
            ),
            (
                Kind { subresources: &[], ..deployments },
                "deployments.apps does not say what its subresource scale is",
            ),
            (
                Kind {
                    subresources: &[
                        ("scale", Subresource::Scale(Selector::Object)),
                        ("log", Subresource::Connecter),
                    ],
                    ..deployments
                },
                "deployments.apps: there is no definition of its subresource log",
            ),
            (
                Kind { creater: true, ..deployments },
                "deployments.apps: what is asked by a POST has no get, all else has",
            ),
            (
                Kind { storage_version: Some("v3"), ..deployments },
                "deployments.apps: there is no version v3 to store it in",
            ),
            (
                Kind {
                    selectable_fields: const { &[Selectable::field("spec.no")] },
                    ..deployments
                },
                "deployments.apps: there is no field spec.no",
            ),
            (
                Kind { field_labels: &[("a", "spec.no")], ..deployments },
                "deployments.apps: a is no spec.no",
            ),
            (
                Kind { reset_fields: &["no"], ..deployments },
                "deployments.apps: there is no field no",
            ),
            (
                Kind {
                    columns: Columns {
                        definitions: const { &[Column::text("", "")] },
                        ..Columns::NAME_AND_AGE
                    },
                    ..deployments
                },
                "deployments.apps: a column has no title",
            ),
        ];
        for (kind, expected) in &cases {
            let others =
                KINDS.iter().copied().filter(|k| (k.group, k.plural) != ("apps", "deployments"));
            let kinds: Vec<&Kind> = others.chain([kind]).collect();
            let wrong = check(&kinds).unwrap_err();
            assert!(wrong.split("; ").any(|problem| problem == *expected), "{expected}: {wrong}");
        }
        let twice: Vec<&Kind> = KINDS.iter().copied().chain([&deployments]).collect();
        assert_eq!(check(&twice), Err("deployments.apps is there twice".into()));
    }
}
