//! Reference and Kevel as peers on one etcd (`UnknownVersionInteroperabilityProxy`): each serves groups that the other
//! does not, and is asked for the other's. Needs root, because each has its own hostname and address.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kevel_codec::base64;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Answer, Client, Request};
use crate::control_plane::{ControlPlane, Server, cache, free_port};
use crate::{Result, services};

/// Time limit for the servers to discover each other.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of Services that are created on both servers concurrently.
const SERVICES: usize = 1000;
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases\
                      ?labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver";

/// Addresses of the servers. The reference publishes `--advertise-address` to its peers, whatever `--peer-advertise-ip`
/// says.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// Environment variable that is set where these addresses exist.
const INSIDE: &str = "KEVEL_PEERS_INSIDE";

/// One of the two servers.
struct Peer {
    server: Server,
    port: u16,
    /// Address that clients of the cluster get.
    address: &'static str,
    /// Group and version that it does not serve.
    lacks: &'static str,
    /// Collection in that group.
    collection: &'static str,
    client: Arc<Client>,
}

/// Number of failed checks; prints each check.
#[derive(Default)]
struct Findings(usize);

impl Findings {
    fn note(&mut self, what: &str, found: Result<String>) {
        match found {
            Ok(said) => println!("✓ {what}: {said}"),
            Err(error) => {
                self.0 += 1;
                println!("✗ {what}: {error}");
            }
        }
    }
}

/// Runs both servers and all checks. Returns whether all pass.
pub async fn run() -> Result<bool> {
    if std::env::var_os(INSIDE).is_none() {
        return run_inside().await;
    }
    let mut plane = ControlPlane::prepare(&cache().join("run/peers"))?;
    plane.hostnames = true;
    let well = check(&mut plane).await;
    plane.stop_all()?;
    well
}

/// Runs this command again in a network namespace that has both addresses.
async fn run_inside() -> Result<bool> {
    let script = r#"ip link set lo up && for address in $0; do ip address add $address/32 dev lo; done && exec "$@""#;
    let mut command = tokio::process::Command::new("unshare");
    command.args(["--net", "sh", "-c", script, &ADDRESSES.join(" ")]);
    command.arg(std::env::current_exe()?).arg("peers").env(INSIDE, "1");
    Ok(command.status().await?.success())
}

async fn check(plane: &mut ControlPlane) -> Result<bool> {
    let peers = [
        Peer {
            server: Server::Reference,
            port: free_port()?,
            address: ADDRESSES[0],
            lacks: "batch/v1=false,authentication.k8s.io/v1=false",
            collection: "/apis/batch/v1/namespaces/default/jobs",
            client: Arc::new(plane.client(1)?),
        },
        Peer {
            server: Server::Kevel,
            port: free_port()?,
            address: ADDRESSES[1],
            lacks: "autoscaling/v2=false,certificates.k8s.io/v1=false",
            collection: "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            client: Arc::new(plane.client(1)?),
        },
    ];
    let mut all = Vec::new();
    for mut peer in peers {
        peer.client = Arc::new(plane.client_of(peer.port, 4)?);
        start(plane, &peer).await?;
        all.push(peer);
    }
    let [reference, kevel] = &all[..] else { return Err("two peers".into()) };
    let mut findings = Findings::default();
    for (asked, other) in [(reference, kevel), (kevel, reference)] {
        let name = asked.server.name();
        let what = |what: &str| format!("{name}, {what}");
        findings.note(&what("what it lacks"), passed_on(asked, other).await);
        findings.note(&what("a watch"), watch(asked, other).await);
        findings.note(&what("a WebSocket"), websocket(asked, other).await);
    }
    findings.note("reference, who asked", who(reference).await);
    findings.note("kevel, who asked", requester(kevel).await);
    findings.note("discovery", discovery(reference, kevel).await);
    findings.note("identity leases", leases(reference, kevel).await);
    findings.note("kubernetes' endpoints", endpoints(&all).await);
    let clients = [reference.client.clone(), kevel.client.clone()];
    findings.note("Services of both", services::make(&clients, SERVICES).await);
    let mut said = Vec::new();
    for (asked, other) in [(reference, kevel), (kevel, reference)] {
        plane.kill(other.server.name())?;
        let killed = killed(asked, other).await;
        said.push(killed.as_ref().map(String::clone).unwrap_or_default());
        findings.note(&format!("{}, its peer killed", asked.server.name()), killed);
        start(plane, other).await?;
        let again = passed_on(asked, other).await;
        findings.note(&format!("{}, its peer back", asked.server.name()), again);
    }
    findings.note("what is said of a killed peer", equal(&said[0], &said[1]));
    Ok(findings.0 == 0)
}

