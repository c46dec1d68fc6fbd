//! Swap of servers on one etcd: each reads the objects that the other wrote, and they are equal.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Request};
use crate::control_plane::{Component, ControlPlane, Server, cache, tree};
use crate::difference::differences;
use crate::flags::ExtraFlags;
use crate::{Result, objects};

/// Time limit for a control plane to settle.
const PATIENCE: Duration = Duration::from_secs(60);
/// Components that work on the objects, beside the servers.
const COMPONENTS: [Component; 3] = [Component::Controllers, Component::Scheduler, Component::Nodes];
/// Limit on printed differences of one object.
const SHOWN: usize = 6;

/// Fills a control plane on the reference, swaps to Kevel and back, and prints objects that read back differently.
/// Returns whether all were equal. `encrypted`: both encrypt the stored objects. `flags` are those of both servers.
pub async fn run(encrypted: bool, flags: ExtraFlags) -> Result<bool> {
    let mut plane = ControlPlane::prepare(&cache().join("run/swap"))?;
    plane.flags = flags.flags.clone();
    if encrypted {
        let file = tree().join("conformance/encryption.yaml");
        plane.flags.push(format!("--encryption-provider-config={}", file.display()));
    }
    let equal = swap(&mut plane, &flags.objects()?).await;
    plane.stop_all()?;
    equal
}

async fn swap(plane: &mut ControlPlane, made: &[Value]) -> Result<bool> {
    plane.start_server(Server::Reference, true).await?;
    start_components(plane).await?;
    fill(&plane.client(4)?, made).await?;
    scaled(plane, 3).await?;
    let filled = rest(plane, Server::Reference).await?;
    println!("filled: {} objects of {} resources", count(&filled), filled.len());

    plane.start_server(Server::Kevel, true).await?;
    let kept = compare("kevel after the reference", &filled, &snapshot(&plane.client(4)?).await?);
    let written = write(&plane.client(4)?, &filled).await?;
    start_components(plane).await?;
    let controlled = match scale(&plane.client(1)?, 4).await {
        Ok(()) => scaled(plane, 4).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &controlled {
        println!("✗ controllers on kevel: {error}");
    }
    let changed = rest(plane, Server::Kevel).await?;

    plane.start_server(Server::Reference, true).await?;
    let back = compare("the reference after kevel", &changed, &snapshot(&plane.client(4)?).await?);
    Ok(kept && written && controlled.is_ok() && back)
}

async fn start_components(plane: &mut ControlPlane) -> Result<()> {
    for component in COMPONENTS {
        plane.start(component).await?;
    }
    Ok(())
}

/// Stops everything but etcd; returns the objects at that time.
async fn rest(plane: &mut ControlPlane, server: Server) -> Result<Snapshot> {
    for component in COMPONENTS {
        plane.stop(component.name())?;
    }
    let snapshot = snapshot(&plane.client(4)?).await?;
    plane.stop(server.name())?;
    Ok(snapshot)
}

async fn fill(client: &Client, made: &[Value]) -> Result<()> {
    for object in made {
        if let Err(error) = objects::create(client, object).await {
            println!("✗ not created: {} {}: {error}", object["kind"], object["metadata"]["name"]);
        }
    }
    Ok(())
}

/// Objects by name, by resource.
pub(crate) type Snapshot = BTreeMap<String, BTreeMap<String, Value>>;

pub(crate) fn count(snapshot: &Snapshot) -> usize {
    snapshot.values().map(BTreeMap::len).sum()
}

/// All objects that can be listed, in every served version.
pub(crate) async fn snapshot(client: &Client) -> Result<Snapshot> {
    let mut all = Snapshot::new();
    for root in roots(client).await? {
        // An aggregated API without a server has nothing to list.
        let Ok(list) = client.json(Request::get(root.clone())).await else { continue };
        for row in list["resources"].as_array().into_iter().flatten() {
            let listed = row["verbs"]
                .as_array()
                .is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            let Some(name) = row["name"].as_str().filter(|_| listed) else { continue };
            let path = format!("{root}/{name}");
            let mut list = match list_of(client, &path).await {
                Ok(list) => list,
                Err(error) => {
                    println!("✗ {error}");
                    continue;
                }
            };
            let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let key = |item: &Value| {
                format!("{}/{}", item["metadata"]["namespace"], item["metadata"]["name"])
            };
            all.insert(path, items.into_iter().map(|item| (key(&item), item)).collect());
        }
    }
    Ok(all)
}

/// A list, as soon as the server serves it.
async fn list_of(client: &Client, path: &str) -> Result<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = client.send(Request::get(path)).await?;
        match answer.code {
            200 => return answer.json(),
            429 if Instant::now() < until => tokio::time::sleep(Duration::from_millis(200)).await,
            code => {
                return Err(
                    format!("{path}: {code} {}", String::from_utf8_lossy(&answer.body)).into()
                );
            }
        }
    }
}

