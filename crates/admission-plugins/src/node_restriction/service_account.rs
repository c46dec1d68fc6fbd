//! Service accounts: a node asks for tokens of its own pods' accounts, for those that they name.

use kevel_api::field_error::aggregate;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_registry::admission::Operation;
use kevel_registry::selectors::NO_SELECTORS;
use kevel_server::authorization::{Attributes, Decision};

use super::pod::runs_on;
use super::{NodeRestriction, Write, find};

/// The CSI drivers that took over volumes which once were built in.
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

impl NodeRestriction {
    pub(super) async fn service_account(
        &self,
        node: &str,
        write: &Write<'_>,
    ) -> Result<(), StatusError> {
        let attributes = write.attributes;
        if attributes.operation != Operation::Create || attributes.subresource != "token" {
            return Ok(());
        }
        let bound = |field| write.object().str_at(&["spec", "boundObjectRef", field]);
        let name = bound("name");
        if (bound("apiVersion"), bound("kind")) != ("v1", "Pod") || name.is_empty() {
            return write.forbid("node requested token not bound to a pod");
        }
        let uid = bound("uid");
        if uid.is_empty() {
            return write.forbid("node requested token with a pod binding without a uid");
        }
        let pod = find(&self.pods, "", "pod", attributes.namespace, name).await?;
        if uid != pod.str_at(&["metadata", "uid"]) {
            return write.forbid(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            ));
        }
        if !runs_on(&pod, node) {
            let error = "node requested token bound to a pod scheduled on a different node";
            return write.forbid(error);
        }
        if self.features.audience_restriction {
            self.audience(write, &pod).await.map_err(|error| write.forbidden(error))?;
        }
        Ok(())
    }

    /// Checks that the pod names the token's audience or the authorizer allows it.
    async fn audience(&self, write: &Write<'_>, pod: &Value) -> Result<(), String> {
        let audiences = write.object().at(&["spec", "audiences"]).and_then(Value::as_list);
        let audience = match audiences.unwrap_or_default() {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return Err("node may only request 0 or 1 audiences".to_owned()),
        };
        let quoted = quote(audience);
        let named = self.names_audience(pod, audience).await;
        if named.map_err(|error| format!("error validating audience {quoted}: {error}"))? {
            return Ok(());
        }
        let user = write.attributes.user;
        let asked = Attributes {
            user,
            verb: "request-serviceaccounts-token-audience",
            is_resource: true,
            path: "",
            group: "",
            version: "v1",
            namespace: write.attributes.namespace,
            resource: audience,
            subresource: "",
            name: write.attributes.name,
            selectors: &NO_SELECTORS,
        };
        let opinion = self.authorizer.authorize(&asked).await;
        let user = &user.name;
        match (opinion.decision, opinion.error) {
            (Decision::Allow, _) => Ok(()),
            (_, Some(error)) => Err(format!(
                "audience {quoted} not found in pod spec volume, error authorizing {user} to \
                 request tokens for this audience: {error}"
            )),
            (_, None) => Err(format!(
                "audience {quoted} not found in pod spec volume, {user} is not authorized to \
                 request tokens for this audience"
            )),
        }
    }

    async fn names_audience(&self, pod: &Value, audience: &str) -> Result<bool, String> {
        let namespace = pod.str_at(&["metadata", "namespace"]);
        let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
        let mut errors = Vec::new();
        for volume in volumes {
            let sources = volume.at(&["projected", "sources"]).and_then(Value::as_list);
            let tokens = sources.unwrap_or_default().iter();
            let mut tokens = tokens.filter_map(|source| source.at(&["serviceAccountToken"]));
            if tokens.any(|token| token.str_at(&["audience"]) == audience) {
                return Ok(true);
            }
            let ephemeral = volume.at(&["ephemeral", "volumeClaimTemplate"]).is_some();
            let claim = match volume.at(&["persistentVolumeClaim"]) {
                _ if ephemeral => {
                    let (pod, volume) =
                        (pod.str_at(&["metadata", "name"]), volume.str_at(&["name"]));
                    Some(format!("{pod}-{volume}"))
                }
                Some(claim) => Some(claim.str_at(&["claimName"]).to_owned()),
                None => None,
            };
            let driver = match claim {
                Some(claim) => self.driver_of_claim(namespace, &claim).await,
                None => Ok(driver_of(volume)),
            };
            let asked = match driver {
                Ok(Some(driver)) => self.driver_asks(&driver, audience).await,
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            match asked {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => errors.push(error.to_string()),
            }
        }
        aggregate(errors).map_or(Ok(false), Err)
    }

    async fn driver_of_claim(
        &self,
        namespace: &str,
        claim: &str,
    ) -> Result<Option<String>, StatusError> {
        let kind = "persistentvolumeclaim";
        let claim = find(&self.volume_claims, "", kind, namespace, claim).await?;
        let volume = claim.str_at(&["spec", "volumeName"]);
        let volume = find(&self.volumes, "", "persistentvolume", "", volume).await?;
        Ok(volume.at(&["spec"]).and_then(driver_of))
    }

    async fn driver_asks(&self, driver: &str, audience: &str) -> Result<bool, StatusError> {
        let Some(drivers) = &self.csi_drivers else { return Ok(false) };
        let driver = find(drivers, "storage.k8s.io", "csidriver", "", driver).await?;
        let requests = driver.at(&["spec", "tokenRequests"]).and_then(Value::as_list);
        let mut requests = requests.unwrap_or_default().iter();
        Ok(requests.any(|request| request.str_at(&["audience"]) == audience))
    }
}

/// The driver of a volume, or of a persistent volume's spec.
fn driver_of(volume: &Value) -> Option<String> {
    if let Some(csi) = volume.at(&["csi"]) {
        return Some(csi.str_at(&["driver"]).to_owned()).filter(|driver| !driver.is_empty());
    }
    let migrated = MIGRATED.into_iter().find(|(source, _)| volume.at(&[source]).is_some());
    migrated.map(|(_, driver)| driver.to_owned())
}