async fn start(plane: &mut ControlPlane, peer: &Peer) -> Result<()> {
    plane.flags = vec![
        "--feature-gates=UnknownVersionInteroperabilityProxy=true".to_owned(),
        format!("--peer-ca-file={}", plane.pki("ca.crt")),
        "--bind-address=0.0.0.0".to_owned(),
        format!("--peer-advertise-ip={}", peer.address),
        format!("--peer-advertise-port={}", peer.port),
        format!("--advertise-address={}", peer.address),
        "--requestheader-uid-headers=X-Remote-Uid".to_owned(),
        format!("--runtime-config={}", peer.lacks),
    ];
    let took = plane.start_replica(peer.server, peer.server.name(), peer.port, true).await?;
    println!("{} is ready after {took:.1?}", peer.server.name());
    Ok(())
}

/// Retries until the check passes; the error is the last one.
async fn until<T>(look: impl AsyncFn() -> Result<T>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match look().await {
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            Ok(found) => return Ok(found),
        }
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(one: &T, other: &T) -> Result<String> {
    match one == other {
        true => Ok("equal".to_owned()),
        false => Err(format!("{one:?}\n  {other:?}").into()),
    }
}

/// Object of a kind that a peer does not serve.
fn object(peer: &Peer, name: &str) -> Value {
    let containers = json!([{"name": "a", "image": "a"}]);
    let spec = match peer.server {
        Server::Reference => {
            json!({"template": {"spec": {"restartPolicy": "Never", "containers": containers}}})
        }
        Server::Kevel => {
            json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "maxReplicas": 3})
        }
    };
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Deletes in the background: a Job would wait for the deletion of its pods.
fn delete(path: &str) -> Request {
    Request::delete(format!("{path}?propagationPolicy=Background"))
}

/// An object created through one server exists on the other.
async fn passed_on(asked: &Peer, other: &Peer) -> Result<String> {
    until(async || asked.client.json(Request::get(asked.collection)).await).await?;
    let made = asked.client.json(Request::post(asked.collection, &object(asked, "made"))).await?;
    let path = format!("{}/made", asked.collection);
    let found = other.client.json(Request::get(&path)).await?;
    equal(&made["metadata"]["uid"], &found["metadata"]["uid"])?;
    // A request that was proxied once is answered where it arrives.
    let once = Request::get(&path).with_header("x-kubernetes-peer-proxied", "true");
    let code = asked.client.send(once).await?.code;
    asked.client.json(delete(&path)).await?;
    match code {
        404 => Ok("created, read and deleted".to_owned()),
        code => Err(format!("{code} for what was passed on before").into()),
    }
}

async fn watch(asked: &Peer, other: &Peer) -> Result<String> {
    let path = format!("{}?watch=true&timeoutSeconds=20", asked.collection);
    let mut lines = asked.client.watch(Request::get(path)).await?;
    other.client.json(Request::post(asked.collection, &object(asked, "watched"))).await?;
    let line = tokio::time::timeout(PATIENCE, lines.next()).await??.ok_or("it ended")?;
    let path = format!("{}/watched", asked.collection);
    other.client.json(delete(&path)).await?;
    let event: Value = serde_json::from_slice(&line)?;
    equal(&event["object"]["metadata"]["name"], &json!("watched"))?;
    Ok(format!("{} event", event["type"]))
}

