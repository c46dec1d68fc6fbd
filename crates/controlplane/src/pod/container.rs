//! Validation of a pod's containers.

use std::collections::HashSet;

use kevel_api::name;
use kevel_api::value::Value;
use kevel_features::Feature;

use super::resources::Claims;
use super::volume::Volumes;
use super::{Options, env, probe, resources, security_context};
use crate::validation::Field;

/// Facts about the pod that the rules for its containers need.
pub struct Context<'v> {
    pub volumes: Volumes<'v>,
    pub claims: Claims<'v>,
    pub grace_period: Option<i64>,
    pub restart_policy: &'v str,
    pub host_users: bool,
    pub os: Option<&'v str>,
    pub options: Options,
}

/// Limits on a container's `restartPolicyRules`, and on the exit codes of one rule.
const MAX_RESTART_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Checks `containers`.
pub fn containers(containers: Field, context: &Context) {
    if !containers.must("") {
        return;
    }
    let mut names = HashSet::new();
    for container in containers.items() {
        common(container, context);
        container.at("name").unique(&mut names, container.at("name").str());
        lifecycle_and_probes(container, context);
        restart_policy(container, context);
    }
    host_ports(containers);
}

/// Checks `initContainers`.
pub fn init_containers(containers: Field, regular: Field, context: &Context) {
    let mut names: HashSet<&str> = regular.items().map(|c| c.at("name").str()).collect();
    for container in containers.items() {
        common(container, context);
        let policy = container.at("restartPolicy");
        match policy.is_set() {
            true if policy.str() == "Always" && !may_restart_all(container, context) => {
                let rules = container.at("restartPolicyRules");
                if !rules.is_empty() {
                    let why = "restartPolicyRules are not allowed for init containers with restart \
                               policy Always";
                    rules.forbidden(why);
                }
            }
            true => restart_policy(container, context),
            false if container.at("restartPolicyRules").is_empty() => {}
            false => policy.required("must specify restartPolicy when restart rules are used"),
        }
        let name = container.at("name");
        // Empty names are not reported as duplicates of each other.
        match name.is_empty() {
            true if names.contains("") => name.duplicate(),
            true => {}
            false => name.unique(&mut names, name.str()),
        }
        host_ports_of(&mut HashSet::new(), container, containers.index(0));
        let sidecar = policy.str() == "Always";
        if sidecar {
            lifecycle_and_probes(container, context);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.at(field).is_set() {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    container.at(field).forbidden(why);
                }
            }
        }
        if sidecar || context.options.tolerates.restarted_init_containers {
            continue;
        }
        for policy in container.at("resizePolicy").items() {
            let policy = policy.at("restartPolicy");
            if policy.str() == "RestartContainer" {
                let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                policy.invalid(why);
            }
        }
    }
}

/// True if an init container that is not restartable has the resize policy RestartContainer.
pub fn has_restarted_init_containers(spec: Field) -> bool {
    spec.at("initContainers").items().any(|container| {
        let policies = container.at("resizePolicy").list();
        container.at("restartPolicy").str() != "Always"
            && policies.iter().any(|p| p.str_at(&["restartPolicy"]) == "RestartContainer")
    })
}

/// Fields that ephemeral containers may not set, in the order of the error messages.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Checks `ephemeralContainers`.
pub fn ephemeral_containers(containers: Field, spec: Field, context: &Context) {
    if containers.is_empty() {
        return;
    }
    let regular = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec.at(list).list())
        .map(|container| container.str_at(&["name"]));
    let others: HashSet<&str> = regular.collect();
    let mut names = others.clone();
    for container in containers.items() {
        common(container, context);
        padded_image(container);
        container.at("name").unique(&mut names, container.at("name").str());
        let target = container.at("targetContainerName");
        if !target.is_empty() && !others.contains(target.str()) {
            target.not_found();
        }
        let why = "cannot be set for an Ephemeral Container";
        for name in NOT_EPHEMERAL {
            let field = container.at(name);
            // `resources` is not a pointer in the reference: empty means absent.
            let set = if *name == "resources" { !field.is_empty() } else { field.is_set() };
            if set {
                field.forbidden(why);
            }
        }
        for mount in container.at("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.at(field).is_empty() {
                    mount.at(field).forbidden(why);
                }
            }
        }
    }
}

/// Checks that an image has no surrounding whitespace. Only for pods: stored templates may have it.
pub fn padded_image(container: Field) {
    let image = container.at("image");
    if image.str().trim().len() != image.len() {
        image.invalid("must not have leading or trailing whitespace");
    }
}

