//! ConfigMap `kube-root-ca.crt` of every namespace: the CA bundle by which pods verify the server.

use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, run};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::service_account::is_terminating;
use crate::unavailable::Unavailable;

const CONFIG_MAP: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const ANNOTATION: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "CA bundle to verify the API server at its internal addresses, such as \
                           kubernetes.default.svc.";

struct Publisher {
    client: Client,
    namespaces: CacheLister,
    config_maps: CacheLister,
    root_ca: String,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let this = Arc::new(Publisher {
        client: context.client("root-ca-cert-publisher"),
        namespaces: CacheLister::new(context.storage("", "namespaces")?),
        config_maps: CacheLister::new(context.storage("", "configmaps")?),
        root_ca: context.root_ca()?,
    });
    let queue = context.queue("root_ca_cert_publisher", Backoff::default());
    let heard = queue.clone();
    let config_maps = this.config_maps.informer().for_each(move |config_map| {
        if config_map.name() == CONFIG_MAP {
            heard.add(config_map.namespace());
        }
    });
    let heard = queue.clone();
    let namespaces =
        this.namespaces.informer().for_each(move |namespace| heard.add(namespace.name()));
    let reconcile = move |namespace: String| {
        let this = this.clone();
        async move { this.reconcile(&namespace).await }
    };
    let name = "root-ca-certificate-publisher-controller";
    Ok(Box::pin(async move {
        tokio::join!(config_maps, namespaces, run(queue, name, 1, reconcile));
    }))
}

impl Publisher {
    async fn reconcile(&self, name: &str) -> Result<(), StatusError> {
        let Some(namespace) = self.namespaces.get("", name)? else { return Ok(()) };
        if namespace.str_at(&["status", "phase"]) != "Active" {
            return Ok(());
        }
        let data = Map::from_iter([(KEY, Value::from(self.root_ca.as_str()))]);
        let Some(mut found) = self.config_maps.get(name, CONFIG_MAP)? else {
            return self.create(name, data).await;
        };
        let described = !found.str_at(&["metadata", "annotations", ANNOTATION]).is_empty();
        if described && found.at(&["data"]).and_then(Value::as_map) == Some(&data) {
            return Ok(());
        }
        *found.make_map(&["data"]) = data;
        found.make_map(&["metadata", "annotations"]).insert(ANNOTATION, DESCRIPTION.into());
        let path = format!("/api/v1/namespaces/{name}/configmaps/{CONFIG_MAP}");
        self.client.update(&path, &found).await.map(drop)
    }

    async fn create(&self, namespace: &str, data: Map) -> Result<(), StatusError> {
        let annotations = Map::from_iter([(ANNOTATION, Value::from(DESCRIPTION))]);
        let metadata = Map::from_iter([
            ("name", Value::from(CONFIG_MAP)),
            ("annotations", annotations.into()),
        ]);
        let config_map = Map::from_iter([("metadata", metadata.into()), ("data", data.into())]);
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        match self.client.create(&path, &config_map.into()).await {
            Err(error) if error.reason() == reason::NOT_FOUND || is_terminating(&error) => Ok(()),
            created => created.map(drop),
        }
    }
}
