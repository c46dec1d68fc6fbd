//! Requests and the flow schemas that they match, as text.

use std::sync::Arc;

use kevel_api::time::Time;
use kevel_clock::Clock;

use crate::{Controller, RequestDigest, Unobserved, bootstrap, notation};

/// Splits `GROUP/RESOURCE/SUBRESOURCE`, where something that begins with a slash may be a path.
fn digest<'a>(words: &[&'a str], groups: &'a [String]) -> RequestDigest<'a> {
    let [user, verb, what, place @ ..] = words else { panic!("{words:?}") };
    let mut parts = what.split('/');
    let (group, resource, subresource) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    // Resources of the core group that the cases know.
    let known = ["pods", "nodes", "secrets"].contains(&resource);
    let mut digest = RequestDigest { user, groups, verb, path: what, ..RequestDigest::default() };
    if !group.is_empty() || known {
        let (namespace, name) =
            place.first().map_or(("", ""), |place| place.split_once('/').unwrap_or((place, "")));
        digest.is_resource = true;
        (digest.group, digest.resource, digest.subresource) = (group, resource, subresource);
        (digest.namespace, digest.name) = (namespace, name);
    }
    digest
}

fn check(configuration: &str, cases: &str) {
    let (levels, schemas) = notation::parse(configuration);
    let controller = Controller::new(600, Arc::new(Unobserved));
    controller.configure(&levels, &schemas, Time::now(&Clock::system()));
    for line in cases.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (request, expected) = line.split_once(" = ").unwrap();
        let mut words: Vec<&str> = request.split(' ').collect();
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "post"];
        let more = if verbs.contains(&words[1]) { "" } else { words.remove(1) };
        let everybody = match words[0] {
            "system:anonymous" => "system:unauthenticated",
            _ => "system:authenticated",
        };
        let more = more.split(',').filter(|group| !group.is_empty());
        let groups: Vec<String> = more.chain([everybody]).map(str::to_owned).collect();
        let digest = digest(&words, &groups);
        let found = controller.classify(&digest);
        let flow = found.flow_distinguisher(&digest);
        let text = format!("{} {} {flow}", found.name(), found.priority_level());
        assert_eq!(text.trim_end(), expected, "{line}");
    }
}

#[test]
fn requests_match_the_first_schema_that_is_about_them() {
    let (configuration, cases) = include_str!("cases.txt").split_once("---\n").unwrap();
    check(configuration, cases);
}

#[test]
fn the_mandatory_configuration_is_always_in_effect() {
    let cases = "\
jane get /pods ns1/x = catch-all catch-all
system:anonymous get /healthz = catch-all catch-all
jane system:masters get /pods ns1/x = exempt exempt
jane system:masters get /healthz = exempt exempt
";
    check("", cases);
    // A user in neither `system:authenticated` nor `system:unauthenticated` goes to catch-all too.
    let controller = Controller::new(600, Arc::new(Unobserved));
    let unmatched = RequestDigest { user: "x", verb: "get", path: "/", ..RequestDigest::default() };
    assert_eq!(controller.classify(&unmatched).name(), "catch-all");
}

#[test]
fn schema_of_an_imaginary_level_is_not_used() {
    // There is no object `exempt`, so a schema that refers to it is dangling; the mandatory schema is not.
    let schemas = "
schema probes 2 exempt
  for group=system:authenticated
  at get /healthz
schema exempt 1 exempt
  for group=system:masters
  on * * * * cluster
  at * *
";
    let cases = "\
jane get /healthz = catch-all catch-all
jane system:masters get /healthz = exempt exempt
";
    check(schemas, cases);
    let with_level = format!("level exempt exempt shares=0 lendable=0\n{schemas}");
    check(&with_level, "jane get /healthz = probes exempt\n");
}

#[test]
fn a_fresh_cluster_classifies_as_the_reference_does() {
    let (levels, schemas): (Vec<_>, Vec<_>) = (
        bootstrap::mandatory_priority_levels()
            .chain(bootstrap::suggested_priority_levels())
            .collect(),
        bootstrap::mandatory_flow_schemas().chain(bootstrap::suggested_flow_schemas()).collect(),
    );
    let text = notation::print(levels.iter().chain(&schemas));
    let cases = "\
system:node:n system:nodes update coordination.k8s.io/leases kube-node-lease/n = system-node-high node-high system:node:n
system:node:n system:nodes patch /nodes/status /n = system-node-high node-high system:node:n
system:node:n system:nodes list /pods = system-nodes system system:node:n
system:kube-scheduler update coordination.k8s.io/leases kube-system/s = system-leader-election leader-election system:kube-scheduler
system:kube-scheduler list /pods = kube-scheduler workload-high
system:kube-controller-manager create /pods a = kube-controller-manager workload-high a
system:serviceaccount:kube-system:gc system:serviceaccounts delete /pods a/x = kube-system-service-accounts workload-high a
system:serviceaccount:a:b system:serviceaccounts get /pods a/x = service-accounts workload-low system:serviceaccount:a:b
system:anonymous get /livez = probes exempt
jane get /livez/ping = probes exempt
jane get /version = global-default global-default jane
system:anonymous list /pods = global-default global-default system:anonymous
system:admin system:masters list /pods = exempt exempt
";
    check(&text, cases);
}
