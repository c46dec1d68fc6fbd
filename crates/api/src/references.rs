//! References of pods and volumes to other objects.

use crate::value::Value;

/// Secret references in a pod's volume: source, and path to the name.
const VOLUME_SECRETS: [(&str, &[&str]); 10] = [
    ("azureFile", &["secretName"]),
    ("cephfs", &["secretRef", "name"]),
    ("cinder", &["secretRef", "name"]),
    ("flexVolume", &["secretRef", "name"]),
    ("rbd", &["secretRef", "name"]),
    ("secret", &["secretName"]),
    ("scaleIO", &["secretRef", "name"]),
    ("iscsi", &["secretRef", "name"]),
    ("storageos", &["secretRef", "name"]),
    ("csi", &["nodePublishSecretRef", "name"]),
];

/// Secret references in a persistent volume that the kubelet needs, and whether the namespace defaults to that of the
/// claim.
const PERSISTENT_VOLUME_SECRETS: [(&str, &str, bool); 10] = [
    ("cephfs", "secretRef", true),
    ("cinder", "secretRef", false),
    ("flexVolume", "secretRef", true),
    ("rbd", "secretRef", true),
    ("scaleIO", "secretRef", true),
    ("iscsi", "secretRef", true),
    ("storageos", "secretRef", false),
    ("csi", "nodePublishSecretRef", false),
    ("csi", "nodeStageSecretRef", false),
    ("csi", "nodeExpandSecretRef", false),
];

/// Names of the secrets that a pod refers to, possibly repeated.
pub fn pod_secrets(pod: &Value) -> Vec<&str> {
    let pull = list(pod, &["spec", "imagePullSecrets"]).iter();
    let mut names: Vec<&str> = pull.map(|secret| secret.str_at(&["name"])).collect();
    names.extend(in_containers(pod, "secretRef", "secretKeyRef"));
    for volume in list(pod, &["spec", "volumes"]) {
        let own = VOLUME_SECRETS.iter().filter_map(|(source, path)| volume.at(&[source])?.at(path));
        names.extend(own.filter_map(Value::as_str));
        names.extend(projected(volume, "secret"));
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Names of the config maps that a pod refers to, possibly repeated.
pub fn pod_config_maps(pod: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = in_containers(pod, "configMapRef", "configMapKeyRef").collect();
    for volume in list(pod, &["spec", "volumes"]) {
        names.push(volume.str_at(&["configMap", "name"]));
        names.extend(projected(volume, "configMap"));
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Names of the volume claims that a pod refers to, with those of its ephemeral volumes.
pub fn pod_volume_claims(pod: &Value) -> Vec<String> {
    let name = pod.str_at(&["metadata", "name"]);
    let claim = |volume: &Value| match volume.at(&["persistentVolumeClaim"]) {
        Some(claim) => Some(claim.str_at(&["claimName"]).to_owned()),
        None => volume.at(&["ephemeral"]).map(|_| format!("{name}-{}", volume.str_at(&["name"]))),
    };
    let claims = list(pod, &["spec", "volumes"]).iter().filter_map(claim);
    claims.filter(|claim| !claim.is_empty()).collect()
}

/// Names of a pod's resource claims that exist already.
pub fn pod_resource_claims(pod: &Value) -> Vec<&str> {
    let made = list(pod, &["status", "resourceClaimStatuses"]);
    let mut names = Vec::new();
    for claim in list(pod, &["spec", "resourceClaims"]) {
        if claim.at(&["resourceClaimName"]).is_some() {
            names.push(claim.str_at(&["resourceClaimName"]));
        } else if claim.at(&["resourceClaimTemplateName"]).is_some() {
            let status =
                made.iter().find(|status| status.str_at(&["name"]) == claim.str_at(&["name"]));
            names.extend(status.map(|status| status.str_at(&["resourceClaimName"])));
        }
    }
    names.push(pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]));
    names.retain(|name| !name.is_empty());
    names
}

/// Namespaces and names of the secrets that a kubelet needs to mount a persistent volume.
pub fn persistent_volume_secrets(volume: &Value) -> Vec<(&str, &str)> {
    let claim_namespace = volume.str_at(&["spec", "claimRef", "namespace"]);
    let azure = volume.at(&["spec", "azureFile"]).map(|azure| {
        let namespace = match azure.str_at(&["secretNamespace"]) {
            "" => claim_namespace,
            namespace => namespace,
        };
        (namespace, azure.str_at(&["secretName"]))
    });
    let others = PERSISTENT_VOLUME_SECRETS.into_iter().filter_map(|(source, field, claims)| {
        let secret = volume.at(&["spec", source, field])?;
        let namespace = match secret.str_at(&["namespace"]) {
            "" if claims => claim_namespace,
            namespace => namespace,
        };
        Some((namespace, secret.str_at(&["name"])))
    });
    azure.into_iter().chain(others).filter(|(_, name)| !name.is_empty()).collect()
}

/// Containers of a pod of all kinds.
pub fn pod_containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let kinds = ["initContainers", "containers", "ephemeralContainers"];
    kinds.into_iter().flat_map(|kind| list(pod, &["spec", kind]))
}

fn in_containers<'v>(
    pod: &'v Value,
    whole: &'static str,
    key: &'static str,
) -> impl Iterator<Item = &'v str> {
    pod_containers(pod).flat_map(move |container| {
        let from =
            list(container, &["envFrom"]).iter().map(move |env| env.str_at(&[whole, "name"]));
        let env = list(container, &["env"]).iter();
        from.chain(env.map(move |env| env.str_at(&["valueFrom", key, "name"])))
    })
}

fn projected<'v>(volume: &'v Value, kind: &'static str) -> impl Iterator<Item = &'v str> {
    let sources = list(volume, &["projected", "sources"]).iter();
    sources.map(move |source| source.str_at(&[kind, "name"]))
}

fn list<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    value.at(path).and_then(Value::as_list).unwrap_or_default()
}
