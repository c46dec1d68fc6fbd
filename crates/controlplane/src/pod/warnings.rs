//! Warnings about pods and pod templates.

use std::collections::{HashMap, HashSet};

use kevel_api::ip;
use kevel_api::name;
use kevel_api::value::Value;
use kevel_api::warning::{MAX_TOTAL, WarningList};

use super::annotations::APP_ARMOR;
use super::prepare::app_armor_field;
use super::{each_container, virtual_paths};
use crate::node_labels;
use crate::validation::{self, Field};

/// Annotations without effect, with the warning.
const ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Deprecated and removed volume sources: field, name in the warning, and warning.
const VOLUMES: &[(&str, &str, &str)] = &[
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const NO_SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APP_ARMOR_FIELD: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Warnings about deprecated AppArmor annotations.
pub fn app_armor_annotations(pod: &Value) -> Vec<String> {
    let annotations = pod.at(&["metadata", "annotations"]).and_then(Value::as_map);
    let Some(annotations) =
        annotations.filter(|_| pod.str_at(&["spec", "os", "name"]) != "windows")
    else {
        return Vec::new();
    };
    let profile_of = |of: &Value| of.at(&["securityContext", "appArmorProfile"]).cloned();
    let of_pod = pod.at(&["spec"]).and_then(profile_of);
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    let containers = containers.iter().flat_map(|list| pod.list_at(&["spec", list]));
    let mut warnings = Vec::new();
    for container in containers.filter(|container| profile_of(container).is_none()) {
        let key = format!("{APP_ARMOR}{}", container.str_at(&["name"]));
        let Some(annotation) = annotations.get(&key).and_then(Value::as_str) else { continue };
        let meant = app_armor_field(annotation);
        if meant.is_none() || meant != of_pod {
            warnings.push(format!("metadata.annotations[{key}]: {APP_ARMOR_FIELD}"));
        }
    }
    warnings
}

/// Warnings about a new pod.
pub fn pod(pod: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let problems = name::is_dns1123_label(pod.str_at(&["metadata", "name"]));
    let mut warnings = WarningList::default();
    if !problems.is_empty() {
        warnings.add(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising \
             behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
    validation::errors(pod, |pod| spec_and_metadata(pod, false, &mut warnings));
    warnings.into_said()
}

/// Warnings about the status of a pod.
pub(crate) fn status(pod: &Value) -> Vec<String> {
    let mut warnings = WarningList::default();
    validation::errors(pod, |pod| {
        for list in ["podIPs", "hostIPs"] {
            for address in pod.at("status").at(list).items() {
                let ip = address.at("ip");
                warnings.extend(ip::ip_warnings(&ip.path(), ip.str()));
            }
        }
    });
    warnings.into_said()
}

/// Warnings about the pod template at a path.
pub fn template(object: &Value, path: &str) -> Vec<String> {
    let mut warnings = WarningList::default();
    validation::errors(object, |object| {
        spec_and_metadata(object.down(path), true, &mut warnings);
    });
    warnings.into_said()
}

fn spec_and_metadata(pod: Field, is_template: bool, out: &mut WarningList) {
    let (metadata, spec) = (pod.at("metadata"), pod.at("spec"));
    let notes = metadata.at("annotations");
    selected_nodes(spec, out);
    for (key, why) in ANNOTATIONS.iter().filter(|(key, _)| notes.key(key).is_set()) {
        out.add_with(|| format!("{}: {why}", notes.key(key).path()));
    }
    for volume in spec.at("volumes").items() {
        for (kind, called, why) in VOLUMES.iter().filter(|(kind, ..)| volume.at(kind).is_set()) {
            let _ = kind;
            out.add_with(|| format!("{}: {why}", volume.at(called).path()));
        }
        let template = volume.at("ephemeral");
        let template = template.at("volumeClaimTemplate");
        if template.is_set() {
            claim_spec(template.at("spec"), out);
        }
    }
    virtual_paths::warnings(spec.at("volumes"), out);
    twice(spec.at("hostAliases"), "ip", out);
    twice(spec.at("imagePullSecrets"), "name", out);
    for secret in spec.at("imagePullSecrets").items().filter(|s| s.at("name").is_empty()) {
        out.add_with(|| format!("{}: invalid empty name \"\"", secret.at("name").path()));
    }
    whole_bytes(spec.at("overhead"), out);
    let context = spec.at("securityContext");
    if context.at("seccompProfile").is_absent() && notes.key(SECCOMP_POD).is_set() {
        out.add_with(|| format!("{}: {NO_SECCOMP}", notes.key(SECCOMP_POD).path()));
    }
    let app_armor = context.at("appArmorProfile");
    each_container(spec, |container| {
        container_notes(container, notes, is_template && app_armor.is_absent(), out);
        let resources = container.at("resources");
        for resource in ["memory", "ephemeral-storage"] {
            whole(resources.at("limits").key(resource), out);
            whole(resources.at("requests").key(resource), out);
        }
        hidden_variables(container.at("env"), out);
    });
    ports(spec, out);
    let grace = spec.at("terminationGracePeriodSeconds");
    if grace.int() < 0 {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        out.add_with(|| format!("{}: {why}", grace.path()));
    }
    selectors(spec, out);
    let dns = spec.at("dnsConfig");
    for server in dns.at("nameservers").items() {
        out.extend(ip::ip_warnings(&server.path(), server.str()));
    }
    for alias in spec.at("hostAliases").items() {
        out.extend(ip::ip_warnings(&alias.at("ip").path(), alias.at("ip").str()));
    }
}

fn selected_nodes(spec: Field, out: &mut WarningList) {
    for (key, entry) in spec.at("nodeSelector").entries() {
        out.extend(node_labels::renamed(key).map(|why| format!("{}: {why}", entry.path())));
    }
    let nodes = spec.down("affinity.nodeAffinity");
    let required = nodes.at(REQUIRED);
    required.at("nodeSelectorTerms").items().for_each(|term| node_labels::term(term, false, out));
    for preferred in nodes.at(PREFERRED).items() {
        node_labels::term(preferred.at("preference"), true, out);
    }
    for spread in spec.at("topologySpreadConstraints").items() {
        node_labels::key(spread.at("topologyKey"), out);
        null_selector(spread, out);
    }
}

fn null_selector(term: Field, out: &mut WarningList) {
    let selector = term.at("labelSelector");
    if selector.is_absent() {
        let why = "a null labelSelector results in matching no pod";
        out.add_with(|| format!("{}: {why}", selector.path()));
    }
}

fn selectors(spec: Field, out: &mut WarningList) {
    let affinity = spec.at("affinity");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.at(kind);
        pods.at(REQUIRED).items().for_each(|term| null_selector(term, out));
        let preferred = pods.at(PREFERRED);
        preferred.items().for_each(|term| null_selector(term.at("podAffinityTerm"), out));
    }
}

fn twice(list: Field, field: &str, out: &mut WarningList) {
    let mut seen = HashSet::new();
    for item in list.items() {
        let value = item.at(field);
        if !seen.insert(value.str()) {
            out.add_with(|| format!("{}: duplicate {field} {:?}", value.path(), value.str()));
        }
    }
}

fn whole_bytes(amounts: Field, out: &mut WarningList) {
    whole(amounts.key("memory"), out);
    whole(amounts.key("ephemeral-storage"), out);
}

/// Warns of a claim that requests a fraction of a byte.
pub fn claim_spec(spec: Field, out: &mut WarningList) {
    for list in ["requests", "limits"] {
        whole(spec.at("resources").at(list).key("storage"), out);
    }
}

fn whole(amount: Field, out: &mut WarningList) {
    if amount.quantity().is_none_or(|quantity| quantity.is_whole()) {
        return;
    }
    out.add_with(|| {
        let (path, shown) = (amount.path(), amount.quantity_text());
        format!("{path}: fractional byte value {shown:?} is invalid, must be an integer")
    });
}

fn container_notes(container: Field, notes: Field, app_armor: bool, out: &mut WarningList) {
    if notes.is_empty() {
        return;
    }
    let (context, name) = (container.at("securityContext"), container.at("name").str());
    let key = format!("{SECCOMP_CONTAINER}{name}");
    if context.at("seccompProfile").is_absent() && notes.key(&key).is_set() {
        out.add_with(|| format!("{}: {NO_SECCOMP}", notes.key(&key).path()));
    }
    let key = format!("{APP_ARMOR}{name}");
    if app_armor && context.at("appArmorProfile").is_absent() && notes.key(&key).is_set() {
        out.add_with(|| format!("{}: {APP_ARMOR_FIELD}", notes.key(&key).path()));
    }
}

/// Warns of a variable that is defined twice, unless the second definition extends the first.
fn hidden_variables(env: Field, out: &mut WarningList) {
    if env.len() < 2 {
        return;
    }
    let mut seen = HashSet::new();
    for variable in env.items() {
        let (name, value) = (variable.at("name").str(), variable.at("value").str());
        if seen.insert(name) {
            continue;
        }
        let before = format!("$({name})");
        let adds = value != before && value.contains(&before);
        if variable.at("valueFrom").is_set() || !adds {
            let why = "which may be dropped when using apply";
            out.add_with(|| {
                format!("{}: hides previous definition of {name:?}, {why}", variable.path())
            });
        }
    }
}

fn ports(spec: Field, out: &mut WarningList) {
    let mut known = KnownPorts::default();
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut named = WarningList::default();
    each_container(spec, |container| {
        for field in container.at("ports").items() {
            let port = Port {
                number: field.at("containerPort").int(),
                protocol: field.at("protocol").str(),
                address: field.at("hostIP").str(),
                host: field.at("hostPort").int(),
            };
            let path = field.path().to_string();
            if !port.address.is_empty() && port.host == 0 {
                out.add_with(|| format!("{path}: hostIP set without hostPort: {}", go_port(field)));
            }
            if !out.is_full() {
                for (what, other) in known.overlapping(port) {
                    out.add_with(|| format!("{path}: {what} port definition with {other}"));
                }
            }
            let name = field.at("name").str();
            match names.get(name).filter(|_| !name.is_empty()) {
                Some(other) => named.add_with(|| {
                    format!(
                        "{path}: duplicate port name {name:?} with {other}, services and probes \
                         that select ports by name will use {other}"
                    )
                }),
                None => drop(names.insert(name, path.clone())),
            }
            known.add(port, path);
        }
    });
    out.extend(named.into_said());
}

/// Port as Go prints the struct with `%+v`.
fn go_port(port: Field) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.at("name").str(),
        port.at("hostPort").int(),
        port.at("containerPort").int(),
        port.at("protocol").str(),
        port.at("hostIP").str()
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Port<'v> {
    number: i64,
    protocol: &'v str,
    address: &'v str,
    /// Zero if there is no host port.
    host: i64,
}

/// Ports seen so far, indexed to find those that overlap another one.
#[derive(Default)]
struct KnownPorts<'v> {
    ports: Vec<(Port<'v>, String)>,
    /// Indices by number and protocol.
    all: HashMap<(i64, &'v str), Vec<usize>>,
    /// Indices by number, protocol, host port and whether the host address is empty.
    of_host: HashMap<(i64, &'v str, i64, bool), Vec<usize>>,
    same: HashMap<(i64, &'v str, i64, &'v str), Vec<usize>>,
}

impl<'v> KnownPorts<'v> {
    fn add(&mut self, port: Port<'v>, path: String) {
        let Port { number, protocol, address, host } = port;
        let index = self.ports.len();
        self.all.entry((number, protocol)).or_default().push(index);
        let of_host = (number, protocol, host, address.is_empty());
        self.of_host.entry(of_host).or_default().push(index);
        self.same.entry((number, protocol, host, address)).or_default().push(index);
        self.ports.push((port, path));
    }

    /// Ports that overlap the given one, in their order, with the kind of overlap. The number of ports looked at is
    /// limited, because each results in a warning.
    fn overlapping(&self, port: Port<'v>) -> impl Iterator<Item = (&'static str, &str)> {
        let Port { number, protocol, address, host } = port;
        let lists = match host {
            0 => [self.all.get(&(number, protocol)), None, None, None],
            _ => [
                self.same.get(&(number, protocol, host, address)),
                self.of_host.get(&(number, protocol, host, !address.is_empty())),
                self.of_host.get(&(number, protocol, 0, true)),
                self.of_host.get(&(number, protocol, 0, false)),
            ],
        };
        // Each port gives another warning, so that no more are needed than the limit on warnings.
        let first = lists.into_iter().flatten().flat_map(|list| list.iter().take(MAX_TOTAL));
        let mut first: Vec<usize> = first.copied().collect();
        first.sort_unstable();
        first.dedup();
        first.into_iter().filter_map(move |index| {
            let (other, path) = self.ports.get(index)?;
            let what = match (other.address == address, other.host == host) {
                (true, true) => "duplicate",
                _ if host == 0 || other.host == 0 => "overlapping",
                _ => "dangerously ambiguous",
            };
            Some((what, path.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json;

    use super::*;

    #[test]
    fn app_armor_annotations_without_fields_give_warnings() {
        for (annotation, of_pod, of_container, warned) in [
            ("unconfined", "", "", true),
            ("nonsense", "", "", true),
            ("localhost/ padded", "", "", true),
            ("runtime/default", "RuntimeDefault", "", false),
            ("runtime/default", "Unconfined", "", true),
            ("unconfined", "", "RuntimeDefault", false),
        ] {
            let context = |ty: &str| match ty {
                "" => String::new(),
                ty => format!(r#""securityContext":{{"appArmorProfile":{{"type":"{ty}"}}}},"#),
            };
            let pod = format!(
                r#"{{"metadata":{{"annotations":{{"{APP_ARMOR}c":"{annotation}"}}}},
                    "spec":{{{}"containers":[{{{}"name":"c"}},{{"name":"other"}}]}}}}"#,
                context(of_pod),
                context(of_container)
            );
            let pod = json::decode_any(pod.as_bytes(), json::Unknown::Ignore).unwrap().value;
            let expected = format!(
                "metadata.annotations[{APP_ARMOR}c]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            );
            let expected = if warned { vec![expected] } else { vec![] };
            assert_eq!(
                app_armor_annotations(&pod),
                expected,
                "{annotation} {of_pod} {of_container}"
            );
        }
    }
}
