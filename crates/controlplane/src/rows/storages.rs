//! Storages of built-in kinds: key prefix and storage version.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_features::{EffectiveVersion, MajorMinor};
use kevel_registry::backends::Backends;
use kevel_registry::storage::{Format, RegistryFlags, Storage, StorageConfig, StoredForm};
use kevel_registry::storages::Storages;
use kevel_store::keys::Origin;

use super::json_line::JsonLine;
use super::schema;
use crate::kind::Kind;
use crate::kinds::KINDS;

/// Storage options of built-in kinds.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// `/registry`
    pub prefix: String,
    /// Format of stored bytes.
    pub format: Format,
    /// `--event-ttl`: how long kinds that expire are kept; for good without it.
    pub event_ttl: Option<Duration>,
    /// Flags about storage.
    pub registry: RegistryFlags,
    /// Oldest server version that must be able to read stored objects (`--min-compatibility-version`).
    pub min_compatibility: MajorMinor,
}

impl StorageOptions {
    /// Options of a server without flags, with objects stored in a format.
    pub fn new(format: Format) -> Self {
        let event_ttl = Some(Duration::from_secs(3600));
        let registry = RegistryFlags::default();
        let min_compatibility = EffectiveVersion::default().min_compatibility;
        let prefix = "/registry".to_owned();
        StorageOptions { prefix, format, event_ttl, registry, min_compatibility }
    }
}

/// Key prefix, group and plural of each built-in kind.
pub fn locations(root: &str) -> Vec<(String, &'static str, &'static str)> {
    let stored = KINDS.iter().filter(|kind| !kind.creater && kind.stored_with.is_none());
    stored.map(|kind| (kind.storage_prefix(root), kind.group, kind.plural)).collect()
}

/// The group and plural of the built-in kind whose objects are stored below a prefix, given the prefix of all keys.
pub fn group_resource(root: &str, prefix: &str) -> Option<(&'static str, &'static str)> {
    let stored = KINDS.iter().filter(|kind| !kind.creater && kind.stored_with.is_none());
    let mut there = stored.filter(|kind| kind.storage_prefix(root) == prefix);
    there.next().map(|kind| (kind.group, kind.plural))
}

/// The storages of the kinds that are served, one each, whichever version or group asks for it.
pub fn storages(
    enabled: impl Fn(&builtin::Resource) -> bool,
    options: &StorageOptions,
    backends: &Backends,
) -> Result<Storages, String> {
    let served: Vec<&builtin::Resource> =
        builtin::resources().iter().filter(|resource| enabled(resource)).collect();
    let is_served = |kind: &Kind| {
        served.iter().any(|resource| (resource.group, resource.path) == (kind.group, kind.plural))
    };
    let mut storages = Storages::default();
    for kind in KINDS.iter().filter(|kind| !kind.creater && is_served(kind)) {
        let stored = kind.stored_with.unwrap_or(kind);
        let storage = match storages.get(stored.group, stored.plural) {
            Some(storage) => storage.clone(),
            None => {
                let config = config(stored, options)?;
                // As in the reference, the other servers of the chain know one store.
                let backend = match stored.origin {
                    Origin::Extension => &backends.default,
                    Origin::BuiltIn => backends.of(stored.group, stored.plural),
                };
                let storage = Storage::new(config, backend.engine.clone(), &backend.caches);
                let storage = Arc::new(storage);
                storages.add(stored.group, stored.plural, storage.clone());
                storage
            }
        };
        if kind.stored_with.is_some() {
            storages.add(kind.group, kind.plural, storage);
        }
    }
    Ok(storages)
}

fn config(kind: &Kind, options: &StorageOptions) -> Result<StorageConfig, String> {
    let version = storage_version(kind, options.min_compatibility);
    let version = version.ok_or_else(|| format!("no version of {kind} can be stored"))?;
    let definition = kind.definitions().next();
    let name = definition.ok_or_else(|| format!("{kind} has no definition"))?.kind;
    let fields = kind.selectable_fields;
    let indexed = fields.iter().enumerate().filter(|(_, field)| field.indexed);
    let ty = schema(kind.group, version, name)?;
    let form: Option<Arc<dyn StoredForm>> = match (kind.origin, options.format) {
        (Origin::Extension, Format::Protobuf) => Some(Arc::new(JsonLine { ty: ty.clone() })),
        _ => None,
    };
    Ok(StorageConfig {
        kind: GroupVersionKind::from_static(kind.group, version, name),
        ty,
        prefix: kind.storage_prefix(&options.prefix),
        // The other servers of the chain write JSON whatever the store holds.
        format: match kind.origin {
            Origin::Extension => Format::Json,
            Origin::BuiltIn => options.format,
        },
        keeps_empty: kind.origin == Origin::Extension,
        fields: fields.iter().map(|field| field.as_stored()).collect(),
        indexed: indexed.map(|(position, _)| position).collect(),
        time_to_live: options.event_ttl.filter(|_| kind.expires),
        form,
        conversion: None,
        registry: options.registry.of(kind.group, kind.plural),
    })
}

