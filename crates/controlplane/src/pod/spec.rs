//! The spec of a pod, in a pod or in a template for pods.

use std::collections::HashSet;

use kevel_api::ip;
use kevel_api::name;
use kevel_features::Feature;

use super::container::{self, Context};
use super::{Options, affinity, annotations, env, resources, security_context};
use super::{toleration, volume, windows};
use crate::validation::Field;

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;
const MAX_HOSTNAME_OVERRIDE: usize = 64;

/// Checks a spec; `metadata` is that of the pod, which templates do not have yet.
pub fn check(spec: Field, metadata: Option<Field>, options: &Options) {
    let grace_period = spec.at("terminationGracePeriodSeconds");
    if grace_period.is_absent() {
        grace_period.required("");
    }
    let pod = metadata.map_or("", |metadata| metadata.at("name").str());
    let claims = spec.at("resourceClaims");
    let context = Context {
        volumes: volume::check(spec.at("volumes"), pod, options),
        claims: claims
            .list()
            .iter()
            .map(|c| c.str_at(&["name"]))
            .filter(|n| !n.is_empty())
            .collect(),
        grace_period: grace_period.int_or_absent(),
        restart_policy: spec.at("restartPolicy").str(),
        host_users: spec.at("hostUsers").get().is_none_or(|users| users.as_bool() != Some(false)),
        os: spec.at("os").get().map(|os| os.str_at(&["name"])),
        options: *options,
    };
    resource_claims(claims, metadata);
    let containers = spec.at("containers");
    container::containers(containers, &context);
    container::init_containers(spec.at("initContainers"), containers, &context);
    container::ephemeral_containers(spec.at("ephemeralContainers"), spec, &context);
    resources::pod(spec, &context.claims, options);
    host_network(spec, options);
    spec.at("restartPolicy").must_one_of("", &["Always", "OnFailure", "Never"]);
    let policies = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    spec.at("dnsPolicy").must_one_of("", policies);
    spec.at("nodeSelector").labels();
    security_context::pod(spec, options);
    affinity::check(spec.at("affinity"), options);
    dns_config(spec.at("dnsConfig"), spec.at("dnsPolicy").str());
    let gates = spec.at("readinessGates");
    gates.items().for_each(|gate| gate.at("conditionType").label_name());
    scheduling_gates(spec.at("schedulingGates"));
    affinity::topology_spread(spec.at("topologySpreadConstraints"), options);
    windows::host_process(spec);
    host_users(spec, &context);
    hostname_override(spec);
    names(spec, &context);
    if spec.at("overhead").is_set() {
        resources::overhead(spec.at("overhead"), options);
    }
    windows::os(spec);
    let group = spec.at("schedulingGroup");
    if group.is_set() {
        let name = group.at("podGroupName");
        match name.is_set() {
            true => name.object_name(name::name_is_dns_subdomain),
            false => name.invalid("must specify one of: `podGroupName`"),
        }
    }
    env::file_volumes(spec);
}

/// Validates names and plain values of a spec.
fn names(spec: Field, context: &Context) {
    let if_said = |field: &str, problems: fn(&str, bool) -> name::Problems| {
        if !spec.at(field).is_empty() {
            spec.at(field).object_name(problems);
        }
    };
    if_said("serviceAccountName", name::name_is_dns_subdomain);
    if_said("nodeName", name::name_is_dns_subdomain);
    spec.at("activeDeadlineSeconds").in_range_if_set(1, i64::from(i32::MAX));
    if_said("hostname", |name, _| name::is_dns1123_label(name));
    if_said("subdomain", |name, _| name::is_dns1123_label(name));
    let tolerations = spec.at("tolerations");
    let comparable = context.options.tolerates.toleration_comparisons;
    toleration::check(tolerations, toleration::are_comparable(tolerations, comparable));
    host_aliases(spec.at("hostAliases"));
    if_said("priorityClassName", name::name_is_dns_subdomain);
    let runtime = spec.at("runtimeClassName");
    if runtime.is_set() {
        runtime.object_name(name::name_is_dns_subdomain);
    }
    let preemption = spec.at("preemptionPolicy");
    if preemption.is_set() {
        preemption.must_one_of("", &["PreemptLowerPriority", "Never"]);
    }
}

