//! Cost of webhooks and policies for new pods, beside the reference on this machine.
//!
//! `cargo run --release -p kevel-bench --bin admission-servers [-- --pods N --rounds N]`
//!
//! CPU time of the server's processes per create (the reference's with etcd's): with nothing configured, with 100
//! policies of something else, with one policy of five validations, with a mutating webhook over TLS. Then how long a
//! get takes while 1,000 creates wait for a webhook that does not answer. The cost of the plug-ins alone, without
//! the noise of a whole server, measures `admission`.

use std::time::Duration;

use kevel_bench::load::{Measurement, NAMESPACE, Target, new_pod, prepare, requests, succeed};
use kevel_conformance::Result;
use kevel_conformance::client::Request;
use kevel_conformance::control_plane::{ControlPlane, Server, cache};
use kevel_conformance::hooks::Hooks;
use serde_json::{Value, json};

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";
/// Concurrent creates.
const CLIENTS: usize = 32;
/// Number of policies that do not match.
const OTHERS: usize = 100;
/// Concurrent creates that wait for a webhook, and number of gets meanwhile.
const WAITING: usize = 1000;
const GETS: usize = 20_000;
/// Until a configuration counts.
const TAKES_EFFECT: Duration = Duration::from_secs(2);

/// One phase: its name, what is configured before it, and what is measured.
struct Phase {
    name: &'static str,
    configure: Vec<Request>,
    work: Work,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// New pods.
    Create,
    /// One pod is read, again and again.
    Get,
    /// The same, while creates wait.
    GetBeside,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let pods = kevel_bench::option(&arguments, "--pods", 3000)?;
    let rounds = kevel_bench::option(&arguments, "--rounds", 2)?;
    let mut best: Vec<[Measurement; 2]> = Vec::new();
    for _ in 0..rounds {
        for (index, pair) in run(pods).await?.into_iter().enumerate() {
            match best.get_mut(index) {
                None => best.push(pair),
                Some(best) => std::iter::zip(best, pair).for_each(|(best, new)| {
                    if new.cost < best.cost {
                        *best = new;
                    }
                }),
            }
        }
    }
    println!("| phase | reference | p99 | Kevel | p99 |\n| --- | ---: | ---: | ---: | ---: |");
    for [reference, kevel] in &best {
        let p99 = |one: &Measurement| one.p99_ms.unwrap_or_default();
        println!(
            "| {} | {:.0} µs | {:.1} ms | {:.0} µs | {:.1} ms |",
            kevel.name,
            reference.cost,
            p99(reference),
            kevel.cost,
            p99(kevel)
        );
    }
    Ok(())
}

/// All phases on fresh servers: the reference's measurements and Kevel's.
async fn run(pods: usize) -> Result<Vec<[Measurement; 2]>> {
    let mut measured = Vec::new();
    for server in Server::ALL {
        let hooks = Hooks::start().await?;
        let folder = cache().join("run").join(format!("bench-admission-{}", server.name()));
        let mut plane = ControlPlane::prepare(&folder)?;
        // Else 200 writes at a time is all there is.
        plane.flags = ["--max-mutating-requests-inflight=4000", "--max-requests-inflight=4000"]
            .map(str::to_owned)
            .to_vec();
        plane.start_server(server, server == Server::Reference).await?;
        let all = phases_of(&Target::new(&plane)?, &hooks, pods).await;
        plane.stop_all()?;
        measured.push(all?);
    }
    let [reference, kevel]: [Vec<Measurement>; 2] =
        measured.try_into().map_err(|_| "two servers, two measurements")?;
    Ok(std::iter::zip(reference, kevel).map(|(reference, kevel)| [reference, kevel]).collect())
}

