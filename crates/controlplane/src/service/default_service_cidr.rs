//! Controller of the ServiceCIDR `kubernetes`, which has the networks of `--service-cluster-ip-range`.

use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::Client;

const PATH: &str = "/apis/networking.k8s.io/v1/servicecidrs";
/// Name of the default ServiceCIDR.
const NAME: &str = "kubernetes";
const MANAGER: &str = "kubernetes-service-cidr-controller";
/// Interval between checks.
const INTERVAL: Duration = Duration::from_secs(10);
/// Delay between attempts at start: the server is not ready until the first one succeeds.
const RETRY: Duration = Duration::from_millis(100);

/// Controller of the default ServiceCIDR.
#[derive(Clone, Debug)]
pub struct DefaultServiceCidr {
    client: Client,
    cidrs: Vec<String>,
}

impl DefaultServiceCidr {
    /// Controller for one network or two; the first is of the primary IP family.
    pub fn new(client: Client, cidrs: Vec<String>) -> Self {
        DefaultServiceCidr { client, cidrs }
    }

    /// Creates the default ServiceCIDR if it does not exist; returns when it exists.
    pub async fn ensure(&self) {
        while let Err(error) = self.sync().await {
            tracing::error!(%error, "error initializing the default ServiceCIDR");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Repeats the check at every `INTERVAL`; never returns.
    pub async fn keep(self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.sync().await {
                tracing::error!(%error, "error trying to sync the default ServiceCIDR");
            }
        }
    }

    async fn sync(&self) -> Result<(), StatusError> {
        let there = match self.client.get(&format!("{PATH}/{NAME}")).await {
            Ok(there) => there,
            Err(error) if error.reason() == reason::NOT_FOUND => {
                match self.client.create(PATH, &self.object(None)).await {
                    Err(error) if error.reason() == reason::ALREADY_EXISTS => return Ok(()),
                    created => created?,
                }
            }
            Err(error) => return Err(error),
        };
        let cidrs = texts(&there);
        if let ([only], [first, _]) = (&cidrs[..], &self.cidrs[..])
            && only == first
        {
            let version = there.str_at(&["metadata", "resourceVersion"]);
            let (path, both) = (format!("{PATH}/{NAME}"), self.object(Some(version)));
            if let Err(error) = self.client.update(&path, &both).await {
                tracing::error!(%error, "the default ServiceCIDR can not be updated to dual stack");
            }
            return Ok(());
        }
        if cidrs == self.cidrs && is_new(&there) {
            self.mark_ready().await;
        }
        Ok(())
    }

    async fn mark_ready(&self) {
        let condition = Map::from_iter([
            ("type", Value::from("Ready")),
            ("status", Value::from("True")),
            ("message", Value::from("Kubernetes default Service CIDR is ready")),
            (
                "lastTransitionTime",
                Value::from(Time::now(self.client.clock()).to_string().as_str()),
            ),
        ]);
        let conditions = Value::List([Value::Map(condition)].into_iter().collect());
        let status = Map::from_iter([("conditions", conditions)]);
        let mut object = self.object(None);
        if let Some(object) = object.as_map_mut() {
            object.remove("spec");
            object.insert("status", status.into());
        }
        let path = format!("{PATH}/{NAME}/status");
        if let Err(error) = self.client.apply(&path, &object, MANAGER).await {
            tracing::error!(%error, "error updating default ServiceCIDR status");
        }
    }

    fn object(&self, version: Option<&str>) -> Value {
        let mut metadata = Map::from_iter([("name", Value::from(NAME))]);
        if let Some(version) = version {
            metadata.insert("resourceVersion", version.into());
        }
        let cidrs = self.cidrs.iter().map(|cidr| Value::from(cidr.as_str())).collect();
        let spec = Map::from_iter([("cidrs", Value::List(cidrs))]);
        Value::Map(Map::from_iter([
            ("apiVersion", Value::from("networking.k8s.io/v1")),
            ("kind", Value::from("ServiceCIDR")),
            ("metadata", Value::Map(metadata)),
            ("spec", Value::Map(spec)),
        ]))
    }
}

/// True if the ServiceCIDR is not being deleted and has no Ready condition, or an Unknown one. Conditions set by
/// others are left alone.
fn is_new(cidr: &Value) -> bool {
    let conditions = cidr.at(&["status", "conditions"]).and_then(Value::as_list);
    let mut conditions = conditions.unwrap_or_default().iter();
    let ready = conditions.find(|condition| condition.str_at(&["type"]) == "Ready");
    cidr.str_at(&["metadata", "deletionTimestamp"]).is_empty()
        && ready.is_none_or(|ready| ready.str_at(&["status"]) == "Unknown")
}

fn texts(cidr: &Value) -> Vec<String> {
    let list = cidr.at(&["spec", "cidrs"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
