//! Validation of `spec.os`: fields that a pod may not set for its operating system.

use super::each_container;
use crate::validation::Field;

const MAX_CREDENTIAL_SPEC: usize = 64 << 10;
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;

/// Fields of a pod that may not be set for Windows.
const NOT_WINDOWS: &[&str] = &[
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];

/// Fields of a container's security context that may not be set for Windows.
const NOT_WINDOWS_CONTAINER: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Checks `spec.os`, and that no field of the other operating system is set.
pub fn os(spec: Field) {
    let os = spec.at("os");
    if os.is_absent() {
        return;
    }
    match os.at("name").str() {
        "" => os.at("name").required(""),
        "linux" => linux(spec),
        "windows" => windows(spec),
        other => os.unsupported_as(other, &["linux", "windows"]),
    }
}

fn linux(spec: Field) {
    let why = "windows options cannot be set for a linux pod";
    let context = spec.at("securityContext");
    if context.at("windowsOptions").is_set() {
        context.at("windowsOptions").forbidden(why);
    }
    each_container(spec, |container| {
        let context = container.at("securityContext");
        if context.at("windowsOptions").is_set() {
            context.at("windowsOptions").forbidden(why);
        }
    });
}

fn windows(spec: Field) {
    let why = "cannot be set for a windows pod";
    for field in NOT_WINDOWS {
        let none = field.ends_with("sysctls") && spec.down(field).is_empty();
        if spec.down(field).is_set() && !none {
            spec.down(field).forbidden(why);
        }
    }
    each_container(spec, |container| {
        let context = container.at("securityContext");
        for field in NOT_WINDOWS_CONTAINER {
            if context.at(field).is_set() {
                context.at(field).forbidden(why);
            }
        }
    });
}

/// Checks `windowsOptions` of a security context.
pub fn options(options: Field) {
    let name = options.at("gmsaCredentialSpecName");
    if name.is_set() {
        name.form(kevel_api::name::is_dns1123_subdomain);
    }
    let spec = options.at("gmsaCredentialSpec");
    if spec.is_set() && spec.is_empty() {
        spec.invalid("gmsaCredentialSpec cannot be an empty string");
    } else if spec.len() > MAX_CREDENTIAL_SPEC {
        spec.invalid("gmsaCredentialSpec size must be under 64 KiB");
    }
    if options.at("runAsUserName").is_set() {
        user_name(options.at("runAsUserName"));
    }
}

fn user_name(name: Field) {
    let text = name.str();
    if text.is_empty() {
        return name.invalid("runAsUserName cannot be an empty string");
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return name.invalid("runAsUserName cannot contain control characters");
    }
    if text.matches('\\').count() > 1 {
        return name.invalid("runAsUserName cannot contain more than one backslash");
    }
    let (domain, user) = match text.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, text),
    };
    if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN) {
        name.invalid("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        name.invalid("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        name.invalid("runAsUserName's User cannot be empty");
    } else if user.len() > MAX_USER {
        name.invalid("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        name.invalid("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        name.invalid(
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
        );
    }
}

fn is_net_bios(domain: &str) -> bool {
    let count = domain.chars().count();
    (1..=15).contains(&count)
        && !domain.starts_with('.')
        && !domain.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        bytes.len() <= 63
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    })
}

/// Checks `hostProcess`: the same in all containers of a pod, and only with the host's network.
pub fn host_process(spec: Field) {
    let context = spec.at("securityContext");
    let options = context.at("windowsOptions");
    let pod = options.at("hostProcess");
    let (mut all, mut of_host) = (0, 0);
    each_container(spec, |container| {
        all += 1;
        let context = container.at("securityContext");
        let options = context.at("windowsOptions");
        let own = options.at("hostProcess");
        if pod.is_set() && own.is_set() && pod.bool() != own.bool() {
            own.invalid(format!(
                "pod hostProcess value must be identical if both are specified, was {}",
                pod.bool()
            ));
        }
        let counts = if own.is_set() { own.bool() } else { pod.bool() };
        of_host += usize::from(counts);
    });
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let why = "If pod contains any hostProcess containers then all containers must be \
                   HostProcess containers";
        spec.invalid_as("", why);
    }
    if !spec.at("hostNetwork").bool() {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        spec.at("hostNetwork").invalid_as(false, why);
    }
    if !spec.capabilities().allow_privileged {
        spec.forbidden("hostProcess containers are disallowed by cluster policy");
    }
}
