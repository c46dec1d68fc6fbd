//! Graphs on a server: their creation, their steps, and their state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::plan::{
    DeletionGraph, GROUP, GraphKind, GraphStep, HOLD, KINDS, LABEL, NAMESPACES, PlannedOwner, Truth,
};
use crate::Result;
use crate::client::{Answer, Client, Request};

/// Time without a change after which graphs have settled, and time limit for it.
const QUIET: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for a server to answer again.
const RESTART: Duration = Duration::from_secs(30);
/// Number of graphs that change at a time.
const WORKERS: usize = 16;

/// State of each graph: a line for each object.
pub type GraphSnapshot = BTreeMap<usize, Vec<String>>;

/// A garbage-collection scenario (objects with owners) on a server.
#[derive(Debug)]
pub struct Play {
    graph: DeletionGraph,
    /// UIDs that each object has had, the newest last.
    uids: Vec<Vec<String>>,
}

/// Creates what all graphs need: namespaces and the custom kind.
pub async fn prepare(client: &Client) -> Result<()> {
    for name in NAMESPACES {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        client.json(Request::post("/api/v1/namespaces", &namespace)).await?;
    }
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("knots.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "knots", "kind": "Knot"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.json(Request::post(definitions, &definition)).await?;
    // The garbage collectors look for new kinds every half minute (reference) or at once (Kevel).
    let knots = format!("/apis/{GROUP}/v1/namespaces/{}/knots", NAMESPACES[0]);
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"});
    let probe = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Knot", "metadata": {
        "name": "probe", "ownerReferences": [owner],
    }});
    let limit = Instant::now() + PATIENCE;
    while client.send(Request::post(&knots, &probe)).await?.code == 404 {
        within(limit, "the custom kind is not served")?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    while client.send(Request::get(format!("{knots}/probe"))).await?.code != 404 {
        within(limit, "custom objects are not collected")?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Runs an action on all graphs, some at a time.
pub async fn each<F>(
    plays: Vec<Play>,
    client: &Arc<Client>,
    action: impl Fn(Play, Arc<Client>) -> F,
) -> Result<Vec<Play>>
where
    F: Future<Output = Result<Play>> + Send + 'static,
{
    let (mut done, mut running) = (Vec::new(), JoinSet::new());
    for play in plays {
        if running.len() == WORKERS
            && let Some(ended) = running.join_next().await
        {
            done.push(ended??);
        }
        running.spawn(action(play, Arc::clone(client)));
    }
    while let Some(ended) = running.join_next().await {
        done.push(ended??);
    }
    Ok(done)
}

impl Play {
    /// A graph that is not yet on the server.
    pub fn new(graph: DeletionGraph) -> Self {
        let uids = vec![Vec::new(); graph.objects.len()];
        Play { graph, uids }
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.graph.steps.len()
    }

    /// Creates the objects.
    pub async fn create(mut self, client: Arc<Client>) -> Result<Self> {
        for object in 0..self.graph.objects.len() {
            let late = self.graph.is_owned_late(object);
            self.post(&client, object, !late).await?;
        }
        for object in 0..self.graph.objects.len() {
            if self.graph.is_owned_late(object) {
                let patch = json!({"metadata": {"ownerReferences": self.references(object)}});
                let request = Request::patch(self.path(object), "merge-patch+json", &patch);
                expect(&client, request, &[200, 404]).await?;
            }
        }
        Ok(self)
    }

    /// Does one step, if there are so many.
    pub async fn step(mut self, client: Arc<Client>, number: usize) -> Result<Self> {
        match self.graph.steps.get(number).cloned() {
            None => {}
            Some(GraphStep::Delete(object, policy)) => self.delete(&client, object, policy).await?,
            Some(GraphStep::Replace(object)) => {
                self.delete(&client, object, Some("Background")).await?;
                self.post(&client, object, true).await?;
            }
            Some(GraphStep::Release(object)) => self.release(&client, object).await?,
            Some(GraphStep::ReleaseAll) => {
                for object in 0..self.graph.objects.len() {
                    self.release(&client, object).await?;
                }
            }
        }
        Ok(self)
    }

    async fn post(&mut self, client: &Client, object: usize, owned: bool) -> Result<()> {
        let mut body = self.graph.object(object);
        if owned {
            body["metadata"]["ownerReferences"] = self.references(object);
        }
        let request = Request::post(self.graph.collection(object), &body);
        // It exists if it is held, or if the server was killed before it could answer.
        let answer = expect(client, request, &[201, 409]).await?;
        let answer = match answer.code {
            201 => answer,
            _ => expect(client, Request::get(self.path(object)), &[200, 404]).await?,
        };
        if let Some(uid) = answer.json()?["metadata"]["uid"].as_str()
            && self.uids[object].iter().all(|known| known != uid)
        {
            self.uids[object].push(uid.to_owned());
        }
        Ok(())
    }

    async fn delete(&self, client: &Client, object: usize, policy: Option<&str>) -> Result<()> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        let options = match policy {
            None => options,
            Some(policy) => {
                json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy})
            }
        };
        let request = Request::new(Method::DELETE, self.path(object))
            .with_body("application/json", options.to_string());
        expect(client, request, &[200, 202, 404]).await.map(drop)
    }

    /// Removes the finalizer that holds an object.
    async fn release(&self, client: &Client, object: usize) -> Result<()> {
        loop {
            let found = expect(client, Request::get(self.path(object)), &[200, 404]).await?;
            let mut body = found.json()?;
            let finalizers = body["metadata"]["finalizers"].as_array_mut();
            let Some(finalizers) = finalizers.filter(|all| all.iter().any(|name| name == HOLD))
            else {
                return Ok(());
            };
            finalizers.retain(|name| name != HOLD);
            let request = Request::put(self.path(object), &body);
            // The garbage collector may have written in between.
            if expect(client, request, &[200, 404, 409]).await?.code != 409 {
                return Ok(());
            }
        }
    }

    fn references(&self, object: usize) -> Value {
        let owners = self.graph.objects[object].owners.iter();
        owners.map(|owner| self.reference(object, owner)).collect()
    }

    fn reference(&self, object: usize, owner: &PlannedOwner) -> Value {
        let kind = &KINDS[self.graph.objects[owner.object].kind];
        let none = format!("00000000-0000-4000-8000-{:08}{object:02}{:02}", 0, owner.object);
        let uid = self.uids[owner.object].last().cloned().unwrap_or_else(|| none.clone());
        let name = self.graph.name(owner.object);
        let (name, uid) = match owner.truth {
            Truth::Right => (name, uid),
            Truth::OtherUid => (name, none),
            Truth::OtherName => (format!("no-{name}"), uid),
            Truth::Missing => (format!("no-{name}"), none),
        };
        json!({
            "apiVersion": kind.api_version, "kind": kind.name, "name": name, "uid": uid,
            "blockOwnerDeletion": owner.blocks,
        })
    }

    fn path(&self, object: usize) -> String {
        format!("{}/{}", self.graph.collection(object), self.graph.name(object))
    }

    /// An object as text, with UIDs replaced by the number of the object that has or had it.
    fn describe(&self, metadata: &Value) -> String {
        let uid = |value: &Value| {
            let uid = value.as_str().unwrap_or_default();
            let of = |(object, uids): (usize, &Vec<String>)| {
                let generation = uids.iter().position(|known| known == uid)?;
                Some(format!("{object}.{generation}"))
            };
            self.uids.iter().enumerate().find_map(of).unwrap_or_else(|| "none".to_owned())
        };
        let mut text = uid(&metadata["uid"]);
        if !metadata["deletionTimestamp"].is_null() {
            text.push_str(" deleting");
        }
        let list = |field: &str| metadata[field].as_array().into_iter().flatten();
        for finalizer in list("finalizers") {
            text.push_str(&format!(" {}", finalizer.as_str().unwrap_or_default()));
        }
        for owner in list("ownerReferences") {
            let blocks = if owner["blockOwnerDeletion"] == true { ", blocks" } else { "" };
            text.push_str(&format!(" owner {}{blocks}", uid(&owner["uid"])));
        }
        text
    }
}

