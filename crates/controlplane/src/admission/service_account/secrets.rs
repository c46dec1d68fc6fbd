//! Which secrets the pods of an account may name, where the account says so.

use std::collections::HashSet;

use kevel_api::value::Value;

/// What makes an account say so.
const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";
/// How Go writes that something is so.
const TRUE: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];

/// What is wrong with the secrets that a new pod names.
pub(super) fn check(account: &Value, pod: &Value) -> Result<(), String> {
    if !enforced(account) {
        return Ok(());
    }
    let name = account.str_at(&["metadata", "name"]);
    let (secrets, pull_secrets) = (listed(account, "secrets"), listed(account, "imagePullSecrets"));
    for volume in pod.list_at(&["spec", "volumes"]) {
        let Some(secret) = volume.at(&["secret"]) else { continue };
        let secret = secret.str_at(&["secretName"]);
        if !secrets.contains(secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account \
                 {name} does not reference that secret"
            ));
        }
    }
    check_containers(account, pod, "initContainers", "init container")?;
    check_containers(account, pod, "containers", "container")?;
    for (index, secret) in pod.list_at(&["spec", "imagePullSecrets"]).iter().enumerate() {
        let secret = secret.str_at(&["name"]);
        if !pull_secrets.contains(secret) {
            return Err(format!(
                "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account \
                 {name} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// What is wrong with the secrets that ephemeral containers name.
pub(super) fn check_ephemeral(account: &Value, pod: &Value) -> Result<(), String> {
    match enforced(account) {
        true => check_containers(account, pod, "ephemeralContainers", "ephemeral container"),
        false => Ok(()),
    }
}

fn check_containers(account: &Value, pod: &Value, field: &str, kind: &str) -> Result<(), String> {
    let refused = |container: &Value, how: &str, secret: &str| {
        let (container, name) =
            (container.str_at(&["name"]), account.str_at(&["metadata", "name"]));
        Err(format!(
            "{kind} {container} with {how} referencing secret.secretName=\"{secret}\" is not allowed \
             because service account {name} does not reference that secret"
        ))
    };
    let secrets = listed(account, "secrets");
    for container in pod.list_at(&["spec", field]) {
        for env in container.list_at(&["env"]) {
            let Some(secret) = env.at(&["valueFrom", "secretKeyRef"]) else { continue };
            let secret = secret.str_at(&["name"]);
            if !secrets.contains(secret) {
                let how = format!("envVar {}", env.str_at(&["name"]));
                return refused(container, &how, secret);
            }
        }
        for from in container.list_at(&["envFrom"]) {
            let Some(secret) = from.at(&["secretRef"]) else { continue };
            let secret = secret.str_at(&["name"]);
            if !secrets.contains(secret) {
                return refused(container, "envFrom", secret);
            }
        }
    }
    Ok(())
}

fn enforced(account: &Value) -> bool {
    TRUE.contains(&account.str_at(&["metadata", "annotations", ENFORCED]))
}

/// The names of the secrets that an account lists.
fn listed<'v>(account: &'v Value, field: &str) -> HashSet<&'v str> {
    account.list_at(&[field]).iter().map(|listed| listed.str_at(&["name"])).collect()
}
