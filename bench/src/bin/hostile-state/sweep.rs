//! Every small request on a namespace with a large object of every kind.

use std::time::Duration;

use kevel_api::builtin::{self, Resource};
use kevel_bench::kinds::smallest;
use kevel_bench::probe::ServerLoad;
use kevel_conformance::Result;
use kevel_conformance::client::Request;
use serde_json::{Value, json};

use crate::attack::{TOGETHER, send};
use crate::fill::{StoredBytes, map, store_largest};
use crate::table::CostTable;
use crate::watches::{SELECTOR, selector};
use crate::world::{HostileCluster, NAMESPACE, by_attacker, collection};

pub const NAME: &str = "sweep";
/// Sizes of an object that are tried, the largest first: some kinds are stored with more around them.
const SIZES: [usize; 2] = [1_250_000, 1_000_000];
/// Bytes that every kind must have stored: a row that has less shows nothing.
const LEAST_STORED: usize = 1_000_000;

/// A kind with a large object `big`.
struct Filled {
    resource: &'static Resource,
    /// Path of its objects.
    path: String,
    small: Value,
    stored: StoredBytes,
}

/// Requests that share a row of the table.
struct SweepRow {
    name: String,
    requests: Vec<(String, Request)>,
    stored: StoredBytes,
}

/// Fills, then sends everything: a row for each kind, one and several requests at a time.
pub async fn run(world: &HostileCluster, table: &mut CostTable) -> Result<()> {
    world.grant_everything().await?;
    let mut kinds = Vec::new();
    for (group, plural, content) in smallest().into_iter().chain(more()) {
        let rows = builtin::resources().iter();
        let mut rows = rows.filter(|row| row.on && row.group == group && row.path == plural);
        let resource = rows.next().ok_or_else(|| format!("no resource {plural}"))?;
        match fill(world, resource, content).await {
            Ok(filled) => kinds.push(filled),
            Err(error) => table.failed(&format!("sweep: {plural}"), &error.to_string()),
        }
    }
    let mut groups: Vec<SweepRow> = kinds
        .iter()
        .enumerate()
        .map(|(place, kind)| SweepRow {
            name: kind.resource.path.to_owned(),
            requests: world.chosen(place, verbs(kind)),
            stored: kind.stored,
        })
        .collect();
    let (requests, stored) = (reviews(), StoredBytes::default());
    groups.push(SweepRow { name: "reviews".to_owned(), requests, stored });
    for at_a_time in [1, TOGETHER] {
        for group in &groups {
            send_group(world, table, group, at_a_time).await?;
        }
    }
    Ok(())
}

/// Sends the requests of a row one after the other, each so many times at once, and adds the most of each measure. A
/// request that is over its limits has a row of its own, too.
async fn send_group(
    world: &HostileCluster,
    table: &mut CostTable,
    group: &SweepRow,
    at_a_time: u32,
) -> Result<()> {
    let (mut most, mut dearest) = (ServerLoad::default(), (Duration::ZERO, ""));
    for (name, request) in &group.requests {
        let request = by_attacker(request.clone());
        let (codes, load) = send(world, &table.limits, &request, at_a_time).await?;
        let wrong: Vec<String> =
            codes.contains(&0).then(|| "no answer".to_owned()).into_iter().collect();
        if !wrong.is_empty() || !table.limits.over(&load, at_a_time).is_empty() {
            let name = format!("sweep: {name}, {at_a_time} at a time");
            table.add(&name, &load, at_a_time, &wrong, &format!("answer {}", codes[0]));
        }
        if load.cpu >= dearest.0 {
            dearest = (load.cpu, name.as_str());
        }
        most = most.merge(load, f64::max);
    }
    let SweepRow { name, requests, stored } = group;
    let note = format!(
        "most of {} requests, {} KB stored; dearest: {}",
        requests.len(),
        stored.bytes / 1000,
        dearest.1
    );
    table.add(&format!("sweep: {name}, {at_a_time} at a time"), &most, at_a_time, &[], &note);
    Ok(())
}

/// Kinds without rules of their own here: group, plural, content.
fn more() -> Vec<(&'static str, &'static str, Value)> {
    let claim = json!({"devices": {}});
    let about = json!({"namespace": NAMESPACE, "name": "a", "kind": "Pod"});
    vec![
        ("", "events", json!({"involvedObject": about})),
        ("resource.k8s.io", "resourceclaims", json!({"spec": claim})),
        ("resource.k8s.io", "resourceclaimtemplates", json!({"spec": {"spec": claim}})),
        ("storage.k8s.io", "csistoragecapacities", json!({"storageClassName": "a"})),
    ]
}

/// Stores the largest object of a kind: its labels have all the bytes, since every kind has labels.
async fn fill(
    world: &HostileCluster,
    resource: &'static Resource,
    content: Value,
) -> Result<Filled> {
    let version = match resource.group {
        "" => resource.version.to_owned(),
        group => format!("{group}/{}", resource.version),
    };
    let path = collection(&version, resource.path);
    let mut small = json!({"apiVersion": version, "kind": resource.kind});
    small["metadata"] = json!({"name": "big"});
    for (key, value) in content.as_object().into_iter().flatten() {
        small[key] = value.clone();
    }
    let big = |size: usize| {
        let mut big = small.clone();
        let value = "x".repeat(60);
        big["metadata"]["labels"] = map(size, |index| format!("\"l{index:06}\":\"{value}\""));
        big
    };
    let stored = store_largest(world, &path, &SIZES, big).await?;
    if stored.bytes < world.part(LEAST_STORED) {
        return Err(format!("{} bytes of {path} are stored only", stored.bytes).into());
    }
    Ok(Filled { resource, path, small, stored })
}