fn common(container: Field, context: &Context) {
    container.at("name").must_form("", name::is_dns1123_label);
    container.at("image").must("");
    let policy = container.at("terminationMessagePolicy");
    policy.must_one_of("", &["File", "FallbackToLogsOnError"]);
    ports(container.at("ports"));
    env::env(container.at("env"));
    env::env_from(container.at("envFrom"));
    mounts(container, context);
    devices(container, context);
    pull_policy(container.at("imagePullPolicy"));
    resources::container(container.at("resources"), &context.claims, &context.options);
    resize_policy(container.at("resizePolicy"), context);
    security_context::container(container.at("securityContext"), context.host_users);
}

fn ports(ports: Field) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.at("name");
        if !name.is_empty() {
            let before = name.found();
            name.form(name::is_valid_port_name);
            if name.found() == before {
                name.unique(&mut names, name.str());
            }
        }
        let number = port.at("containerPort");
        match number.int() {
            0 => number.required(""),
            _ => number.in_range(1, 65_535),
        }
        if port.at("hostPort").int() != 0 {
            port.at("hostPort").in_range(1, 65_535);
        }
        port.at("protocol").must_one_of("", &["SCTP", "TCP", "UDP"]);
    }
}

pub fn pull_policy(policy: Field) {
    policy.must_one_of("", &["Always", "IfNotPresent", "Never"]);
}

fn mounts(container: Field, context: &Context) {
    let (mounts, devices) = (container.at("volumeMounts"), container.at("volumeDevices"));
    let mut points = HashSet::new();
    let (device_names, device_paths) = (texts(devices, "name"), texts(devices, "devicePath"));
    for mount in mounts.items() {
        let (name, path) = (mount.at("name"), mount.at("mountPath"));
        name.must("");
        if context.volumes.get(name.str()).is_none() {
            name.not_found();
        }
        path.must("");
        if !points.insert(path.str()) {
            path.invalid("must be unique");
        }
        if device_names.contains(name.str()) {
            name.invalid("must not already exist in volumeDevices");
        }
        if device_paths.contains(path.str()) {
            path.invalid("must not already exist as a path in volumeDevices");
        }
        // The reference reports the following errors at the list, not at the item.
        let (sub_path, expression) = (mount.at("subPath"), mount.at("subPathExpr"));
        if !sub_path.is_empty() {
            mounts.at("subPath").with(sub_path.get()).local_descending_path();
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                expression.invalid("subPathExpr and subPath are mutually exclusive");
            }
            mounts.at("subPathExpr").with(expression.get()).local_descending_path();
        }
        propagation(mount, mounts, container);
        recursive_read_only(mount, mounts);
    }
}

/// Values of a field in the items of a list.
fn texts<'v>(list: Field<'v, '_>, field: &str) -> HashSet<&'v str> {
    list.list().iter().map(|item| item.str_at(&[field])).collect()
}

fn propagation(mount: Field, mounts: Field, container: Field) {
    let called = mounts.at("mountPropagation");
    let mode = called.with(mount.at("mountPropagation").get());
    if mode.is_absent() {
        return;
    }
    mode.one_of(&["Bidirectional", "HostToContainer", "None"]);
    let privileged = container.at("securityContext").at("privileged").bool();
    if mode.str() == "Bidirectional" && !privileged {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        mode.forbidden(why);
    }
}

fn recursive_read_only(mount: Field, mounts: Field) {
    let called = mounts.at("recursiveReadOnly");
    let mode = called.with(mount.at("recursiveReadOnly").get());
    if mode.is_absent() || mode.str() == "Disabled" {
        return;
    }
    if !matches!(mode.str(), "Enabled" | "IfPossible") {
        return mode.unsupported(&["Disabled", "Enabled", "IfPossible"]);
    }
    if !mount.at("readOnly").bool() {
        mode.forbidden("may only be specified when readOnly is true");
    }
    if !matches!(mount.at("mountPropagation").str(), "" | "None") {
        let why = "may only be specified when mountPropagation is None or not specified";
        mode.forbidden(why);
    }
}

