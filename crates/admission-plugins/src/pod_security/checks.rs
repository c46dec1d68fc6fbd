//! Pod Security Standards: the table of checks, with the version since which each applies.

use std::borrow::Cow;

use kevel_api::value::Value;

use super::policy::{Level, LevelVersion};
use super::{baseline, restricted};

/// Metadata and spec of a pod or pod template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    pub metadata: &'a Value,
    pub spec: &'a Value,
}

/// Violation of a check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub reason: Cow<'static, str>,
    pub detail: String,
}

type Rule = fn(&Pod<'_>) -> Option<Violation>;

/// A check, with its implementations by the minor version since which each applies.
struct Check {
    level: Level,
    since: &'static [(u32, Rule)],
    /// Check of a lower level that this one overrides.
    instead_of: Option<&'static str>,
    id: &'static str,
}

const fn check(
    level: Level,
    id: &'static str,
    since: &'static [(u32, Rule)],
    instead_of: Option<&'static str>,
) -> Check {
    Check { level, since, instead_of, id }
}

use Level::{Baseline, Restricted};

/// All checks, in the order in which violations are listed.
const CHECKS: [Check; 19] = [
    check(Baseline, "appArmorProfile", &[(0, baseline::app_armor_profile)], None),
    check(Baseline, "capabilities_baseline", &[(0, baseline::capabilities)], None),
    check(Baseline, "hostNamespaces", &[(0, baseline::host_namespaces)], None),
    check(Baseline, "hostPathVolumes", &[(0, baseline::host_path_volumes)], None),
    check(Baseline, "hostPorts", &[(0, baseline::host_ports)], None),
    check(
        Baseline,
        "hostProbesAndHostLifecycle",
        &[(34, baseline::host_probes_and_host_lifecycle)],
        None,
    ),
    check(Baseline, "privileged", &[(0, baseline::privileged)], None),
    check(
        Baseline,
        "procMount",
        &[(0, baseline::proc_mount), (35, baseline::proc_mount_1_35)],
        None,
    ),
    check(
        Baseline,
        "seLinuxOptions",
        &[(0, baseline::se_linux_options), (31, baseline::se_linux_options_1_31)],
        None,
    ),
    check(
        Baseline,
        "seccompProfile_baseline",
        &[(0, baseline::seccomp_annotations), (19, baseline::seccomp_profile)],
        None,
    ),
    check(
        Baseline,
        "sysctls",
        &[
            (0, baseline::sysctls),
            (27, baseline::sysctls_1_27),
            (29, baseline::sysctls_1_29),
            (32, baseline::sysctls_1_32),
        ],
        None,
    ),
    check(Baseline, "windowsHostProcess", &[(0, baseline::windows_host_process)], None),
    check(
        Restricted,
        "allowPrivilegeEscalation",
        &[
            (8, restricted::allow_privilege_escalation),
            (25, restricted::allow_privilege_escalation_1_25),
        ],
        None,
    ),
    check(
        Restricted,
        "capabilities_restricted",
        &[(22, restricted::capabilities), (25, restricted::capabilities_1_25)],
        Some("capabilities_baseline"),
    ),
    check(Restricted, "procMount_restricted", &[(35, baseline::proc_mount)], Some("procMount")),
    check(
        Restricted,
        "restrictedVolumes",
        &[(0, restricted::restricted_volumes)],
        Some("hostPathVolumes"),
    ),
    check(
        Restricted,
        "runAsNonRoot",
        &[(0, restricted::run_as_non_root), (35, restricted::run_as_non_root_1_35)],
        None,
    ),
    check(
        Restricted,
        "runAsUser",
        &[(23, restricted::run_as_user), (35, restricted::run_as_user_1_35)],
        None,
    ),
    check(
        Restricted,
        "seccompProfile_restricted",
        &[(19, restricted::seccomp_profile), (25, restricted::seccomp_profile_1_25)],
        Some("seccompProfile_baseline"),
    ),
];

impl Check {
    fn rule(&self, minor: u32) -> Option<Rule> {
        let known = self.since.iter().rev().find(|(since, _)| *since <= minor);
        known.map(|(_, rule)| *rule)
    }
}

/// Violations of a level by a pod; `newest` is the minor version of the newest standards that are known.
pub(super) fn violations(of: LevelVersion, newest: u32, pod: &Pod<'_>) -> Vec<Violation> {
    if of.level == Level::Privileged {
        return Vec::new();
    }
    let minor = of.version.unwrap_or(newest).min(newest);
    let applies = |check: &&Check| check.level <= of.level;
    let replaced = |id: &str| {
        let mut stricter = CHECKS.iter().filter(applies);
        stricter.any(|check| check.instead_of == Some(id) && check.rule(minor).is_some())
    };
    let checks = CHECKS.iter().filter(applies).filter(|check| !replaced(check.id));
    checks.filter_map(|check| check.rule(minor)?(pod)).collect()
}

/// Violations in one line.
pub(super) fn describe(violations: &[Violation]) -> String {
    let violations = violations.iter().map(|Violation { reason, detail }| match detail.as_str() {
        "" => reason.to_string(),
        detail => format!("{reason} ({detail})"),
    });
    violations.collect::<Vec<_>>().join(", ")
}

impl<'a> Pod<'a> {
    /// Containers of all three lists.
    pub fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        let kinds = ["initContainers", "containers", "ephemeralContainers"];
        kinds.into_iter().flat_map(move |kind| spec.list_at(&[kind]))
    }

    /// Names of the containers that match a predicate.
    pub fn containers_where(&self, is: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| is(container)).map(|c| c.str_at(&["name"])).collect()
    }

    /// True if the pod runs in a user namespace, where its root has no rights on the node.
    pub fn has_user_namespace(&self) -> bool {
        self.spec.at(&["hostUsers"]) == Some(&Value::Bool(false))
    }

    pub fn is_windows(&self) -> bool {
        self.spec.str_at(&["os", "name"]) == "windows"
    }
}

/// Makes a violation.
pub(super) fn violation(reason: impl Into<Cow<'static, str>>, detail: String) -> Option<Violation> {
    Some(Violation { reason: reason.into(), detail })
}

/// `container "a"`, `containers "a", "b"`
pub(super) fn named(kind: &str, names: &[impl AsRef<str>]) -> String {
    format!("{kind}{} {}", plural(names.len()), quoted(names))
}

/// `"a", "b"`
pub(super) fn quoted(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { String::new() } else { format!("\"{}\"", names.join("\", \"")) }
}

/// Plural ending for messages.
pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// `pod and containers "a", "b"`; `None` if neither the pod nor a container is named.
pub(super) fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let mut setters = Vec::new();
    if pod {
        setters.push("pod".to_owned());
    }
    if !containers.is_empty() {
        setters.push(named("container", containers));
    }
    (!setters.is_empty()).then(|| setters.join(" and "))
}
