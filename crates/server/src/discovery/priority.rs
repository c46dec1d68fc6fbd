//! Priorities of groups and versions: their order decides which resource `kubectl get` finds for a bare name. The
//! numbers are those of the reference's own APIServices.

use std::cmp::{Ordering, Reverse};

/// Priority of a group, and of a version in its group. Higher numbers come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// `groupPriorityMinimum`.
    pub group: i32,
    /// `versionPriority`.
    pub version: i32,
}

/// Priority of a group and version; that of custom resources if it is not built in.
pub fn of(group: &str, version: &str) -> Priority {
    let known = TABLE.iter().find(|(name, ..)| *name == group);
    let versions = known.map_or(&[][..], |(_, _, versions)| *versions);
    let version = versions.iter().find(|(name, _)| *name == version);
    Priority {
        group: known.map_or(CUSTOM.group, |(_, priority, _)| *priority),
        version: version.map_or(CUSTOM.version, |(_, priority)| *priority),
    }
}

/// Priority of a built-in group and version.
pub fn built_in(group: &str, version: &str) -> Option<Priority> {
    let (_, priority, versions) = TABLE.iter().find(|(name, ..)| *name == group)?;
    let (_, version) = versions.iter().find(|(name, _)| *name == version)?;
    Some(Priority { group: *priority, version: *version })
}

/// Orders two groups.
pub(crate) fn compare_groups(a: &str, b: &str) -> Ordering {
    let key = |group| (Reverse(of(group, "").group), group);
    key(a).cmp(&key(b))
}

/// Orders two versions of a group, preferred first.
pub fn compare_versions(group: &str, a: &str, b: &str) -> Ordering {
    let priority = |version| of(group, version).version;
    priority(b).cmp(&priority(a)).then_with(|| compare_maturity(a, b))
}

/// Orders two versions of equal priority: by maturity, then newest first.
pub fn compare_maturity(a: &str, b: &str) -> Ordering {
    maturity(b).cmp(&maturity(a)).then(a.cmp(b))
}

/// Priority of custom resources.
pub const CUSTOM: Priority = Priority { group: 1000, version: 100 };

/// Group, its priority, its versions with their priorities.
type Row = (&'static str, i32, &'static [(&'static str, i32)]);

const TABLE: &[Row] = &[
    // The group of APIServices is always first.
    ("apiregistration.k8s.io", 20000, &[("v1", 18)]),
    ("", 18000, &[("v1", 1)]),
    ("apps", 17800, &[("v1", 15)]),
    ("events.k8s.io", 17750, &[("v1", 15), ("v1beta1", 5)]),
    ("authentication.k8s.io", 17700, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    ("authorization.k8s.io", 17600, &[("v1", 15)]),
    ("autoscaling", 17500, &[("v2", 30), ("v1", 15), ("v2beta1", 9), ("v2beta2", 1)]),
    ("batch", 17400, &[("v1", 15), ("v1beta1", 9), ("v2alpha1", 9)]),
    ("certificates.k8s.io", 17300, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    ("networking.k8s.io", 17200, &[("v1", 15), ("v1beta1", 9)]),
    ("policy", 17100, &[("v1", 15), ("v1beta1", 9)]),
    ("rbac.authorization.k8s.io", 17000, &[("v1", 15)]),
    ("storage.k8s.io", 16800, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    ("apiextensions.k8s.io", 16700, &[("v1", 15)]),
    ("admissionregistration.k8s.io", 16700, &[("v1", 15), ("v1beta1", 12), ("v1alpha1", 9)]),
    ("scheduling.k8s.io", 16600, &[("v1", 15), ("v1alpha2", 2)]),
    ("coordination.k8s.io", 16500, &[("v1", 15), ("v1beta1", 13), ("v1alpha2", 12)]),
    ("node.k8s.io", 16300, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    ("discovery.k8s.io", 16200, &[("v1", 15), ("v1beta1", 12)]),
    ("resource.k8s.io", 16200, &[("v1", 21), ("v1beta2", 15), ("v1beta1", 9), ("v1alpha3", 1)]),
    (
        "flowcontrol.apiserver.k8s.io",
        16100,
        &[("v1", 21), ("v1beta3", 18), ("v1beta2", 15), ("v1beta1", 12), ("v1alpha1", 9)],
    ),
    ("internal.apiserver.k8s.io", 16000, &[("v1alpha1", 9)]),
    ("storagemigration.k8s.io", 15800, &[("v1beta1", 9)]),
];

/// Sort key: stable before beta before alpha before other names, newer before older.
fn maturity(version: &str) -> (u8, u64, u64, Reverse<&str>) {
    let other = (0, 0, 0, Reverse(version));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let (major, stage, minor) = match (rest.split_once("beta"), rest.split_once("alpha")) {
        (Some((major, minor)), _) => (major, 2, minor),
        (_, Some((major, minor))) => (major, 1, minor),
        _ => (rest, 3, "0"),
    };
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => (stage, major, minor, Reverse("")),
        _ => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_versions_have_an_order() {
        let mut groups =
            ["zoo.example.com", "batch", "apps", "a.example.com", "apiregistration.k8s.io"];
        groups.sort_by(|a, b| compare_groups(a, b));
        let expected =
            ["apiregistration.k8s.io", "apps", "batch", "a.example.com", "zoo.example.com"];
        assert_eq!(groups, expected);
        for (group, mut versions, expected) in [
            ("autoscaling", vec!["v1", "v2"], vec!["v2", "v1"]),
            (
                "example.com",
                vec!["foo10", "v1", "v10beta3", "v11alpha2", "v2", "foo1", "v3beta1", "v10"],
                vec!["v10", "v2", "v1", "v10beta3", "v3beta1", "v11alpha2", "foo1", "foo10"],
            ),
        ] {
            versions.sort_by(|a, b| compare_versions(group, a, b));
            assert_eq!(versions, expected, "{group}");
        }
    }
}