/// The version that a kind's objects are stored in: the one it names, or the most mature that the oldest server of the
/// control plane knows. If that server knows none, the most mature: it would not read them anyway.
fn storage_version(kind: &Kind, min_compatibility: MajorMinor) -> Option<&'static str> {
    let known = |r: &&builtin::Resource| {
        r.introduced.is_none_or(|(major, minor)| MajorMinor(major, minor) <= min_compatibility)
    };
    let best = |rows: &mut dyn Iterator<Item = &'static builtin::Resource>| {
        rows.map(|r| r.version).max_by_key(|version| version_rank(version))
    };
    kind.storage_version
        .or_else(|| best(&mut kind.definitions().filter(known)))
        .or_else(|| best(&mut kind.definitions()))
}

/// Stable versions before beta before alpha, newer ones first.
pub fn version_rank(version: &str) -> (u8, u32, u32) {
    let digits = |text: &str| text.parse().unwrap_or(0);
    let rest = version.trim_start_matches('v');
    match (rest.split_once("beta"), rest.split_once("alpha")) {
        (Some((major, minor)), _) => (1, digits(major), digits(minor)),
        (_, Some((major, minor))) => (0, digits(major), digits(minor)),
        _ => (2, digits(rest), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    #[test]
    fn objects_are_stored_in_the_reference_s_versions() {
        for (group, plural, minor, expected) in [
            ("", "pods", 35, "v1"),
            ("autoscaling", "horizontalpodautoscalers", 35, "v2"),
            ("coordination.k8s.io", "leasecandidates", 35, "v1beta1"),
            ("resource.k8s.io", "resourceclaims", 35, "v1"),
            ("resource.k8s.io", "resourceclaims", 33, "v1beta2"),
            ("storage.k8s.io", "volumeattributesclasses", 34, "v1"),
            ("storage.k8s.io", "volumeattributesclasses", 33, "v1beta1"),
            ("admissionregistration.k8s.io", "validatingadmissionpolicies", 33, "v1"),
            ("storagemigration.k8s.io", "storageversionmigrations", 33, "v1beta1"),
        ] {
            let kind = kinds::find(group, plural).unwrap();
            let version = storage_version(kind, MajorMinor(1, minor));
            assert_eq!(version, Some(expected), "{group} {plural} for 1.{minor}");
        }
        let events = kinds::find("events.k8s.io", "events").unwrap();
        assert_eq!(events.stored_with.map(|kind| kind.group), Some(""));
    }

    #[test]
    fn objects_are_stored_where_the_reference_puts_them() {
        for (group, plural, expected) in [
            ("", "pods", "/registry/pods/"),
            ("", "nodes", "/registry/minions/"),
            ("", "services", "/registry/services/specs/"),
            ("", "endpoints", "/registry/services/endpoints/"),
            ("", "replicationcontrollers", "/registry/controllers/"),
            ("networking.k8s.io", "ingresses", "/registry/ingress/"),
            ("networking.k8s.io", "networkpolicies", "/registry/networkpolicies/"),
            (
                "apiregistration.k8s.io",
                "apiservices",
                "/registry/apiregistration.k8s.io/apiservices/",
            ),
        ] {
            let kind = kinds::find(group, plural).unwrap();
            assert_eq!(kind.storage_prefix("/registry"), expected);
            assert_eq!(group_resource("/registry", expected), Some((group, plural)));
        }
        assert_eq!(group_resource("/registry", "/registry/example.com/widgets/"), None);
    }

    #[test]
    fn versions_are_ordered_by_maturity() {
        let mut versions = ["v1alpha1", "v2", "v1", "v1beta2", "v1beta1"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1"]);
    }
}