/// State of graphs.
pub async fn snapshot(client: &Client, plays: &[Play]) -> Result<GraphSnapshot> {
    let by_number: BTreeMap<_, _> = plays.iter().map(|play| (play.graph.number, play)).collect();
    let mut snapshot: GraphSnapshot =
        by_number.keys().map(|number| (*number, Vec::new())).collect();
    for kind in &KINDS {
        let path = format!("{}/{}?labelSelector={LABEL}", kind.base(), kind.plural);
        let list = expect(client, Request::get(path), &[200]).await?.json()?;
        for item in list["items"].as_array().into_iter().flatten() {
            let metadata = &item["metadata"];
            let number = metadata["labels"][LABEL].as_str().and_then(|label| label.parse().ok());
            // Objects of earlier graphs stay.
            if let Some((number, play)) = number.and_then(|number| by_number.get_key_value(&number))
            {
                let line = format!("{} {}", kind.name, play.describe(metadata));
                snapshot.entry(*number).or_default().push(line);
            }
        }
    }
    snapshot.values_mut().for_each(|lines| lines.sort());
    Ok(snapshot)
}

/// Deletions that have not ended, though nothing of their graph holds them, as text.
pub async fn unfinished(client: &Client) -> Result<Vec<String>> {
    let mut objects = Vec::new();
    for kind in &KINDS {
        let path = format!("{}/{}?labelSelector={LABEL}", kind.base(), kind.plural);
        let list = expect(client, Request::get(path), &[200]).await?.json()?;
        let items = list["items"].as_array().into_iter().flatten();
        objects.extend(items.map(|item| (kind, item["metadata"].clone())));
    }
    let mut stuck: Vec<_> =
        objects.iter().filter(|(_, metadata)| !metadata["deletionTimestamp"].is_null()).collect();
    // Foreground deletions wait for ever, on the reference too, for a blocking dependent that cannot be collected: the
    // object itself, one outside of all namespaces that has an owner inside, or one that waits so.
    loop {
        let uids: BTreeSet<_> =
            stuck.iter().map(|(_, metadata)| metadata["uid"].as_str()).collect();
        let rest: Vec<_> = stuck
            .iter()
            .filter(|(kind, owner)| {
                let holds = |(other, dependent): &(&GraphKind, Value)| {
                    let uid = dependent["uid"].as_str();
                    blocks(dependent, owner)
                        && (uid == owner["uid"].as_str()
                            || kind.namespaced && !other.namespaced
                            || !dependent["deletionTimestamp"].is_null() && !uids.contains(&uid))
                };
                !objects.iter().any(holds)
            })
            .copied()
            .collect();
        if rest.len() == stuck.len() {
            break;
        }
        stuck = rest;
    }
    let show = |(kind, metadata): &&(&GraphKind, Value)| format!("{} {metadata}", kind.name);
    Ok(stuck.iter().map(show).collect())
}