fn devices(container: Field, context: &Context) {
    let (mounts, devices) = (container.at("volumeMounts"), container.at("volumeDevices"));
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    let (mount_names, mount_paths) = (texts(mounts, "name"), texts(mounts, "mountPath"));
    for device in devices.items() {
        let (name, path) = (device.at("name"), device.at("devicePath"));
        let volume = context.volumes.get(name.str());
        name.must("");
        if names.contains(name.str()) {
            name.invalid("must be unique");
        }
        let claimed = |volume: &Value| {
            ["persistentVolumeClaim", "ephemeral"].iter().any(|kind| volume.at(&[kind]).is_some())
        };
        match volume {
            None => name.not_found(),
            Some(volume) if !claimed(volume) => name.invalid(
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block \
                 mode",
            ),
            Some(_) => {}
        }
        path.must("");
        if paths.contains(path.str()) {
            path.invalid("must be unique");
        }
        match path.str().split('/').any(|part| part == "..") {
            true => path.invalid("can not contain backsteps ('..')"),
            false => drop(paths.insert(path.str())),
        }
        if mount_names.contains(name.str()) {
            name.invalid("must not already exist in volumeMounts");
        }
        if mount_paths.contains(path.str()) {
            path.invalid("must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name.str());
        }
    }
}

fn resize_policy(policies: Field, context: &Context) {
    let mut seen = HashSet::new();
    for policy in policies.items() {
        let (resource, restart) = (policy.at("resourceName"), policy.at("restartPolicy"));
        if !seen.insert(resource.str()) {
            policy.duplicate_as(resource.str());
        }
        policies.with(resource.get()).must_one_of("", &["cpu", "memory"]);
        policies.with(restart.get()).must_one_of("", &["NotRequired", "RestartContainer"]);
        if context.restart_policy == "Never" && restart.str() != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            policies.invalid_as(restart.str(), why);
        }
    }
}

fn lifecycle_and_probes(container: Field, context: &Context) {
    probe::lifecycle(container.at("lifecycle"), context);
    probe::liveness(container.at("livenessProbe"), context);
    probe::readiness(container.at("readinessProbe"), context);
    probe::liveness(container.at("startupProbe"), context);
}

/// Tells whether rules may restart all containers, and sidecars may have rules.
fn may_restart_all(container: Field, context: &Context) -> bool {
    let gate = Feature::RestartAllContainersOnContainerExits;
    container.capabilities().features.has(gate) || context.options.tolerates.restarts_all
}

/// Tells whether a pod has rules that restart all containers, or sidecars with rules.
pub fn restarts_all(spec: Field) -> bool {
    let restarts = |container: Field| {
        let mut rules = container.at("restartPolicyRules").list().iter();
        rules.any(|rule| rule.str_at(&["action"]) == "RestartAllContainers")
    };
    let sidecar = |container: Field| {
        container.at("restartPolicy").str() == "Always"
            && !container.at("restartPolicyRules").is_empty()
    };
    spec.at("containers").items().any(restarts)
        || spec.at("initContainers").items().any(|c| restarts(c) || sidecar(c))
}

fn restart_policy(container: Field, context: &Context) {
    let (policy, rules) = (container.at("restartPolicy"), container.at("restartPolicyRules"));
    match policy.is_set() {
        true => policy.one_of(&["Always", "Never", "OnFailure"]),
        false if rules.is_empty() => return,
        false => policy.required("must specify restartPolicy when restart rules are used"),
    }
    if rules.len() > MAX_RESTART_RULES {
        rules.too_many(rules.len(), MAX_RESTART_RULES);
    }
    let actions: &[&str] = match may_restart_all(container, context) {
        true => &["Restart", "RestartAllContainers"],
        false => &["Restart"],
    };
    for rule in rules.items() {
        rule.at("action").one_of(actions);
        let codes = rule.at("exitCodes");
        if codes.is_absent() {
            codes.required("must be specified");
            continue;
        }
        codes.at("operator").one_of(&["In", "NotIn"]);
        if codes.at("values").len() > MAX_EXIT_CODES {
            codes.at("values").too_many(codes.at("values").len(), MAX_EXIT_CODES);
        }
    }
}

fn host_ports(containers: Field) {
    let mut taken = HashSet::new();
    for container in containers.items() {
        host_ports_of(&mut taken, container, container);
    }
}

/// Checks that no host port is used twice. The reference reports each init container as the first one, because it
/// checks them one by one.
fn host_ports_of<'v>(
    taken: &mut HashSet<(&'v str, &'v str, i64)>,
    container: Field<'v, '_>,
    called: Field,
) {
    let (ports, called) = (container.at("ports"), called.at("ports"));
    for (index, port) in ports.items().enumerate() {
        let number = port.at("hostPort").int();
        if number == 0 {
            continue;
        }
        let (protocol, address) = (port.at("protocol").str(), port.at("hostIP").str());
        let key = (protocol, address, number);
        if !taken.insert(key) {
            let place = called.index(index);
            place.at("hostPort").duplicate_as(format!("{protocol}/{address}/{number}"));
        }
    }
}