async fn phases_of(target: &Target, hooks: &Hooks, pods: usize) -> Result<Vec<Measurement>> {
    prepare(&target.client).await?;
    hooks.answer("/label", &label());
    hooks.answer("/hang", &json!({"hang": true}));
    let mut all = Vec::new();
    for (turn, phase) in phases(hooks).into_iter().enumerate() {
        for request in phase.configure {
            succeed(&target.client, request).await?;
        }
        tokio::time::sleep(TAKES_EFFECT).await;
        all.push(match phase.work {
            Work::Create => {
                let first = turn * pods;
                requests(target, phase.name, pods, CLIENTS, &|index| {
                    Request::post(format!("{NAMESPACE}/pods"), &new_pod(first + index))
                })
                .await?
            }
            Work::Get => gets(target, phase.name).await?,
            Work::GetBeside => {
                let waiting: Vec<_> =
                    (0..WAITING).map(|index| create_waiting(target, index)).collect();
                tokio::time::sleep(TAKES_EFFECT).await;
                let measured = gets(target, phase.name).await?;
                waiting.iter().for_each(tokio::task::JoinHandle::abort);
                measured
            }
        });
        // What the webhook was told is of no use here.
        hooks.received("/label");
    }
    Ok(all)
}

async fn gets(target: &Target, name: &'static str) -> Result<Measurement> {
    requests(target, name, GETS, CLIENTS, &|_| Request::get(format!("{NAMESPACE}/pods/pod-000000")))
        .await
}

fn create_waiting(target: &Target, index: usize) -> tokio::task::JoinHandle<()> {
    let client = target.client.clone();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("w-{index}")}});
    tokio::spawn(async move {
        let _ = client.send(Request::post(format!("{NAMESPACE}/configmaps"), &object)).await;
    })
}

fn phases(hooks: &Hooks) -> Vec<Phase> {
    let post =
        |plural: &str, object: &Value| Request::post(format!("{REGISTRATION}/{plural}"), object);
    let policy_and_binding = |name: &str, resource: &str| {
        [post(POLICIES, &policy(name, resource)), post(BINDINGS, &binding(name))]
    };
    let delete =
        |plural: &str, name: &str| Request::delete(format!("{REGISTRATION}/{plural}/{name}"));
    let phase = |name, configure, work| Phase { name, configure, work };
    vec![
        phase("create, nothing configured", vec![], Work::Create),
        phase(
            "create, 100 policies of something else",
            (0..OTHERS)
                .flat_map(|n| policy_and_binding(&format!("other-{n}"), "configmaps"))
                .collect(),
            Work::Create,
        ),
        phase(
            "create, and one of five validations",
            policy_and_binding("pods", "pods").to_vec(),
            Work::Create,
        ),
        phase(
            "create, a mutating webhook",
            [
                vec![POLICIES, BINDINGS]
                    .into_iter()
                    .flat_map(|plural| {
                        (0..OTHERS)
                            .map(move |n| (plural, format!("other-{n}")))
                            .chain([(plural, "pods".to_owned())])
                    })
                    .map(|(plural, name)| delete(plural, &name))
                    .collect::<Vec<_>>(),
                vec![post(MUTATING, &webhook(hooks, "label", "pods"))],
            ]
            .concat(),
            Work::Create,
        ),
        phase("get", vec![delete(MUTATING, "label")], Work::Get),
        phase(
            "get, 1,000 creates wait for a webhook",
            vec![post(VALIDATING, &webhook(hooks, "hang", "configmaps"))],
            Work::GetBeside,
        ),
    ]
}

/// The answer of a webhook that adds an annotation.
fn label() -> Value {
    json!({"response": {"allowed": true, "patchType": "JSONPatch",
        "patch": [{"op": "add", "path": "/metadata/annotations/hooked", "value": "yes"}]}})
}

fn rules(resource: &str) -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}])
}

fn webhook(hooks: &Hooks, name: &str, resource: &str) -> Value {
    json!({"metadata": {"name": name}, "webhooks": [{
        "name": format!("{name}.bench.test"), "rules": rules(resource), "timeoutSeconds": 30,
        "clientConfig": {"url": format!("{}/{name}", hooks.url), "caBundle": hooks.ca},
        "admissionReviewVersions": ["v1"], "sideEffects": "None",
    }]})
}

fn policy(name: &str, resource: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": rules(resource)},
        "validations": [
            {"expression": "object.spec.containers.all(c, has(c.image))"},
            {"expression": "object.spec.containers.all(c, !c.image.endsWith(':latest'))"},
            {"expression": "!has(object.spec.hostNetwork) || !object.spec.hostNetwork"},
            {"expression": "object.metadata.namespace != 'kube-system'"},
            {"expression": "size(object.spec.containers) < 20"},
        ],
    }})
}

fn binding(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}})
}
