//! Entries of StorageVersions whose server has no identity Lease any more.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_controlplane::set_common_encoding_version;
use kevel_store::cache::{At, Object, Snapshot};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::unless_gone;
use crate::unavailable::Unavailable;

const NAME: &str = "storageversion-garbage-collector-controller";
const ACCOUNT: &str = "storage-version-garbage-collector";
const GROUP: &str = "internal.apiserver.k8s.io";
const VERSIONS: &str = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";
/// Namespace of identity Leases, and the label that makes a Lease one.
const LEASES: &str = "kube-system";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const SERVER: &str = "kube-apiserver";

struct EntryCollector {
    client: Client,
    leases: CacheLister,
    versions: CacheLister,
    queue: Arc<WorkQueue>,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue =
        context.queue("storage_version_garbage_collector_storageversions", Backoff::default());
    let this = Arc::new(EntryCollector {
        client: context.client(ACCOUNT),
        leases: CacheLister::new(context.storage("coordination.k8s.io", "leases")?),
        versions: CacheLister::new(context.storage(GROUP, "storageversions")?),
        queue: queue.clone(),
    });
    let heard = this.clone();
    let versions = this.versions.informer().for_each(move |version| heard.hear(version));
    let heard = this.clone();
    let leases = this.leases.informer().run(move |event| heard.hear_lease(&event));
    let reconcile = move |name: String| {
        let this = this.clone();
        async move { this.reconcile(&name).await }
    };
    Ok(Box::pin(async move {
        tokio::join!(versions, leases, run(queue, NAME, 1, reconcile));
    }))
}

/// Whether an object is the identity of a server.
fn is_identity(lease: &Value) -> bool {
    lease.str_at(&["metadata", "labels", LABEL]) == SERVER
}

impl EntryCollector {
    /// Queues a StorageVersion with an entry of a server that has no Lease.
    fn hear(&self, version: &Object) {
        let Ok(found) = self.versions.tree(version) else { return };
        let leases = self.leases.snapshot();
        let servers = found.list_at(&["status", "storageVersions"]).iter();
        if servers.into_iter().any(|server| !self.lives(&leases, server)) {
            self.queue.add(version.name());
        }
    }

    fn hear_lease(&self, event: &InformerEvent<'_>) {
        let concerns = match *event {
            InformerEvent::Delete(lease) => {
                lease.namespace() == LEASES
                    && self.leases.tree(lease).is_ok_and(|l| is_identity(&l))
            }
            InformerEvent::Init | InformerEvent::Apply(..) => false,
            // Leases may have gone unheard.
            InformerEvent::InitDone => true,
        };
        if concerns {
            self.versions.snapshot().range("", None).for_each(|version| self.hear(version));
        }
    }

    /// Whether the server of an entry has an identity Lease.
    fn lives(&self, leases: &Snapshot, server: &Value) -> bool {
        let key = format!("{LEASES}/{}", server.str_at(&["apiServerID"]));
        let lease = leases.get(&key).and_then(|lease| self.leases.tree(lease).ok());
        lease.is_some_and(|lease| is_identity(&lease))
    }

    async fn reconcile(&self, name: &str) -> Result<(), StatusError> {
        let leases = self.leases.snapshot_at(At::Consistent).await?;
        let Some(mut version) = self.versions.get_now("", name).await? else { return Ok(()) };
        let servers = version.make_list(&["status"], "storageVersions");
        let before = servers.len();
        servers.retain(|server| self.lives(&leases, server));
        let left = servers.len();
        if left == before {
            return Ok(());
        }
        let path = format!("{VERSIONS}/{name}");
        if left == 0 {
            return unless_gone(self.client.delete(&path).await).map(drop);
        }
        set_common_encoding_version(&mut version, Time::now(self.client.clock()));
        unless_gone(self.client.update(&format!("{path}/status"), &version).await).map(drop)
    }
}
