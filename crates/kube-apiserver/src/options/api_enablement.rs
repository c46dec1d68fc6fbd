//! Flags that say which APIs are served.

use super::resource_config::{ApiChoice, Emulation, ResourceConfig};
use crate::flags::{ConfigurationMap, EFFECTIVE, Value, parse_bool, section};
use kevel_api::builtin;
use kevel_api::gvk::GroupVersion;
use kevel_api::quote::quote;
use std::collections::BTreeSet;

section! {
    /// Options that say which APIs are served.
    ApiEnablement, "API enablement" {
        /// APIs to serve or not to serve, as name=true or name=false, comma separated. A name is
        /// group/version or group/version/resource (v1 for the core group), or one of api/all,
        /// api/ga, api/beta and api/alpha for all versions of that stage. The narrower name goes
        /// before the wider one.
        runtime_config: ConfigurationMap, EFFECTIVE;
    }
}

impl ApiEnablement {
    /// The core group's version has other names from long ago; `api/legacy` means nothing any more.
    pub(super) fn complete(&mut self) {
        let old: Vec<String> = self.runtime_config.keys().cloned().collect();
        for key in old {
            let core = ["v1", "api/v1"].iter().any(|v1| {
                key.strip_prefix(v1).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            if !core && key != "api/legacy" {
                continue;
            }
            if let Some(value) = self.runtime_config.remove(&key).filter(|_| core) {
                self.runtime_config.insert("/v1".to_owned(), value);
            }
        }
    }

    /// Validation errors of these options alone.
    pub(super) fn validate(&self, emulation: Emulation) -> Vec<String> {
        let config = &self.runtime_config;
        if config.len() == 1 && config.get("api/all").is_some_and(|value| value == "false") {
            return vec!["invalid runtime-config with only api/all=false".to_owned()];
        }
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => return vec![error],
        };
        let known: BTreeSet<&str> = group_versions().map(|(group, _)| group).collect();
        let unknown: BTreeSet<String> = names
            .iter()
            .filter(|name| !known.contains(name.version.group.as_str()))
            .map(|name| name.version.to_string())
            .collect();
        if !unknown.is_empty() {
            let unknown: Vec<String> = unknown.into_iter().collect();
            return vec![format!("unknown api groups {}", unknown.join(","))];
        }
        self.resource_config(emulation).err().into_iter().collect()
    }

    /// Error if priority and fairness is on while the API that configures it is disabled, as in the reference.
    pub(super) fn fairness_error(&self) -> Option<String> {
        let text = self.runtime_config.text();
        let decisive = ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"]
            .into_iter()
            .find(|name| ["true", "false"].iter().any(|v| text.contains(&format!("{name}={v}"))))?;
        text.contains(&format!("{decisive}=false")).then(|| {
            format!(
                "--runtime-config={decisive}=false conflicts with \
                 --enable-priority-and-fairness=true"
            )
        })
    }

    /// Resources that a server serves as a version, or the mistake in their names.
    pub fn resource_config(&self, emulation: Emulation) -> Result<ResourceConfig, String> {
        let mut config = ResourceConfig::default();
        for (name, matches) in STAGES {
            let enabled = match self.runtime_config.get(name).map(String::as_str) {
                None => continue,
                Some("true") => true,
                Some("false") => false,
                Some(other) => return Err(format!("invalid value {name}={other}")),
            };
            config.set(enabled, |_, version, _| matches(version));
        }
        let explicit = self.explicit()?;
        explicit.iter().for_each(|choice| config.apply(choice));
        if emulation.forward_compatible {
            config.enable_newer();
            explicit.iter().for_each(|choice| config.apply(choice));
        }
        config.at_version(emulation, &explicit).map_err(|error| error.to_string())
    }

    /// Choices by name, versions before single resources: the narrower name goes before the wider one.
    fn explicit(&self) -> Result<Vec<ApiChoice>, String> {
        let mut names = self.names()?;
        names.sort_by_key(|name| name.resource.is_some());
        let choice = |Name { key, version, resource }: Name<'_>| {
            if !group_versions().any(|known| known == (&*version.group, &*version.version)) {
                return Err(format!("group version {version} that has not been registered"));
            }
            let value = self.runtime_config.get(key).map_or("", String::as_str);
            let enabled = value.is_empty()
                || parse_bool(value)
                    .map_err(|error| format!("invalid value of {key}: {value}, err: {error}"))?;
            if let Some(resource) = resource.filter(|r| r.to_lowercase() != *r) {
                return Err(format!(
                    "invalid key {key}: group/version/resource and resource is always lowercase \
                     plural, not {}",
                    quote(resource)
                ));
            }
            Ok(ApiChoice { version, resource: resource.map(str::to_owned), enabled })
        };
        names.into_iter().map(choice).collect()
    }

    /// The names that are not those of a stage.
    fn names(&self) -> Result<Vec<Name<'_>>, String> {
        let keys = self.runtime_config.keys();
        keys.filter(|key| STAGES.iter().all(|(stage, _)| stage != key))
            .map(|key| {
                let invalid = || format!("runtime-config invalid key {key}");
                let parts: Vec<&str> = key.split('/').collect();
                let (group, version, resource) = match parts[..] {
                    [group, version] => (group, version, None),
                    [group, version, resource] => (group, version, Some(resource)),
                    _ => return Err(invalid()),
                };
                Ok(Name { key, version: GroupVersion::new(group, version), resource })
            })
            .collect()
    }
}