/// All requests about a kind. Writes are dry runs, so that each finds the same state.
fn verbs(kind: &Filled) -> Vec<(String, Request)> {
    let (path, plural) = (&kind.path, kind.resource.path);
    let one = format!("{path}/big");
    let dry = |path: &str| format!("{path}?dryRun=All");
    let patch = |kind: &str, patch: Value| Request::patch(dry(&one), kind, &patch);
    let note = json!({"metadata": {"annotations": {"a": "b"}}});
    let mut apply = note.clone();
    apply["apiVersion"] = kind.small["apiVersion"].clone();
    apply["kind"] = kind.small["kind"].clone();
    let add = json!([{"op": "add", "path": "/metadata/labels/a", "value": "b"}]);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut new = kind.small.clone();
    new["metadata"] = json!({"name": "small"});
    let body = apply.to_string();
    let apply = Request::new(http::Method::PATCH, format!("{}&fieldManager=m", dry(&one)));
    let all = vec![
        ("get", Request::get(&one)),
        ("get as table", Request::get(&one).with_header("accept", table)),
        ("list", Request::get(path)),
        ("list as table", Request::get(path).with_header("accept", table)),
        ("list by labels", Request::get(format!("{path}?labelSelector={}", selector(SELECTOR)))),
        ("list by name", Request::get(format!("{path}?fieldSelector=metadata.name%3Dbig"))),
        ("watch", Request::get(format!("{path}?watch=1&timeoutSeconds=1"))),
        ("watch by labels", watch_by_labels(path)),
        ("create", Request::post(dry(path), &new)),
        ("update", Request::put(dry(&one), &kind.small)),
        ("merge patch", patch("merge-patch+json", note.clone())),
        ("strategic patch", patch("strategic-merge-patch+json", note)),
        ("json patch", patch("json-patch+json", add)),
        ("apply", apply.with_body("application/apply-patch+yaml", body)),
        ("delete", Request::delete(dry(&one))),
        ("delete collection", Request::delete(dry(path))),
    ];
    let named = all.into_iter().map(|(verb, request)| (format!("{verb} {plural}"), request));
    named.chain(subresources(kind)).collect()
}

fn watch_by_labels(path: &str) -> Request {
    let selector = selector(SELECTOR);
    Request::get(format!("{path}?watch=1&timeoutSeconds=1&labelSelector={selector}"))
}

/// Requests for parts of an object: status, scale, tokens, bindings, evictions.
fn subresources(kind: &Filled) -> Vec<(String, Request)> {
    let prefix = format!("{}/", kind.resource.path);
    let own = |row: &&Resource| {
        let of = (row.group, row.version) == (kind.resource.group, kind.resource.version);
        of && row.on && row.path.starts_with(&prefix)
    };
    let mut all = Vec::new();
    for row in builtin::resources().iter().filter(own) {
        let path = format!("{}/big/{}", kind.path, &row.path[prefix.len()..]);
        let dry = format!("{path}?dryRun=All");
        for verb in row.verbs {
            let request = match *verb {
                "get" => Request::get(&path),
                "patch" => Request::patch(&dry, "merge-patch+json", &json!({"metadata": {}})),
                "update" => Request::put(&dry, &kind.small),
                "create" => Request::post(&dry, &part(row)),
                _ => continue,
            };
            all.push((format!("{verb} {}", row.path), request));
        }
    }
    all
}

/// The body that makes a part of `big`.
fn part(row: &Resource) -> Value {
    let mut body = json!({"metadata": {"name": "big", "namespace": NAMESPACE}});
    match row.kind {
        "Binding" => body["target"] = json!({"kind": "Node", "name": "node"}),
        "TokenRequest" => body["spec"] = json!({"audiences": ["a"]}),
        _ => {}
    }
    body
}

/// Reviews: rights and tokens.
fn reviews() -> Vec<(String, Request)> {
    let rights = json!({"namespace": NAMESPACE, "verb": "get", "resource": "pods"});
    let attributes = json!({"resourceAttributes": rights});
    let local = json!({"user": "a", "resourceAttributes": rights});
    let authorization = "authorization.k8s.io/v1";
    let all = [
        (authorization, "selfsubjectrulesreviews", json!({"namespace": NAMESPACE})),
        (authorization, "selfsubjectaccessreviews", attributes),
        (authorization, "subjectaccessreviews", local.clone()),
        ("authentication.k8s.io/v1", "selfsubjectreviews", json!({})),
        ("authentication.k8s.io/v1", "tokenreviews", json!({"token": "a"})),
    ];
    let cluster = all.into_iter().map(|(group_version, plural, spec)| {
        let request =
            Request::post(format!("/apis/{group_version}/{plural}"), &json!({"spec": spec}));
        (format!("create {plural}"), request)
    });
    let mut body = json!({"spec": local});
    body["metadata"] = json!({"namespace": NAMESPACE});
    let path = collection(authorization, "localsubjectaccessreviews");
    let here = ("create localsubjectaccessreviews".to_owned(), Request::post(path, &body));
    cluster.chain([here]).collect()
}
