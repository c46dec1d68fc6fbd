//! Built-in resources that are served, by flags, features and the emulated version.

use std::collections::{BTreeMap, BTreeSet};

use kevel_api::builtin;
use kevel_api::gvk::GroupVersion;
use kevel_controlplane::version_rank;
use kevel_features::{BINARY, Feature, FeatureGates, MajorMinor};
use thiserror::Error;
use tracing::warn;

/// Group, version and plural of a resource.
type GroupVersionPlural = (&'static str, &'static str, &'static str);

/// Built-in resources that are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceConfig {
    enabled: BTreeMap<GroupVersionPlural, bool>,
}

/// Version of which the resources are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    /// Version by which kinds are new or removed.
    pub version: MajorMinor,
    /// Newer versions of resources are served beside those of the emulated version (`--emulation-forward-compatible`).
    pub forward_compatible: bool,
    /// Newer resources are served if they are named (`--runtime-config-emulation-forward-compatible`).
    pub runtime_config_forward_compatible: bool,
}

impl Default for Emulation {
    fn default() -> Self {
        Emulation {
            version: BINARY,
            forward_compatible: false,
            runtime_config_forward_compatible: false,
        }
    }
}

/// Version or resource that `--runtime-config` names.
#[derive(Debug)]
pub(super) struct ApiChoice {
    pub version: GroupVersion,
    /// Plural; all of the version without it.
    pub resource: Option<String>,
    pub enabled: bool,
}

impl ApiChoice {
    fn matches(&self, (group, version, plural): GroupVersionPlural) -> bool {
        (&*self.version.group, &*self.version.version) == (group, version)
            && self.resource.as_deref().is_none_or(|wanted| wanted == plural)
    }
}

/// Named resource that the emulated version does not have, in the reference's words.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EmulationError {
    /// Single resource.
    #[error(
        "cannot enable resource {group}/{version}, Resource={plural} in runtime-config because it is \
         introduced at {introduced} after the current version {current}. Consider setting \
         --runtime-config-emulation-forward-compatible=true"
    )]
    Resource {
        /// Group of the resource.
        group: &'static str,
        /// Version of the group.
        version: &'static str,
        /// Plural of the resource.
        plural: &'static str,
        /// Version of Kubernetes that has it first.
        introduced: MajorMinor,
        /// Version that is emulated.
        current: MajorMinor,
    },
    /// Version of a group without any resource.
    #[error(
        "cannot enable version {version} in runtime-config because all the resources have been \
         introduced after the current version {current}. Consider setting \
         --runtime-config-emulation-forward-compatible=true"
    )]
    Version {
        /// Version of the group.
        version: GroupVersion,
        /// Version that is emulated.
        current: MajorMinor,
    },
}

impl Default for ResourceConfig {
    /// Resources that are served unless flags say otherwise.
    fn default() -> Self {
        let enabled = rows().map(|row| ((row.group, row.version, row.path), row.on)).collect();
        ResourceConfig { enabled }
    }
}

impl ResourceConfig {
    /// Tells whether the resource is served; a subresource goes with its resource.
    ///
    /// ```
    /// use kube_apiserver::options::ResourceConfig;
    /// assert!(ResourceConfig::default().enabled("apps", "v1", "deployments/scale"));
    /// ```
    pub fn enabled(&self, group: &str, version: &str, resource: &str) -> bool {
        let resource = resource.split('/').next().unwrap_or_default();
        let known = self.enabled.get(&(group, version, resource));
        known.copied().unwrap_or_else(|| self.any_enabled(group, version))
    }

    /// Tells whether anything in the version of the group is served.
    pub fn any_enabled(&self, group: &str, version: &str) -> bool {
        self.enabled.iter().any(|(&(g, v, _), &enabled)| enabled && (g, v) == (group, version))
    }

    /// Alpha versions of which something is served.
    pub fn alpha_versions(&self) -> BTreeSet<(&'static str, &'static str)> {
        let served = self.enabled.iter().filter(|(_, enabled)| **enabled);
        let versions = served.map(|(&(group, version, _), _)| (group, version));
        versions.filter(|(_, version)| version.contains("alpha")).collect()
    }