/// A name in `--runtime-config`, taken apart.
struct Name<'a> {
    key: &'a str,
    version: GroupVersion,
    resource: Option<&'a str>,
}

/// The names for all versions of a stage, the wider ones first.
type Stage = (&'static str, fn(&str) -> bool);
const STAGES: [Stage; 4] = [
    ("api/all", |_| true),
    ("api/ga", |version| stage_of(version) == Some("")),
    ("api/beta", |version| stage_of(version) == Some("beta")),
    ("api/alpha", |version| stage_of(version) == Some("alpha")),
];

/// Stage in a version: `beta` in `v1beta2`, empty in `v1`.
fn stage_of(version: &str) -> Option<&str> {
    let number = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let after_v = version.strip_prefix('v')?;
    let major = number(after_v);
    let rest = &after_v[major..];
    let stage = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    let numbered = stage.len() < rest.len();
    (major > 0 && numbered != stage.is_empty()).then_some(stage)
}

/// Every version of a group that may be named.
fn group_versions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let served = builtin::resources().iter().map(|resource| (resource.group, resource.version));
    served.chain(RETIRED)
}

/// Versions that can be named but have no resources, or none any more.
const RETIRED: [(&str, &str); 24] = [
    ("admission.k8s.io", "v1"),
    ("admission.k8s.io", "v1beta1"),
    ("apiextensions.k8s.io", "v1beta1"),
    ("apiregistration.k8s.io", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("authentication.k8s.io", "v1alpha1"),
    ("authentication.k8s.io", "v1beta1"),
    ("authorization.k8s.io", "v1beta1"),
    ("batch", "v1beta1"),
    ("discovery.k8s.io", "v1beta1"),
    ("events.k8s.io", "v1beta1"),
    ("extensions", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3"),
    ("imagepolicy.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac.authorization.k8s.io", "v1alpha1"),
    ("rbac.authorization.k8s.io", "v1beta1"),
    ("scheduling.k8s.io", "v1beta1"),
    ("storage.k8s.io", "v1alpha1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn enablement(flag: &str) -> ApiEnablement {
        let mut enablement = ApiEnablement::default();
        enablement.runtime_config.set(flag, false).unwrap();
        enablement.complete();
        enablement
    }

    #[test]
    fn stages_of_versions() {
        for (version, stage) in [
            ("v1", Some("")),
            ("v2beta1", Some("beta")),
            ("v1alpha3", Some("alpha")),
            ("v1beta", None),
            ("v", None),
            ("1", None),
        ] {
            assert_eq!(stage_of(version), stage, "{version}");
        }
    }

    #[test]
    fn resources_are_switched() {
        for (flag, (group, version, resource), enabled) in [
            ("", ("apps", "v1", "deployments"), true),
            ("", ("", "v1", "pods/log"), true),
            ("apps/v1=false", ("apps", "v1", "deployments/scale"), false),
            ("apps/v1/deployments=false", ("apps", "v1", "deployments"), false),
            ("apps/v1/deployments=false", ("apps", "v1", "daemonsets"), true),
            ("apps/v1=false,apps/v1/daemonsets", ("apps", "v1", "daemonsets"), true),
            ("api/all=false,v1=true", ("", "v1", "pods"), true),
            ("api/all=false,v1=true", ("apps", "v1", "deployments"), false),
            ("api/ga=false", ("batch", "v1", "jobs"), false),
            ("v1/pods=false", ("", "v1", "services"), false),
            ("api/legacy=false", ("", "v1", "services"), true),
            ("", ("resource.k8s.io", "v1beta1", "resourceclaims"), false),
            ("api/beta=true", ("resource.k8s.io", "v1beta1", "resourceclaims"), true),
        ] {
            let config = enablement(flag).resource_config(Emulation::default()).unwrap();
            assert_eq!(config.enabled(group, version, resource), enabled, "{flag}");
        }
    }

    #[test]
    fn mistakes_are_told_as_the_reference_tells_them() {
        for (flag, message) in [
            ("api/all=false", "invalid runtime-config with only api/all=false"),
            ("foo=true", "runtime-config invalid key foo"),
            ("a/b/c/d=true", "runtime-config invalid key a/b/c/d"),
            ("foo/v1=true,bar.io/v2/x=false", "unknown api groups bar.io/v2,foo/v1"),
            ("api/ga=maybe", "invalid value api/ga=maybe"),
            ("apps/v7=true", "group version apps/v7 that has not been registered"),
            (
                "apps/v1=maybe",
                "invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing \"maybe\": \
                 invalid syntax",
            ),
            (
                "apps/v1/Deployments=true",
                "invalid key apps/v1/Deployments: group/version/resource and resource is always \
                 lowercase plural, not \"Deployments\"",
            ),
        ] {
            assert_eq!(enablement(flag).validate(Emulation::default()), [message], "{flag}");
        }
        for (flag, conflict) in [
            ("", None),
            ("api/ga=false", Some("api/ga")),
            ("api/all=false,api/ga=true", None),
            ("flowcontrol.apiserver.k8s.io/v1=true,api/all=false", None),
        ] {
            let message = conflict.map(|name| {
                format!(
                    "--runtime-config={name}=false conflicts with \
                     --enable-priority-and-fairness=true"
                )
            });
            assert_eq!(enablement(flag).fairness_error(), message, "{flag}");
        }
    }
}
