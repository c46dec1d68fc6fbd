//! Discovery of peers: each is queried when its identity lease appears or changes its holder.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use kevel_api::value::Value;
use kevel_controller_runtime::{Informer, run};
use kevel_registry::storage::Storage;
use kevel_registry::user::{ALL_AUTHENTICATED, User};
use kevel_server::lifecycle::{HookContext, Hooks};

use super::metrics::{FETCH_DISCOVERY, HOSTPORT_RESOLUTION};
use super::proxy::{PEER_PROXIED, PROXIED};
use super::{Peer, Peers};
use crate::discovery::document;

/// Namespace prefix and label of the servers' identity leases.
const PREFIX: &str = "kube-system/";
const IDENTITY: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");
/// Timeout and maximum size of a response.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ANSWER: usize = 8 << 20;

/// `profile=nopeer`: the peer's own resources, so that two servers do not query each other in a circle.
const ACCEPT: HeaderValue = HeaderValue::from_static(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,\
     application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
);

impl Peers {
    /// Adds the post-start hooks, with the reference's names.
    pub fn add_hooks(self: &Arc<Self>, hooks: &Hooks) -> Result<(), String> {
        let this = self.clone();
        hooks.add_post_start("mixed-version-proxy-handler", |context: HookContext| async move {
            tokio::select! {
                synced = this.wait_until_loaded() => synced?,
                () = context.stop.wait() => return Ok(()),
            }
            this.synced.signal();
            Ok(())
        })?;
        // This server's own resources are read from its tables.
        hooks.add_post_start("local-discovery-cache-sync", |_| async { Ok(()) })?;
        let this = self.clone();
        hooks.add_post_start("peer-discovery-workers", |context: HookContext| async move {
            let (queues, stop) =
                ([this.queue.clone(), this.exclusion_queue.clone()], context.stop.wait());
            context.tasks.spawn("peer-discovery-workers", async move {
                tokio::select! {
                    _ = async { tokio::join!(this.clone().follow_leases(), this.clone().follow_exclusions()) } => {}
                    () = stop => {}
                }
                queues.iter().for_each(|queue| queue.shut_down());
            });
            Ok(())
        })
    }

    async fn wait_until_loaded(&self) -> Result<(), String> {
        let text = |error: kevel_store::cache::CacheError| error.to_string();
        self.leases.cache.loaded().await.map_err(text)?;
        if let Some(definitions) = &self.definitions {
            definitions.cache.loaded().await.map_err(text)?;
        }
        self.services.loaded().wait().await;
        Ok(())
    }

    async fn follow_leases(self: Arc<Self>) {
        let (queue, leases) = (self.queue.clone(), self.leases.clone());
        // Leases are renewed all the time; only a change of the holder matters.
        let holders: Mutex<HashMap<String, Option<String>>> = Mutex::default();
        let hear = {
            let (queue, leases, own) = (queue.clone(), leases.clone(), self.server_id.clone());
            move |object: &kevel_store::cache::Object| {
                let Some(name) = object.key().strip_prefix(PREFIX) else { return };
                let holder = holder(&leases, object.key());
                let mut holders = holders.lock().unwrap_or_else(PoisonError::into_inner);
                let before = match &holder {
                    Some(holder) => holders.insert(name.to_owned(), Some(holder.clone())).flatten(),
                    None => holders.remove(name).flatten(),
                };
                if before != holder && name != own {
                    queue.add(name);
                }
            }
        };
        let this = self.clone();
        let reconcile = move |_: String| {
            let this = this.clone();
            async move { this.sync().await }
        };
        tokio::join!(
            Informer::new(leases.cache.clone()).for_each(hear),
            run(queue, "peer-discovery-cache-sync", 1, reconcile),
        );
    }

    /// Queries all present peers.
    async fn sync(&self) -> Result<(), String> {
        let ids: Vec<String> = {
            let latest = self.leases.cache.latest();
            let names =
                latest.range(PREFIX, None).take_while(|object| object.key().starts_with(PREFIX));
            let held = names.filter(|object| holder(&self.leases, object.key()).is_some());
            let ids = held.filter_map(|object| object.key().strip_prefix(PREFIX));
            ids.filter(|id| *id != self.server_id).map(str::to_owned).collect()
        };
        let (mut said, mut failed) = (BTreeMap::new(), Ok(()));
        for id in ids {
            match self.ask(&id).await {
                Ok(peer) => drop(said.insert(id, peer)),
                Err(error) => failed = Err(format!("{id}: {error}")),
            }
        }
        self.publish(|state| state.said = said);
        failed
    }

    /// Queries a peer's resources.
    async fn ask(&self, id: &str) -> Result<Peer, String> {
        let address = self.endpoint(id).await;
        let address = address.inspect_err(|_| self.metrics.not_synced(HOSTPORT_RESOLUTION))?;
        let mut peer = Peer::default();
        for path in ["/api", "/apis"] {
            let document = self.fetch(&address, path).await;
            let document = document.inspect_err(|_| self.metrics.not_synced(FETCH_DISCOVERY))?;
            for group in document.list_at(&["items"]) {
                peer.add(group);
            }
        }
        Ok(peer)
    }

    async fn fetch(&self, address: &str, path: &str) -> Result<Value, String> {
        let user = User {
            name: "system:apiserver".to_owned(),
            uid: "system:apiserver".to_owned(),
            groups: vec![ALL_AUTHENTICATED.to_owned()],
            ..User::default()
        };
        let headers = HeaderMap::from_iter([(header::ACCEPT, ACCEPT), (PEER_PROXIED, PROXIED)]);
        let server = self.server.current();
        let get = server.get(address, path, &user, headers, MAX_ANSWER);
        let answer = tokio::time::timeout(TIMEOUT, get).await;
        let answer = answer.unwrap_or_else(|_| Err("request timed out".to_owned()));
        let code =
            answer.as_ref().map_or(StatusCode::SERVICE_UNAVAILABLE, |answer| answer.status());
        self.metrics.rerouted(code, None);
        let answer = answer?;
        match answer.status() {
            StatusCode::OK if document::is_aggregated(&answer) => document::list(answer.body()),
            StatusCode::OK => Err("error decoding discovery response".to_owned()),
            code => Err(format!("discovery request failed with status: {}", code.as_u16())),
        }
    }
}

impl Peer {
    pub(super) fn add(&mut self, group: &Value) {
        let name = group.str_at(&["metadata", "name"]);
        for version in group.list_at(&["versions"]) {
            for resource in version.list_at(&["resources"]) {
                let version = (name.to_owned(), version.str_at(&["version"]).to_owned());
                self.resources.insert((version, resource.str_at(&["resource"]).to_owned()));
            }
        }
        // The core group is not part of the document of `/apis`; its resources are proxied nevertheless.
        if !name.is_empty() {
            self.groups.push(group.clone());
        }
    }
}

/// Holder of an identity lease; `None` for other leases and deleted ones.
fn holder(leases: &Storage, key: &str) -> Option<String> {
    let object = leases.cache.latest().get(key).cloned()?;
    let lease = leases.read(object.wire().ok()?).ok()?;
    let (label, value) = IDENTITY;
    let is_identity = lease.str_at(&["metadata", "labels", label]) == value;
    let holder = lease.at(&["spec", "holderIdentity"]).and_then(Value::as_str);
    holder.filter(|_| is_identity).map(str::to_owned)
}