/// Whether a reference of an object blocks the deletion of an owner.
fn blocks(dependent: &Value, owner: &Value) -> bool {
    let mut references = dependent["ownerReferences"].as_array().into_iter().flatten();
    references.any(|reference| {
        reference["uid"] == owner["uid"] && reference["blockOwnerDeletion"] == true
    })
}

/// State of graphs when nothing has changed for a while.
pub async fn settled(client: &Client, plays: &[Play]) -> Result<GraphSnapshot> {
    let limit = Instant::now() + PATIENCE;
    let (mut last, mut since) = (snapshot(client, plays).await?, Instant::now());
    while since.elapsed() < QUIET {
        within(limit, "graphs do not settle")?;
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = snapshot(client, plays).await?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

/// Sends a request until the server answers; fails if the code is none of those expected.
async fn expect(client: &Client, request: Request, codes: &[u16]) -> Result<Answer> {
    let limit = Instant::now() + RESTART;
    loop {
        match client.send(request.clone()).await {
            Ok(answer) if codes.contains(&answer.code) => return Ok(answer),
            // A server that starts answers so while it has not read its policy.
            Ok(answer)
                if matches!(answer.code, 403 | 429 | 500 | 503) && Instant::now() < limit => {}
            Ok(answer) => {
                let text = String::from_utf8_lossy(&answer.body);
                let (method, path) = (&request.method, &request.path);
                return Err(format!("{method} {path}: {} {text}", answer.code).into());
            }
            Err(_) if Instant::now() < limit => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn within(limit: Instant, message: &str) -> Result<()> {
    if Instant::now() < limit { Ok(()) } else { Err(message.into()) }
}