async fn roots(client: &Client) -> Result<Vec<String>> {
    let groups = client.json(Request::get("/apis")).await?;
    let groups = groups["groups"].as_array().into_iter().flatten();
    let versions = groups.filter_map(|group| group["versions"].as_array()).flatten();
    let versions = versions.filter_map(|version| version["groupVersion"].as_str());
    let named = versions.map(|version| format!("/apis/{version}"));
    Ok(["/api/v1".to_owned()].into_iter().chain(named).collect())
}

pub(crate) fn compare(title: &str, before: &Snapshot, after: &Snapshot) -> bool {
    let (mut equal, mut different) = (0, 0);
    for (resource, objects) in before {
        let Some(others) = after.get(resource) else {
            println!("✗ {title}: {resource} is not served");
            different += objects.len();
            continue;
        };
        for (name, object) in objects {
            let found = match others.get(name) {
                Some(other) => differences(object, other),
                None => vec!["is gone".to_owned()],
            };
            if found.is_empty() || changes_by_itself(resource, name) {
                equal += 1;
                continue;
            }
            different += 1;
            println!("✗ {title}: {resource} {name}");
            found.iter().take(SHOWN).for_each(|line| println!("    {line}"));
        }
        let new = others.keys().filter(|name| !objects.contains_key(*name));
        for name in new.filter(|name| !changes_by_itself(resource, name)) {
            println!("  {title}: {resource} {name} is new");
        }
    }
    println!("{title}: {equal} objects read back equal, {different} do not");
    different == 0
}

/// Objects that a server renews while it runs, or never stores.
const RENEWED: [(&str, &str); 5] = [
    ("/leases", "apiserver-"),
    ("/apiservices", "swap.example.com"),
    ("/endpoints", "\"default\"/\"kubernetes\""),
    ("/endpointslices", "\"default\"/\"kubernetes\""),
    ("/componentstatuses", ""),
];

fn changes_by_itself(resource: &str, name: &str) -> bool {
    RENEWED.iter().any(|(plural, part)| resource.ends_with(plural) && name.contains(part))
}

/// Labels every object that was created by hand; returns whether all writes succeeded.
async fn write(client: &Client, filled: &Snapshot) -> Result<bool> {
    let patch = json!({"metadata": {"labels": {"written-by": "kevel"}}});
    let (mut written, mut refused) = (0, 0);
    for (resource, objects) in filled {
        for name in objects.keys() {
            let (namespace, name) = name.split_once('/').unwrap_or_default();
            if namespace != "\"swap\"" && name != "\"swap\"" {
                continue;
            }
            let name = name.trim_matches('"');
            let path = match (namespace, resource.rsplit_once('/')) {
                ("null", _) => format!("{resource}/{name}"),
                (_, Some((root, plural))) => format!("{root}/namespaces/swap/{plural}/{name}"),
                (_, None) => continue,
            };
            let answer = client.send(Request::patch(&path, "merge-patch+json", &patch)).await?;
            if answer.code == 200 {
                written += 1;
            } else {
                refused += 1;
                println!(
                    "✗ write {path}: {} {}",
                    answer.code,
                    String::from_utf8_lossy(&answer.body)
                );
            }
        }
    }
    println!("kevel wrote {written} objects, {refused} refused");
    Ok(refused == 0)
}

async fn scale(client: &Client, replicas: u32) -> Result<()> {
    let patch = json!({"spec": {"replicas": replicas}});
    let path = "/apis/apps/v1/namespaces/swap/deployments/web";
    client.json(Request::patch(path, "merge-patch+json", &patch)).await?;
    Ok(())
}

async fn scaled(plane: &ControlPlane, replicas: u32) -> Result<()> {
    let client = plane.client(1)?;
    let until = Instant::now() + PATIENCE;
    loop {
        let web =
            client.json(Request::get("/apis/apps/v1/namespaces/swap/deployments/web")).await?;
        if web["status"]["readyReplicas"] == replicas
            && web["status"]["updatedReplicas"] == replicas
        {
            return Ok(());
        }
        plane.check()?;
        if Instant::now() > until {
            return Err(
                format!("the deployment does not reach {replicas}: {}", web["status"]).into()
            );
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