fn resource_claims(claims: Field, metadata: Option<Field>) {
    let mut names = HashSet::new();
    let mirrored = metadata
        .is_some_and(|metadata| metadata.at("annotations").key(annotations::MIRROR).is_set());
    for claim in claims.items() {
        if mirrored {
            let nothing = kevel_api::field_error::Path::new("");
            claim.named(nothing).forbidden("static pods do not support resource claims");
            continue;
        }
        let name = claim.at("name");
        if name.is_empty() {
            name.required("");
        } else if !names.insert(name.str()) {
            name.duplicate();
        } else {
            name.form(name::is_dns1123_label);
        }
        let (direct, template) =
            (claim.at("resourceClaimName"), claim.at("resourceClaimTemplateName"));
        let why = match (direct.is_set(), template.is_set()) {
            (true, true) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            (false, false) => {
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            }
            _ => "",
        };
        if !why.is_empty() {
            claim.invalid(why);
        }
        for reference in [direct, template].into_iter().filter(Field::is_set) {
            reference.object_name(name::name_is_dns_subdomain);
        }
    }
}

/// In the host's network, a container's ports are the host's.
fn host_network(spec: Field, options: &Options) {
    if !spec.at("hostNetwork").bool() {
        return;
    }
    for container in spec.at("containers").items() {
        for port in container.at("ports").items() {
            let (host, own) = (port.at("hostPort"), port.at("containerPort"));
            if (options.is_pod || host.int() != 0) && host.int() != own.int() {
                let why = "must match `containerPort` when `hostNetwork` is true";
                host.invalid_as(host.int(), why);
            }
        }
    }
}

fn dns_config(config: Field, policy: &str) {
    let servers = config.at("nameservers");
    if policy == "None" {
        if config.is_absent() {
            return config.required("must provide `dnsConfig` when `dnsPolicy` is None");
        }
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        if !servers.must(why) {
            return;
        }
    }
    if servers.len() > MAX_NAMESERVERS {
        servers.invalid(format!("must not have more than {MAX_NAMESERVERS} nameservers"));
    }
    for server in servers.items() {
        server.extend(ip::is_valid_ip_for_legacy_field(
            &server.path(),
            server.str(),
            server.strict_ips(),
        ));
    }
    let searches = config.at("searches");
    if searches.len() > MAX_SEARCHES {
        searches.invalid(format!("must not have more than {MAX_SEARCHES} search paths"));
    }
    let length: usize = searches.strings().map(|search| search.len() + 1).sum();
    if length > MAX_SEARCH_CHARACTERS + 1 {
        searches.invalid(format!(
            "must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces) in the \
             search list"
        ));
    }
    for search in searches.items().filter(|search| search.str() != ".") {
        let text = search.str().strip_suffix('.').unwrap_or(search.str());
        for problem in name::is_dns1123_subdomain_with_underscore(text) {
            search.invalid_as(text, problem);
        }
    }
    for option in config.at("options").items() {
        if option.at("name").is_empty() {
            option.required("must not be empty");
        }
    }
}

fn scheduling_gates(gates: Field) {
    let mut seen = HashSet::new();
    for gate in gates.items() {
        let name = gate.at("name").str();
        name::is_label_key(name).into_iter().for_each(|problem| gate.invalid_as(name, problem));
        if !seen.insert(name) {
            gate.duplicate_as(name);
        }
    }
}

/// A pod with users of its own does not share the host's other namespaces.
fn host_users(spec: Field, context: &Context) {
    if context.host_users {
        return;
    }
    let why = "when `hostUsers` is false";
    let with_network = context.options.tolerates.host_network_of_own_users
        || spec.capabilities().features.has(Feature::UserNamespacesHostNetworkSupport);
    for (field, called) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.at(field).bool() && !(with_network && field == "hostNetwork") {
            spec.at(called).forbidden(why);
        }
    }
    if context.options.tolerates.devices_of_own_users {
        return;
    }
    super::each_container(spec, |container| {
        if !container.at("volumeDevices").is_empty() {
            container.at("volumeDevices").forbidden(why);
        }
    });
}

fn hostname_override(spec: Field) {
    let hostname = spec.at("hostnameOverride");
    if hostname.is_absent() {
        return;
    }
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.at(field).bool() {
            hostname.forbidden(format!("may not be specified when {field} is true"));
        }
    }
    if hostname.len() > MAX_HOSTNAME_OVERRIDE {
        hostname.too_long(MAX_HOSTNAME_OVERRIDE);
    }
    hostname.form(name::is_dns1123_subdomain);
}

fn host_aliases(aliases: Field) {
    for alias in aliases.items() {
        let address = alias.at("ip");
        address.extend(ip::is_valid_ip_for_legacy_field(
            &address.path(),
            address.str(),
            address.strict_ips(),
        ));
        alias.at("hostnames").items().for_each(|name| name.form(name::is_dns1123_subdomain));
    }
}