/// Watch by WebSocket: the upgraded connection passes through both servers. The reference proxies such a request
/// without the user, and its peer refuses the reference's own name.
async fn websocket(asked: &Peer, other: &Peer) -> Result<String> {
    other.client.json(Request::post(asked.collection, &object(asked, "framed"))).await?;
    let mut stream = asked.client.http1().await?;
    let request = format!(
        "GET {}?watch=true&timeoutSeconds=20 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\
         Origin: http://127.0.0.1\r\n\r\n",
        asked.collection
    );
    stream.write_all(request.as_bytes()).await?;
    let mut said = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&said).contains("\"framed\"") {
            if stream.read_buf(&mut said).await? == 0 {
                return Err("it ended".into());
            }
        }
        Ok(())
    };
    let read: Result<()> = tokio::time::timeout(Duration::from_secs(10), read)
        .await
        .unwrap_or_else(|_| Err("nothing more".into()));
    let path = format!("{}/framed", asked.collection);
    other.client.json(delete(&path)).await?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let head = said.lines().next().unwrap_or_default().to_owned();
    match (read, asked.server) {
        (Ok(()), Server::Kevel) if head.contains(" 101 ") => Ok(head),
        (Err(_), Server::Reference) if said.contains(r#"User \"front-proxy\" cannot watch"#) => {
            Ok(format!("{head}, as itself"))
        }
        (read, _) => Err(format!("{read:?} after {said:?}").into()),
    }
}

/// User that Kevel sees for a request to the reference.
async fn who(asked: &Peer) -> Result<String> {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = Request::post(path, &json!({}));
    let admin = asked.client.json(review.clone()).await?;
    equal(&admin["status"]["userInfo"]["username"], &json!("admin"))?;
    let review = review
        .with_header("impersonate-user", "jane")
        .with_header("impersonate-uid", "7")
        .with_header("impersonate-group", "dev")
        .with_header("impersonate-extra-a%2fb", "c");
    let jane = asked.client.json(review).await?;
    let expected = json!({"username": "jane", "uid": "7", "groups": ["dev", "system:authenticated"], "extra": {"a/b": ["c"]}});
    equal(&jane["status"]["userInfo"], &expected)
}

/// User that the reference sees for a request to Kevel, recorded in a CertificateSigningRequest.
async fn requester(asked: &Peer) -> Result<String> {
    let params = rcgen::CertificateParams::default();
    let request = params.serialize_request(&rcgen::KeyPair::generate()?)?.pem()?;
    let request = base64::encode(request.as_bytes()).to_string();
    let spec =
        json!({"signerName": "example.com/a", "usages": ["client auth"], "request": request});
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = Request::post(
        format!("{path}?dryRun=All"),
        &json!({"metadata": {"name": "a"}, "spec": spec}),
    )
    .with_header("impersonate-user", "jane")
    .with_header("impersonate-uid", "7")
    .with_header("impersonate-group", "system:masters")
    .with_header("impersonate-extra-a%2fb", "c");
    let answer = asked.client.send(request).await?;
    let said = answer.json()?;
    match answer.code {
        201 => {
            let spec = &said["spec"];
            let found = json!([spec["username"], spec["uid"], spec["groups"], spec["extra"]]);
            let expected =
                json!(["jane", "7", ["system:masters", "system:authenticated"], {"a/b": ["c"]}]);
            equal(&found, &expected)
        }
        _ => Err(said.to_string().into()),
    }
}

