//! ClusterTrustBundle of the signer `kubernetes.io/kube-apiserver-serving`: the CA bundle by which clients verify the
//! server.

use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, run};
use kevel_server::config_file::sha256;

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::{name, texts, unless_gone};
use crate::unavailable::Unavailable;

const NAME: &str = "kube-apiserver-serving-clustertrustbundle-publisher-controller";
const ACCOUNT: &str = "kube-apiserver-serving-clustertrustbundle-publisher";
const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "clustertrustbundles";
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// Versions of the API, the best first.
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
/// Digits of the bundle's hash in the name of its object: twelve bytes.
const DIGITS: usize = 24;
/// Only key of the queue.
const KEY: &str = "bundle";

struct BundlePublisher {
    client: Client,
    bundles: CacheLister,
    root_ca: String,
    /// Path of the bundles.
    path: String,
    /// Name of the bundle that there should be.
    name: String,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let root_ca = context.root_ca()?;
    let is_served = |version: &&&str| {
        let tables = context.tables().iter();
        tables.into_iter().any(|table| table.current().get(GROUP, version, PLURAL).is_some())
    };
    let missing = Unavailable::NotServed { group: GROUP, plural: PLURAL };
    let version = VERSIONS.iter().find(is_served).ok_or(missing)?;
    let this = Arc::new(BundlePublisher {
        client: context.client(ACCOUNT),
        bundles: CacheLister::new(context.storage(GROUP, PLURAL)?),
        path: format!("/apis/{GROUP}/{version}/{PLURAL}"),
        name: bundle_name(&root_ca),
        root_ca,
    });
    let queue = context.queue("ca_cert_publisher_cluster_trust_bundles", Backoff::default());
    // Also where there is no bundle yet.
    queue.add(KEY);
    let heard = queue.clone();
    let informer = this.bundles.informer().for_each(move |_| heard.add(KEY));
    let reconcile = move |_| {
        let this = this.clone();
        async move { this.reconcile().await }
    };
    Ok(Box::pin(async move {
        tokio::join!(informer, run(queue, NAME, 1, reconcile));
    }))
}

fn bundle_name(root_ca: &str) -> String {
    let hash = sha256(root_ca.as_bytes());
    let digits = hash.trim_start_matches("sha256:").chars().take(DIGITS);
    format!("{}:{}", SIGNER.replace('/', ":"), digits.collect::<String>())
}

impl BundlePublisher {
    async fn reconcile(&self) -> Result<(), StatusError> {
        let mut own = None;
        let mut others = Vec::new();
        for bundle in self.bundles.fresh_snapshot().await?.range("", None) {
            kevel_compute::charge(1);
            let bundle = self.bundles.tree(bundle)?;
            if bundle.str_at(&["spec", "signerName"]) != SIGNER {
                continue;
            }
            if name(&bundle) == self.name {
                own = Some(bundle);
            } else {
                others.push(name(&bundle).to_owned());
            }
        }
        match own {
            None => self.create().await?,
            Some(mut own) if own.str_at(&["spec", "trustBundle"]) != self.root_ca => {
                own.make_map(&["spec"]).insert("trustBundle", self.root_ca.as_str().into());
                self.client.update(&format!("{}/{}", self.path, self.name), &own).await?;
            }
            Some(_) => {}
        }
        // Of the CAs that the server had before.
        for other in others {
            unless_gone(self.client.delete(&format!("{}/{other}", self.path)).await)?;
        }
        Ok(())
    }

    async fn create(&self) -> Result<(), StatusError> {
        let spec = texts([("signerName", SIGNER), ("trustBundle", &self.root_ca)]);
        let metadata = texts([("name", &self.name)]);
        let bundle = Map::from_iter([("metadata", Value::Map(metadata)), ("spec", spec.into())]);
        match self.client.create(&self.path, &bundle.into()).await {
            Err(error) if error.reason() == reason::ALREADY_EXISTS => Ok(()),
            created => created.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn name_of_a_bundle_has_its_hash() {
        let name = "kubernetes.io:kube-apiserver-serving:ba7816bf8f01cfea414140de";
        assert_eq!(super::bundle_name("abc"), name);
    }
}
