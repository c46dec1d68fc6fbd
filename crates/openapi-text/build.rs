//! Takes the descriptions of types and fields out of the `k8s-openapi` crate's schemas.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Asks for the schema of each type, and so for those of all types that it refers to.
macro_rules! ask {
    ($generator:ident: $($($module:ident)::+::{$($name:ident),+},)+) => {
        $(ask!(@ $generator, [$($module)::+], $($name),+);)+
    };
    (@ $generator:ident, [$($module:tt)+], $($name:ident),+) => {{
        use k8s_openapi::$($module)+ as home;
        $($generator.subschema_for::<home::$name>();)+
    }};
}

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let mut generator = SchemaSettings::draft07().into_generator();
    ask(&mut generator);
    let mut texts: BTreeMap<String, &str> = BTreeMap::new();
    for (name, schema) in generator.definitions() {
        if let Some(description) = schema.get("description").and_then(Value::as_str) {
            texts.insert(name.clone(), description);
        }
        let fields = schema.get("properties").and_then(Value::as_object);
        for (field, schema) in fields.into_iter().flatten() {
            if let Some(description) = schema.get("description").and_then(Value::as_str) {
                texts.insert(format!("{name}#{field}"), description);
            }
        }
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(blob(&texts).as_bytes())?;
    let out = env::var("OUT_DIR").map_err(std::io::Error::other)?;
    fs::write(format!("{out}/texts.deflate"), encoder.finish()?)
}

/// Every text once, then every name with the number of its text, as lines of two parts.
fn blob(texts: &BTreeMap<String, &str>) -> String {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut once = Vec::new();
    for text in texts.values() {
        numbers.entry(text).or_insert_with(|| {
            once.push(*text);
            once.len() - 1
        });
    }
    let names = texts.iter().map(|(name, text)| format!("{name}\0{}", numbers[text]));
    let names: Vec<String> = names.collect();
    format!("{}\u{1}{}", once.join("\0"), names.join("\0"))
}

#[rustfmt::skip]
fn ask(generator: &mut SchemaGenerator) {
    ask!(generator:
        api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration},
        api::admissionregistration::v1alpha1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding},
        api::admissionregistration::v1beta1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding},
        api::apiserverinternal::v1alpha1::{StorageVersion},
        api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
        api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenReview},
        api::authorization::v1::{LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview},
        api::autoscaling::v1::{HorizontalPodAutoscaler, Scale},
        api::autoscaling::v2::{HorizontalPodAutoscaler},
        api::batch::v1::{CronJob, Job},
        api::certificates::v1::{CertificateSigningRequest},
        api::certificates::v1alpha1::{ClusterTrustBundle},
        api::certificates::v1beta1::{ClusterTrustBundle, PodCertificateRequest},
        api::coordination::v1::{Lease},
        api::coordination::v1alpha2::{LeaseCandidate},
        api::coordination::v1beta1::{LeaseCandidate},
        api::core::v1::{Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount},
        api::discovery::v1::{EndpointSlice},
        api::events::v1::{Event},
        api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration},
        api::networking::v1::{IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR},
        api::networking::v1beta1::{IPAddress, ServiceCIDR},
        api::node::v1::{RuntimeClass},
        api::policy::v1::{Eviction, PodDisruptionBudget},
        api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
        api::resource::v1alpha3::{DeviceTaintRule, ResourcePoolStatusRequest},
        api::resource::v1beta1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
        api::resource::v1beta2::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
        api::scheduling::v1::{PriorityClass},
        api::scheduling::v1alpha2::{PodGroup, Workload},
        api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass},
        api::storage::v1beta1::{VolumeAttributesClass},
        api::storagemigration::v1beta1::{StorageVersionMigration},
        apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition},
        apimachinery::pkg::apis::meta::v1::{APIGroup, APIGroupList, APIResourceList, APIVersions, DeleteOptions, Status},
        apimachinery::pkg::version::{Info},
        kube_aggregator::pkg::apis::apiregistration::v1::{APIService},
    );
}
