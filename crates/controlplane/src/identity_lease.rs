//! The lease by which an API server shows that it is there, and the end of those that are not.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::MicroTime;
use kevel_api::value::{Map, Value};
use kevel_component::signals::Signal;
use kevel_controller_runtime::Client;

use crate::system_namespaces;

/// Namespace of the leases.
const NAMESPACE: &str = "kube-system";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Label that marks a lease as a server's identity, with the kind of server.
const LABEL: &str = "apiserver.kubernetes.io/identity";
const SERVER: &str = "kube-apiserver";
/// Says where other servers reach this one.
const PEER_ADDRESS: &str = "kubernetes.io/peer-advertise-address";
const LEASE_SECONDS: i64 = 3600;
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// Limit on a deletion at the start and the end, which a webhook may keep waiting.
const DELETE: Duration = Duration::from_secs(10);
const COLLECT_INTERVAL: Duration = Duration::from_secs(3600);
/// First and longest delay after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(7));

/// A server's own lease.
#[derive(Clone, Debug)]
pub struct IdentityLease {
    client: Client,
    name: String,
    hostname: String,
    /// Address at which peers reach the server, if it is published.
    peer_address: Option<String>,
    holder: String,
    /// Signal to delete the lease.
    stopped: Signal,
    /// Lock of writes to the lease.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl IdentityLease {
    /// Creates the lease of a server with this ID (see `kevel_component::identity`).
    pub fn new(client: Client, id: String, hostname: String, peer_address: Option<String>) -> Self {
        let holder = format!("{id}_{}", uuid::Uuid::new_v4());
        let (stopped, writing) = (Signal::new("IdentityLeaseGivenBack"), Arc::default());
        IdentityLease { client, name: id, hostname, peer_address, holder, stopped, writing }
    }

    /// Takes the lease and renews it until it is given back.
    pub fn keep(&self) -> impl Future<Output = ()> + Send + 'static {
        let this = self.clone();
        async move {
            tokio::select! {
                () = this.renew_always() => {}
                () = this.stopped.wait() => {}
            }
        }
    }

    /// Deletes the lease when the server stops, so that peers stop using it.
    pub async fn give_back(&self) {
        self.stopped.signal();
        let _writing = self.writing.lock().await;
        self.delete().await;
    }

    async fn renew_always(&self) {
        // An earlier server of this name is gone, whatever its lease says.
        self.delete().await;
        let mut wait = RETRY.0;
        loop {
            match self.renew().await {
                Ok(()) => {
                    wait = RETRY.0;
                    self.client.clock().sleep(RENEW_INTERVAL).await;
                }
                Err(error) => {
                    tracing::error!(%error, lease = self.name, "Will retry updating lease");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RETRY.1);
                }
            }
        }
    }

    async fn renew(&self) -> Result<(), StatusError> {
        let _writing = self.writing.lock().await;
        let path = format!("{LEASES}/{}", self.name);
        match self.client.get(&path).await {
            Ok(lease) => self.client.update(&path, &self.lease(lease)).await.map(drop),
            Err(error) if error.reason() == reason::NOT_FOUND => {
                // The first of all servers may come to this before its namespaces are made.
                system_namespaces::ensure(&self.client, NAMESPACE).await?;
                self.client.create(LEASES, &self.lease(Map::new().into())).await.map(drop)
            }
            Err(error) => Err(error),
        }
    }

    async fn delete(&self) {
        let path = format!("{LEASES}/{}", self.name);
        let late = Err(StatusError::timeout("context deadline exceeded", 0));
        let ended = tokio::time::timeout(DELETE, self.client.delete(&path)).await.unwrap_or(late);
        if let Some(error) = ended.err().filter(|error| error.reason() != reason::NOT_FOUND) {
            tracing::error!(%error, lease = self.name, "Unable to delete lease");
        }
    }

    /// The lease as it should be now, out of how it is.
    fn lease(&self, mut lease: Value) -> Value {
        lease.make_map(&["metadata"]).insert("name", self.name.as_str().into());
        let labels = lease.make_map(&["metadata", "labels"]);
        labels.insert(LABEL, SERVER.into());
        labels.insert("kubernetes.io/hostname", self.hostname.as_str().into());
        if let Some(address) = &self.peer_address {
            let annotations = lease.make_map(&["metadata", "annotations"]);
            annotations.insert(PEER_ADDRESS, address.as_str().into());
        }
        let spec = lease.make_map(&["spec"]);
        spec.insert("holderIdentity", self.holder.as_str().into());
        spec.insert("leaseDurationSeconds", LEASE_SECONDS.into());
        spec.insert("renewTime", MicroTime::now(self.client.clock()).to_string().as_str().into());
        lease
    }
}

/// Deletes the leases of servers that have not renewed them.
pub async fn collect_identity_leases(client: Client) {
    loop {
        if let Err(error) = collect(&client).await {
            tracing::error!(%error, "Error while collecting apiserver leases");
        }
        client.clock().sleep(COLLECT_INTERVAL).await;
    }
}

async fn collect(client: &Client) -> Result<(), StatusError> {
    let expired = |lease: &Value| has_expired(lease, MicroTime::now(client.clock()));
    let leases = client.get(&format!("{LEASES}?labelSelector={LABEL}%3D{SERVER}")).await?;
    for lease in leases.list_at(&["items"]).iter().filter(|lease| expired(lease)) {
        let path = format!("{LEASES}/{}", lease.str_at(&["metadata", "name"]));
        match client.get(&path).await {
            Ok(lease) if expired(&lease) => client.delete(&path).await.map(drop)?,
            Err(error) if error.reason() != reason::NOT_FOUND => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a lease is no more, or never was.
fn has_expired(lease: &Value, now: MicroTime) -> bool {
    let renewed = lease.str_at(&["spec", "renewTime"]).parse::<MicroTime>();
    let seconds = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_int);
    match (renewed, seconds) {
        (Ok(renewed), Some(seconds)) => renewed.plus_seconds(seconds) < now,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_expire() {
        let lease = |renewed: &str, seconds: Option<i64>| {
            let mut lease = Value::from(Map::new());
            let spec = lease.make_map(&["spec"]);
            spec.insert("renewTime", renewed.into());
            seconds.map(|seconds| spec.insert("leaseDurationSeconds", seconds.into()));
            lease
        };
        let present = MicroTime::now(&kevel_clock::Clock::system());
        let now = present.to_string();
        for (renewed, seconds, expired) in [
            (now.as_str(), Some(3600), false),
            (now.as_str(), Some(-1), true),
            ("2020-01-01T00:00:00.000000Z", Some(3600), true),
            (now.as_str(), None, true),
            ("", Some(3600), true),
        ] {
            assert_eq!(
                has_expired(&lease(renewed, seconds), present),
                expired,
                "{renewed} {seconds:?}"
            );
        }
    }
}