    /// Without the resources whose feature is off, whatever `--runtime-config` says: what keeps them
    /// safe is off with it.
    pub(super) fn without_disabled(mut self, gates: &FeatureGates) -> Self {
        for (group, plural, gate) in GATED.iter().filter(|(.., gate)| !gates.enabled(*gate)) {
            let asked = self.enabled.iter().any(|((g, _, p), on)| *on && (g, p) == (group, plural));
            if asked {
                warn!("{gate} storage is disabled because the {gate} feature gate is disabled");
            }
            self.set(false, |g, _, p| (g, p) == (*group, *plural));
        }
        self
    }

    pub(super) fn set(&mut self, enabled: bool, matches: impl Fn(&str, &str, &str) -> bool) {
        for ((group, version, resource), value) in &mut self.enabled {
            if matches(group, version, resource) {
                *value = enabled;
            }
        }
    }

    pub(super) fn apply(&mut self, choice: &ApiChoice) {
        for (name, value) in &mut self.enabled {
            if choice.matches(*name) {
                *value = choice.enabled;
            }
        }
    }

    /// Serves, of each group with a version that is neither alpha nor off, the newer versions, too.
    pub(super) fn enable_newer(&mut self) {
        let on = self.enabled.iter().filter(|((_, version, _), on)| **on && !is_alpha(version));
        let on: BTreeSet<GroupVersionPlural> = on.map(|(name, _)| *name).collect();
        let whole = |group: &str, version: &str| {
            let mut all = self.enabled.iter().filter(|((g, v, _), _)| (*g, *v) == (group, version));
            all.all(|(_, on)| *on)
        };
        let newer: Vec<GroupVersionPlural> = self.enabled.keys().copied().collect::<Vec<_>>();
        let newer = newer.into_iter().filter(|(group, version, plural)| {
            on.iter().any(|(g, v, p)| {
                g == group
                    && version_rank(v) < version_rank(version)
                    && (p == plural || whole(g, v))
            })
        });
        let newer: BTreeSet<GroupVersionPlural> = newer.collect();
        newer.into_iter().for_each(|name| {
            self.enabled.insert(name, true);
        });
    }

    /// Leaves out resources that the version has no more, or not yet (upstream: `RemoveUnavailableKinds`).
    pub(super) fn at_version(
        mut self,
        emulation: Emulation,
        explicit: &[ApiChoice],
    ) -> Result<Self, EmulationError> {
        let mut rows: Vec<_> = rows().collect();
        rows.sort_by_key(|row| version_rank(row.version));
        let named = |name: GroupVersionPlural, single: bool| {
            explicit.iter().any(|c| c.enabled && c.resource.is_some() == single && c.matches(name))
        };
        let current = emulation.version;
        let mut older: BTreeSet<(&str, &str)> = BTreeSet::new();
        let mut unborn = BTreeSet::new();
        for row in rows {
            let name = (row.group, row.version, row.path);
            if self.enabled.get(&name) != Some(&true) {
                continue;
            }
            let introduced = row.introduced.map_or(MajorMinor(0, 0), |(a, b)| MajorMinor(a, b));
            let removed = row.removed.is_some_and(|(a, b)| MajorMinor(a, b) <= current);
            let forward = emulation.forward_compatible && older.contains(&(row.group, row.path))
                || emulation.runtime_config_forward_compatible
                    && (named(name, true) || named(name, false));
            if removed || introduced > current && !forward {
                if !removed && named(name, true) {
                    return Err(EmulationError::Resource {
                        group: row.group,
                        version: row.version,
                        plural: row.path,
                        introduced,
                        current,
                    });
                }
                if !removed && named(name, false) {
                    unborn.insert((row.group, row.version));
                }
                self.enabled.insert(name, false);
            } else if !is_alpha(row.version) {
                older.insert((row.group, row.path));
            }
        }
        match unborn.into_iter().find(|(group, version)| !self.any_enabled(group, version)) {
            Some((group, version)) => {
                Err(EmulationError::Version { version: GroupVersion::new(group, version), current })
            }
            None => Ok(self),
        }
    }
}

fn rows() -> impl Iterator<Item = &'static builtin::Resource> {
    builtin::resources().iter().filter(|row| !row.path.contains('/'))
}

fn is_alpha(version: &str) -> bool {
    version.contains("alpha")
}

