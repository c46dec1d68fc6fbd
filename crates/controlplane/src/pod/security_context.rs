//! Validation of security contexts of pods and containers.

use std::collections::HashSet;

use kevel_features::Feature;

use super::{Options, windows};
use crate::validation::Field;

/// Maximum length of a profile's path.
pub(super) const MAX_PROFILE: usize = 4095;
const MAX_SYSCTL: usize = 253;

/// Checks the security context of a pod.
pub fn pod(spec: Field, options: &Options) {
    let context = spec.at("securityContext");
    for id in ["fsGroup", "runAsUser", "runAsGroup"] {
        context.at(id).user_or_group();
    }
    context.at("supplementalGroups").items().for_each(|group| group.user_or_group());
    let shared = spec.at("shareProcessNamespace");
    if shared.bool() && spec.at("hostPID").bool() {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        context.at("shareProcessNamespace").invalid_as(true, why);
    }
    sysctls(spec, options);
    if context.is_absent() {
        return;
    }
    one_of_if_set(context.at("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    seccomp_profile(context.at("seccompProfile"));
    windows::options(context.at("windowsOptions"));
    app_armor_profile(context.at("appArmorProfile"));
    one_of_if_set(context.at("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    // Without the gate MountOption is allowed only if the stored pod has it already.
    let by_mount = spec.capabilities().features.has(Feature::SELinuxMount);
    let policies: &[&str] = if by_mount || options.tolerates.selinux_mounts {
        &["MountOption", "Recursive"]
    } else {
        &["Recursive"]
    };
    one_of_if_set(context.at("seLinuxChangePolicy"), policies);
}

fn one_of_if_set(field: Field, values: &[&str]) {
    if field.is_set() {
        field.one_of(values);
    }
}

/// Checks the security context of a container.
pub fn container(context: Field, host_users: bool) {
    if context.is_absent() {
        return;
    }
    let privileged = context.at("privileged");
    if privileged.bool() && !context.capabilities().allow_privileged {
        privileged.forbidden("disallowed by cluster policy");
    }
    context.at("runAsUser").user_or_group();
    context.at("runAsGroup").user_or_group();
    let proc_mount = context.at("procMount");
    if proc_mount.is_set() {
        proc_mount.one_of(&["Default", "Unmasked"]);
        if host_users && proc_mount.str() == "Unmasked" {
            proc_mount.invalid("`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp_profile(context.at("seccompProfile"));
    let escalation = context.at("allowPrivilegeEscalation");
    if escalation.is_set() && !escalation.bool() {
        escalates_anyway(context);
    }
    windows::options(context.at("windowsOptions"));
    app_armor_profile(context.at("appArmorProfile"));
}

fn escalates_anyway(context: Field) {
    if context.at("privileged").bool() {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        context.invalid(why);
    }
    let added = context.at("capabilities").at("add").strings();
    added.filter(|capability| *capability == "CAP_SYS_ADMIN").for_each(|_| {
        let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                   CAP_SYS_ADMIN";
        context.invalid(why);
    });
}

fn seccomp_profile(profile: Field) {
    if profile.is_absent() {
        return;
    }
    let (ty, path) = (profile.at("type"), profile.at("localhostProfile"));
    ty.must_one_of(
        "type is required when seccompProfile is set",
        &["Localhost", "RuntimeDefault", "Unconfined"],
    );
    match (ty.str() == "Localhost", path.is_set()) {
        (true, false) => path.required("must be set when seccomp type is Localhost"),
        (true, true) => path.local_descending_path(),
        (false, true) => {
            path.invalid_as(profile.bad_value(), "can only be set when seccomp type is Localhost");
        }
        (false, false) => {}
    }
}

fn app_armor_profile(profile: Field) {
    if profile.is_absent() {
        return;
    }
    let (ty, path) = (profile.at("type"), profile.at("localhostProfile"));
    match ty.str() {
        "Localhost" => {
            let why = "must be set when AppArmor type is Localhost";
            if path.str().trim() != path.str() {
                path.invalid("must not be padded with whitespace");
            } else {
                path.must(why);
            }
            if path.len() > MAX_PROFILE {
                path.too_long(MAX_PROFILE);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if path.is_set() {
                path.invalid("can only be set when AppArmor type is Localhost");
            }
        }
        _ => ty.must_one_of(
            "type is required when appArmorProfile is set",
            &["Localhost", "RuntimeDefault", "Unconfined"],
        ),
    }
}

fn sysctls(spec: Field, options: &Options) {
    let mut names = HashSet::new();
    let context = spec.at("securityContext");
    for sysctl in context.at("sysctls").items() {
        let name = sysctl.at("name");
        if name.is_empty() {
            name.required("");
        } else if !is_sysctl(name.str()) {
            name.invalid(
                "must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            );
        } else if names.contains(name.str()) {
            name.duplicate();
        }
        if !options.tolerates.host_sysctls {
            host_sysctl(name, spec);
        }
        names.insert(name.str());
    }
}

fn is_sysctl(name: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= MAX_SYSCTL
        && name.split(['.', '/']).all(|part| {
            let part = part.as_bytes();
            part.first().is_some_and(edge)
                && part.last().is_some_and(edge)
                && part.iter().all(|byte| edge(byte) || matches!(byte, b'-' | b'_'))
        })
}

/// Checks that a pod with the host's network or IPC namespace sets no sysctl of that namespace.
pub fn host_sysctl(name: Field, spec: Field) {
    const IPC: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    // In a name with slashes as separators, dots are part of the segments: swap both.
    let text = match name.str().find(['.', '/']).map(|at| name.str().as_bytes()[at]) {
        Some(b'/') => name.str().replace('.', "\0").replace('/', ".").replace('\0', "/"),
        _ => name.str().to_owned(),
    };
    let text = text.split('*').next().unwrap_or_default();
    let ipc = IPC.contains(&text) || text.starts_with("fs.mqueue.");
    if spec.at("hostNetwork").bool() && text.starts_with("net.") {
        name.invalid("may not be specified when 'hostNetwork' is true");
    } else if spec.at("hostIPC").bool() && ipc {
        name.invalid("may not be specified when 'hostIPC' is true");
    }
}
