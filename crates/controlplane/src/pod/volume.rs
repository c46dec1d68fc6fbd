//! Validation of a pod's volumes.

use std::collections::{HashMap, HashSet};

use kevel_api::name;
use kevel_api::value::Value;

use super::Options;
use super::container::pull_policy;
use super::downward_api;
use super::projected_volume;
use super::volume_source as source;
use crate::persistent_volume_claim;
use crate::validation::Field;

/// A volume source: field, name in the error about a second source, name in paths otherwise, and check.
type VolumeSource = (&'static str, &'static str, &'static str, fn(Field, &Options));

/// Volume sources, in the order in which they are checked.
const SOURCES: &[VolumeSource] = &[
    ("hostPath", "hostPath", "hostPath", |f, _| source::host_path(f)),
    ("gitRepo", "gitRepo", "gitRepo", |f, _| source::git_repo(f)),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", |f, _| {
        source::gce_persistent_disk(f);
    }),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |f, _| {
        source::aws_elastic_block_store(f);
    }),
    ("secret", "secret", "secret", |f, _| source::keys(f, "secretName")),
    ("nfs", "nfs", "nfs", |f, _| source::nfs(f)),
    ("iscsi", "iscsi", "iscsi", |f, _| source::iscsi(f)),
    ("glusterfs", "glusterfs", "glusterfs", |f, _| source::glusterfs(f)),
    ("flocker", "flocker", "flocker", |f, _| source::flocker(f)),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", |f, _| {
        f.at("claimName").must("");
    }),
    ("rbd", "rbd", "rbd", |f, _| source::rbd(f)),
    ("cinder", "cinder", "cinder", |f, _| source::cinder(f)),
    ("cephfs", "cephFS", "cephfs", |f, _| {
        f.at("monitors").must("");
    }),
    ("quobyte", "quobyte", "quobyte", |f, _| source::quobyte(f)),
    ("downwardAPI", "downwarAPI", "downwardAPI", |f, _| downward_api::volume(f)),
    ("fc", "fc", "fc", |f, _| source::fc(f)),
    ("flexVolume", "flexVolume", "flexVolume", |f, _| source::flex_volume(f)),
    ("configMap", "configMap", "configMap", |f, _| source::keys(f, "name")),
    ("azureFile", "azureFile", "azureFile", |f, _| source::azure_file(f)),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |f, _| {
        f.at("volumePath").must("");
    }),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |f, _| {
        f.at("pdID").must("");
    }),
    ("portworxVolume", "portworxVolume", "portworxVolume", |f, _| {
        f.at("volumeID").must("");
    }),
    ("azureDisk", "azureDisk", "azureDisk", |f, _| source::azure_disk(f)),
    ("storageos", "storageos", "storageos", |f, _| source::storage_os(f)),
    ("projected", "projected", "projected", projected_volume::check),
    ("scaleIO", "scaleIO", "scaleIO", |f, _| source::scale_io(f)),
    ("csi", "csi", "csi", |f, _| source::csi(f)),
    ("ephemeral", "ephemeral", "ephemeral", |f, _| ephemeral(f)),
    ("image", "image", "image", image),
];

/// Valid volumes by name.
#[derive(Default)]
pub struct Volumes<'v>(HashMap<&'v str, &'v Value>);

impl<'v> Volumes<'v> {
    pub fn get(&self, name: &str) -> Option<&'v Value> {
        self.0.get(name).copied()
    }
}

/// Checks the volumes of a pod; `pod` is its name, empty if it is still to be generated.
pub fn check<'v>(volumes: Field<'v, '_>, pod: &str, options: &Options) -> Volumes<'v> {
    let mut good = Volumes::default();
    let ephemeral = volumes.list().iter().filter(|volume| volume.at(&["ephemeral"]).is_some());
    let ephemeral: HashSet<&str> = ephemeral.map(|volume| volume.str_at(&["name"])).collect();
    let claimed = |name: &str| {
        let name = name.strip_prefix(pod).and_then(|rest| rest.strip_prefix('-'));
        !pod.is_empty() && name.is_some_and(|name| ephemeral.contains(name))
    };
    for volume in volumes.items() {
        let name = volume.at("name");
        let before = name.found();
        check_source(volume, pod, options);
        name.must_form("", name::is_dns1123_label);
        if good.get(name.str()).is_some() {
            name.duplicate();
        }
        if name.found() == before {
            good.0.extend(volume.get().map(|value| (name.str(), value)));
        }
        let claim = volume.at("persistentVolumeClaim");
        if claim.is_set() && claimed(claim.at("claimName").str()) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            claim.at("claimName").invalid(why);
        }
    }
    good
}

fn check_source(volume: Field, pod: &str, options: &Options) {
    let empty_dir = volume.at("emptyDir");
    let mut found = empty_dir.is_set();
    if empty_dir.at("sizeLimit").quantity().is_some_and(|size| size.signum() < 0) {
        let why = "SizeLimit field must be a valid resource quantity";
        empty_dir.at("sizeLimit").forbidden(why);
    }
    for (name, second, first, check) in SOURCES {
        let source = volume.at(name);
        if source.is_absent() {
            continue;
        }
        if found {
            volume.at(second).forbidden("may not specify more than 1 volume type");
        } else {
            let called = volume.at(first);
            check(called.with(source.get()), options);
            if *name == "ephemeral" {
                claim_name(volume, pod);
            }
        }
        found = true;
        if *name == "iscsi" && source.at("initiatorName").is_set() {
            source::initiator_fits(volume.at("name"), source.at("targetPortal").len());
        }
    }
    if !found {
        volume.required("must specify a volume type");
    }
}

fn ephemeral(source: Field) {
    let template = source.at("volumeClaimTemplate");
    match template.is_set() {
        true => persistent_volume_claim::template(template),
        false => template.required(""),
    }
}

/// Checks the name of an ephemeral volume's claim, which is composed of the names of pod and volume.
fn claim_name(volume: Field, pod: &str) {
    let volume = volume.at("name");
    if pod.is_empty() || volume.is_empty() {
        return;
    }
    let claim = format!("{pod}-{}", volume.str());
    for problem in name::name_is_dns_subdomain(&claim, false) {
        volume.invalid(format!("PVC name {claim:?}: {problem}"));
    }
}

fn image(source: Field, options: &Options) {
    if options.is_pod {
        source.at("reference").must("");
    }
    pull_policy(source.at("pullPolicy"));
}