async fn discovery(reference: &Peer, kevel: &Peer) -> Result<String> {
    let of = async |peer: &Peer, accept: &str| -> Result<Value> {
        peer.client.json(Request::get("/apis").with_header("accept", accept)).await
    };
    let without = format!("{AGGREGATED};profile=nopeer");
    for (peer, group) in [(reference, "batch"), (kevel, "certificates.k8s.io")] {
        if groups(&of(peer, &without).await?).contains_key(group) {
            return Err(format!("{} says it serves {group}", peer.server.name()).into());
        }
    }
    until(async || {
        let (one, other) = (of(reference, AGGREGATED).await?, of(kevel, AGGREGATED).await?);
        let (one, other) = (groups(&one), groups(&other));
        for group in ["batch", "certificates.k8s.io", "autoscaling", "authentication.k8s.io"] {
            one.get(group).ok_or_else(|| format!("the reference tells of no {group}"))?;
        }
        equal(&one, &other)?;
        Ok(format!("{} groups, equal", one.len()))
    })
    .await
}

/// Versions and resources by group.
fn groups(document: &Value) -> BTreeMap<String, Vec<String>> {
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let versions = |group: &Value| -> Vec<String> {
        let versions = list(&group["versions"]).into_iter();
        let resources = versions.map(|version| {
            let names: Vec<_> =
                list(&version["resources"]).iter().map(|row| name(&row["resource"])).collect();
            format!("{}: {}", name(&version["version"]), names.join(","))
        });
        resources.collect()
    };
    list(&document["items"])
        .iter()
        .map(|group| (name(&group["metadata"]["name"]), versions(group)))
        .collect()
}

/// Checks that each server has an identity lease of the same form.
async fn leases(reference: &Peer, kevel: &Peer) -> Result<String> {
    let list = kevel.client.json(Request::get(LEASES)).await?;
    let mut shapes = BTreeMap::new();
    for lease in list["items"].as_array().into_iter().flatten() {
        let metadata = &lease["metadata"];
        let keys = |value: &Value| -> Vec<String> {
            value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect()
        };
        let host = metadata["labels"]["kubernetes.io/hostname"].as_str().unwrap_or_default();
        let shape =
            [keys(&metadata["labels"]), keys(&metadata["annotations"]), keys(&lease["spec"])];
        let spec = &lease["spec"];
        shapes.insert(host.to_owned(), (shape, spec["leaseDurationSeconds"].clone()));
    }
    let of = |peer: &Peer| {
        shapes
            .get(peer.server.name())
            .ok_or_else(|| format!("none of {}: {shapes:?}", peer.server.name()))
    };
    equal(of(reference)?, of(kevel)?)?;
    Ok(format!("{} leases, of one shape", shapes.len()))
}

/// Checks that both servers list both addresses.
async fn endpoints(all: &[Peer]) -> Result<String> {
    let expected: BTreeSet<String> = all.iter().map(|peer| peer.address.to_owned()).collect();
    for peer in all {
        until(async || {
            let path = "/api/v1/namespaces/default/endpoints/kubernetes";
            let found = peer.client.json(Request::get(path)).await?;
            let addresses =
                found["subsets"][0]["addresses"].as_array().cloned().unwrap_or_default();
            let of = |address: &Value| address["ip"].as_str().map(str::to_owned);
            equal(&addresses.iter().filter_map(of).collect(), &expected)?;
            let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
            let slice = peer.client.json(Request::get(path)).await?;
            let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
            let of = |endpoint: &Value| endpoint["addresses"][0].as_str().map(str::to_owned);
            equal(&endpoints.iter().filter_map(of).collect(), &expected)
        })
        .await?;
    }
    Ok(format!("{expected:?}"))
}

/// Answer for a peer that was killed, with its port masked.
async fn killed(asked: &Peer, other: &Peer) -> Result<String> {
    until(async || {
        let answer: Answer = asked.client.send(Request::get(asked.collection)).await?;
        let said = String::from_utf8_lossy(&answer.body)
            .replace(&format!("{}:{}", other.address, other.port), "PEER");
        let kind = answer.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        // A kept connection may fail first.
        match answer.code == 503 && said.contains("connection refused") {
            true => Ok(format!("503 {} {said:?}", kind.unwrap_or_default())),
            false => Err(format!("{} {said}", answer.code).into()),
        }
    })
    .await
}
