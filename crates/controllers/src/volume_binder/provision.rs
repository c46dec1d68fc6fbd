//! Provisioning of volumes by an external provisioner.

use kevel_api::value::Value;

use super::Binder;
use super::facts::{BETA_PROVISIONER, PROVISIONER, annotation, class_of};
use crate::reconcile_error::ReconcileError;
use crate::recorder::EventKind;

/// Provisioners of former in-tree plug-ins, and the CSI drivers that do their work.
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];
/// Prefix of in-tree plug-ins.
const IN_TREE: &str = "kubernetes.io/";

impl Binder {
    /// Asks the provisioner of a claim's class for a volume: by annotations of the claim.
    pub(super) async fn provision(
        &self,
        claim: &Value,
        class: Option<&Value>,
    ) -> Result<(), ReconcileError> {
        let Some(class) = class else {
            let message = format!("storageclass.storage.k8s.io {:?} not found", class_of(claim));
            self.tell_failed(claim, &message).await;
            return Ok(());
        };
        let provisioner = class.str_at(&["provisioner"]);
        let migrated = MIGRATED.iter().find(|(in_tree, _)| *in_tree == provisioner);
        let provisioner = match migrated {
            Some((_, driver)) => *driver,
            None if provisioner.starts_with(IN_TREE) => {
                self.tell_failed(claim, &format!("no volume plugin matched name: {provisioner}"))
                    .await;
                return Ok(());
            }
            None => provisioner,
        };
        if annotation(claim, PROVISIONER) != Some(provisioner) {
            let mut claim = claim.clone();
            let annotations = claim.make_map(&["metadata", "annotations"]);
            annotations.insert(BETA_PROVISIONER, provisioner.into());
            annotations.insert(PROVISIONER, provisioner.into());
            if let Err(error) = self.write_claim(&claim, "").await {
                self.tell_failed(&claim, &format!("Error saving claim: {error}")).await;
                return Err(error);
            }
        }
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or \
             manually by the system administrator. If volume creation is delayed, please verify that \
             the provisioner is running and correctly registered.",
        );
        self.tell_claim(claim, EventKind::Normal, "ExternalProvisioning", &message).await;
        Ok(())
    }

    async fn tell_failed(&self, claim: &Value, message: &str) {
        self.tell_claim(claim, EventKind::Warning, "ProvisioningFailed", message).await;
    }
}