/// Resources that are served only if a feature is on, too.
const GATED: &[(&str, &str, Feature)] = &[
    ("certificates.k8s.io", "clustertrustbundles", Feature::ClusterTrustBundle),
    ("certificates.k8s.io", "podcertificaterequests", Feature::PodCertificateRequest),
    ("scheduling.k8s.io", "podgroups", Feature::GenericWorkload),
    ("scheduling.k8s.io", "workloads", Feature::GenericWorkload),
    ("storagemigration.k8s.io", "storageversionmigrations", Feature::StorageVersionMigrator),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(group: &str, version: &str, resource: Option<&str>) -> ApiChoice {
        let version = GroupVersion::new(group, version);
        ApiChoice { version, resource: resource.map(str::to_owned), enabled: true }
    }

    fn config(minor: u32, explicit: &[ApiChoice]) -> Result<ResourceConfig, String> {
        let emulation = Emulation { version: MajorMinor(1, minor), ..Emulation::default() };
        let mut config = ResourceConfig::default();
        explicit.iter().for_each(|choice| config.apply(choice));
        config.at_version(emulation, explicit).map_err(|error| error.to_string())
    }

    const CLAIMS: GroupVersionPlural = ("resource.k8s.io", "v1", "resourceclaims");
    const OLD_POLICIES: GroupVersionPlural =
        ("admissionregistration.k8s.io", "v1beta1", "validatingadmissionpolicies");

    #[test]
    fn kinds_are_served_from_their_first_version_to_their_last() {
        let beta = || vec![choice("admissionregistration.k8s.io", "v1beta1", None)];
        for (minor, explicit, (group, version, plural), served) in [
            (36, vec![], CLAIMS, true),
            (34, vec![], CLAIMS, true),
            (33, vec![], CLAIMS, false),
            (33, beta(), OLD_POLICIES, true),
            (34, beta(), OLD_POLICIES, false),
            (36, beta(), OLD_POLICIES, false),
            (
                35,
                vec![],
                ("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies"),
                false,
            ),
            (33, vec![], ("networking.k8s.io", "v1", "ipaddresses"), true),
        ] {
            let config = config(minor, &explicit).unwrap();
            assert_eq!(config.enabled(group, version, plural), served, "{plural} in 1.{minor}");
        }
    }

    #[test]
    fn newer_kinds_are_refused_by_name_as_the_reference_does() {
        let named = choice("resource.k8s.io", "v1", Some("resourceclaims"));
        assert_eq!(
            config(33, &[named]).unwrap_err(),
            "cannot enable resource resource.k8s.io/v1, Resource=resourceclaims in runtime-config \
             because it is introduced at 1.34 after the current version 1.33. Consider setting \
             --runtime-config-emulation-forward-compatible=true"
        );
        let version = choice("resource.k8s.io", "v1", None);
        assert_eq!(
            config(33, &[version]).unwrap_err(),
            "cannot enable version resource.k8s.io/v1 in runtime-config because all the resources \
             have been introduced after the current version 1.33. Consider setting \
             --runtime-config-emulation-forward-compatible=true"
        );
    }

    #[test]
    fn newer_kinds_are_served_forward_compatibly() {
        let at = MajorMinor(1, 33);
        let by_name = Emulation {
            version: at,
            runtime_config_forward_compatible: true,
            ..Emulation::default()
        };
        let explicit = [choice("resource.k8s.io", "v1", None)];
        let mut config = ResourceConfig::default();
        explicit.iter().for_each(|choice| config.apply(choice));
        let config = config.at_version(by_name, &explicit).unwrap();
        assert!(config.enabled(CLAIMS.0, CLAIMS.1, CLAIMS.2));

        let forward = Emulation { version: at, forward_compatible: true, ..Emulation::default() };
        for (beta, served) in [(true, true), (false, false)] {
            let explicit: Vec<ApiChoice> =
                beta.then(|| choice("resource.k8s.io", "v1beta2", None)).into_iter().collect();
            let mut config = ResourceConfig::default();
            explicit.iter().for_each(|choice| config.apply(choice));
            config.enable_newer();
            let config = config.at_version(forward, &explicit).unwrap();
            assert_eq!(config.enabled(CLAIMS.0, CLAIMS.1, CLAIMS.2), served, "{beta}");
        }
    }
}
