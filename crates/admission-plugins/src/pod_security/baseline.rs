//! Pod Security Standards: the checks of the level `baseline`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use kevel_api::quote::quote;
use kevel_api::value::Value;

use super::checks::{Pod, Violation, named, plural, quoted, setters, violation};

const CONTEXT: &str = "securityContext";

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn app_armor_profile(pod: &Pod<'_>) -> Option<Violation> {
    let (bad, on_pod, containers) = bad_types(pod, "appArmorProfile");
    let annotations = pod.metadata.at(&["annotations"]).and_then(Value::as_map);
    let annotations = annotations.into_iter().flat_map(|annotations| annotations.iter());
    let annotations = annotations.filter(|(key, _)| key.starts_with(APP_ARMOR_ANNOTATION));
    let annotations = annotations.map(|(key, value)| (key, value.as_str().unwrap_or_default()));
    let bad_annotations: Vec<String> = annotations
        .filter(|(_, profile)| {
            !matches!(*profile, "" | "runtime/default") && !profile.starts_with("localhost/")
        })
        .map(|(key, profile)| format!("{key}={}", quote(profile)))
        .collect();
    let mut who: Vec<String> = setters(on_pod, &containers).into_iter().collect();
    if !bad_annotations.is_empty() {
        who.push(format!("annotation{}", plural(bad_annotations.len())));
    }
    if who.is_empty() {
        return None;
    }
    let values: Vec<String> = bad.into_iter().chain(bad_annotations).collect();
    let detail =
        format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&values));
    violation(format!("forbidden AppArmor profile{}", plural(values.len())), detail)
}

/// Capabilities that containers may add.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let (containers, added) = added_capabilities(pod, &CAPABILITIES);
    if containers.is_empty() {
        return None;
    }
    violation(
        "non-default capabilities",
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            named("container", &containers),
            quoted(&added)
        ),
    )
}

/// Containers that add other capabilities than the allowed ones, and those capabilities.
pub(super) fn added_capabilities<'a>(
    pod: &Pod<'a>,
    allowed: &[&str],
) -> (Vec<&'a str>, Vec<String>) {
    let bad = RefCell::new(BTreeSet::new());
    let containers = pod.containers_where(|container| {
        let added = container.list_at(&[CONTEXT, "capabilities", "add"]).iter();
        let added = added.filter_map(Value::as_str).filter(|name| !allowed.contains(name));
        let added: Vec<String> = added.map(str::to_owned).collect();
        let adds = !added.is_empty();
        bad.borrow_mut().extend(added);
        adds
    });
    (containers, bad.into_inner().into_iter().collect())
}

pub(super) fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared = shared.filter(|field| pod.spec.at(&[field]) == Some(&Value::Bool(true)));
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() { None } else { violation("host namespaces", shared.join(", ")) }
}

pub(super) fn host_path_volumes(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec.list_at(&["volumes"]).iter();
    let volumes = volumes.filter(|volume| volume.at(&["hostPath"]).is_some());
    let volumes: Vec<&str> = volumes.map(|volume| volume.str_at(&["name"])).collect();
    if volumes.is_empty() { None } else { violation("hostPath volumes", named("volume", &volumes)) }
}

pub(super) fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let ports = RefCell::new(BTreeSet::new());
    let containers = pod.containers_where(|container| {
        let used = container.list_at(&["ports"]).iter();
        let used = used.filter_map(|port| port.at(&["hostPort"])?.as_int()).filter(|p| *p != 0);
        let used: Vec<String> = used.map(|port| port.to_string()).collect();
        let uses = !used.is_empty();
        ports.borrow_mut().extend(used);
        uses
    });
    if containers.is_empty() {
        return None;
    }
    let ports: Vec<String> = ports.into_inner().into_iter().collect();
    let detail = format!(
        "{} {} hostPort{} {}",
        named("container", &containers),
        uses(containers.len()),
        plural(ports.len()),
        ports.join(", ")
    );
    violation("hostPort", detail)
}

/// Probes and lifecycle handlers of a container that may name a host.
const HANDLERS: [&[&str]; 5] = [
    &["livenessProbe"],
    &["readinessProbe"],
    &["startupProbe"],
    &["lifecycle", "postStart"],
    &["lifecycle", "preStop"],
];

pub(super) fn host_probes_and_host_lifecycle(pod: &Pod<'_>) -> Option<Violation> {
    let (mut containers, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for container in pod.containers() {
        let handlers = HANDLERS.iter().filter_map(|path| container.at(path));
        let named = handlers.flat_map(|handler| {
            ["httpGet", "tcpSocket"].map(|action| handler.str_at(&[action, "host"]))
        });
        for host in named.filter(|host| !host.is_empty()) {
            containers.insert(container.str_at(&["name"]));
            hosts.insert(host);
        }
    }
    if containers.is_empty() {
        return None;
    }
    let containers: Vec<&str> = containers.into_iter().collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let detail = format!(
        "{} {} {}",
        named("container", &containers),
        uses(containers.len()),
        named("probe or lifecycle host", &hosts)
    );
    violation("probe or lifecycle host", detail)
}

pub(super) fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let is = |c: &Value| c.at(&[CONTEXT, "privileged"]) == Some(&Value::Bool(true));
    let containers = pod.containers_where(is);
    if containers.is_empty() {
        return None;
    }
    let containers = named("container", &containers);
    violation("privileged", format!("{containers} must not set securityContext.privileged=true"))
}

pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let bad = RefCell::new(BTreeSet::new());
    let containers = pod.containers_where(|container| {
        let mount = container.at(&[CONTEXT, "procMount"]).and_then(Value::as_str);
        let other = mount.filter(|mount| *mount != "Default");
        other.map(|mount| bad.borrow_mut().insert(mount.to_owned())).is_some()
    });
    if containers.is_empty() {
        return None;
    }
    let bad: Vec<String> = bad.into_inner().into_iter().collect();
    let containers = named("container", &containers);
    let detail = format!("{containers} must not set securityContext.procMount to {}", quoted(&bad));
    violation("procMount", detail)
}

pub(super) fn proc_mount_1_35(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { proc_mount(pod) }
}

const SE_LINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

pub(super) fn se_linux_options(pod: &Pod<'_>) -> Option<Violation> {
    check_se_linux(pod, SE_LINUX_TYPES.get(..4).unwrap_or_default())
}

pub(super) fn se_linux_options_1_31(pod: &Pod<'_>) -> Option<Violation> {
    check_se_linux(pod, &SE_LINUX_TYPES)
}

fn check_se_linux(pod: &Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let types = RefCell::new(BTreeSet::new());
    let (user, role) = (RefCell::new(false), RefCell::new(false));
    let is_bad = |of: &Value| {
        let Some(options) = of.at(&[CONTEXT, "seLinuxOptions"]) else { return false };
        let kind = options.str_at(&["type"]);
        let bad_type = !allowed.contains(&kind);
        if bad_type {
            types.borrow_mut().insert(kind.to_owned());
        }
        let sets = |field| !options.str_at(&[field]).is_empty();
        *user.borrow_mut() |= sets("user");
        *role.borrow_mut() |= sets("role");
        bad_type || sets("user") || sets("role")
    };
    let who = setters(is_bad(pod.spec), &pod.containers_where(is_bad))?;
    let types: Vec<String> = types.into_inner().into_iter().collect();
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(named("type", &types));
    }
    if user.into_inner() {
        what.push("user may not be set".to_owned());
    }
    if role.into_inner() {
        what.push("role may not be set".to_owned());
    }
    let what = what.join("; ");
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {what}");
    violation("seLinuxOptions", detail)
}

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Checks the seccomp annotations, which preceded the fields.
pub(super) fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let containers =
        pod.containers().map(|c| format!("{SECCOMP_CONTAINER}{}", c.str_at(&["name"])));
    let keys = std::iter::once(SECCOMP_POD.to_owned()).chain(containers);
    let bad: BTreeSet<String> = keys
        .filter_map(|key| {
            let profile = pod.metadata.at(&["annotations", &key])?.as_str()?;
            let allowed = matches!(profile, "runtime/default" | "docker/default")
                || profile.starts_with("localhost/");
            (!allowed).then(|| format!("{key}={}", quote(profile)))
        })
        .collect();
    if bad.is_empty() {
        return None;
    }
    let annotations = format!("annotation{}", plural(bad.len()));
    let bad: Vec<String> = bad.into_iter().collect();
    violation("seccompProfile", format!("forbidden {annotations} {}", bad.join(", ")))
}

pub(super) fn seccomp_profile(pod: &Pod<'_>) -> Option<Violation> {
    let (bad, on_pod, containers) = bad_types(pod, "seccompProfile");
    let who = setters(on_pod, &containers)?;
    let bad: Vec<String> = bad.into_iter().collect();
    let types = quoted(&bad);
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {types}");
    violation("seccompProfile", detail)
}

/// Profile types other than RuntimeDefault and Localhost; whether the pod sets one; containers that set one.
fn bad_types<'a>(pod: &Pod<'a>, profile: &str) -> (BTreeSet<String>, bool, Vec<&'a str>) {
    let bad = RefCell::new(BTreeSet::new());
    let is_bad = |of: &Value| {
        let Some(profile) = of.at(&[CONTEXT, profile]) else { return false };
        let kind = profile.str_at(&["type"]);
        let allowed = matches!(kind, "RuntimeDefault" | "Localhost");
        if !allowed {
            bad.borrow_mut().insert(kind.to_owned());
        }
        !allowed
    };
    let (on_pod, containers) = (is_bad(pod.spec), pod.containers_where(is_bad));
    (bad.into_inner(), on_pod, containers)
}

/// Safe sysctls, each with the minor version since which it is allowed.
const SYSCTLS: [(u32, &str); 12] = [
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

pub(super) fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    check_sysctls(pod, 0)
}

pub(super) fn sysctls_1_27(pod: &Pod<'_>) -> Option<Violation> {
    check_sysctls(pod, 27)
}

pub(super) fn sysctls_1_29(pod: &Pod<'_>) -> Option<Violation> {
    check_sysctls(pod, 29)
}

pub(super) fn sysctls_1_32(pod: &Pod<'_>) -> Option<Violation> {
    check_sysctls(pod, 32)
}

fn check_sysctls(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    let safe = |name: &&str| SYSCTLS.iter().any(|(since, safe)| *since <= minor && safe == name);
    let set = pod.spec.list_at(&[CONTEXT, "sysctls"]).iter().map(|sysctl| sysctl.str_at(&["name"]));
    let bad: Vec<&str> = set.filter(|name| !safe(name)).collect();
    if bad.is_empty() { None } else { violation("forbidden sysctls", bad.join(", ")) }
}

pub(super) fn windows_host_process(pod: &Pod<'_>) -> Option<Violation> {
    let is =
        |of: &Value| of.at(&[CONTEXT, "windowsOptions", "hostProcess"]) == Some(&Value::Bool(true));
    let who = setters(is(pod.spec), &pod.containers_where(is))?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    violation("hostProcess", detail)
}

/// The verb for messages, by number of subjects.
pub(super) fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}
