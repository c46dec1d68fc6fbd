//! Facts about a pod's ServiceAccount, and the secrets that its pods may mount.

use std::collections::HashSet;

use kevel_api::value::Value;

use kevel_controlplane::lister::Facts;

/// Annotation that restricts pods to the account's own secrets.
const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";
/// Texts that Go's `strconv.ParseBool` takes for true.
const TRUE: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];

/// Facts about a ServiceAccount that pods need.
#[derive(Debug)]
pub(super) struct Account {
    name: String,
    pub automount: Option<bool>,
    /// Names in `imagePullSecrets`.
    pub pull_secrets: Vec<Box<str>>,
    /// Secrets that pods may reference; `None` if not restricted.
    enforced: Option<Allowed>,
}

#[derive(Debug)]
struct Allowed {
    secrets: HashSet<Box<str>>,
    pull_secrets: HashSet<Box<str>>,
}

impl Facts for Account {
    fn read(account: &Value) -> Self {
        let names = |field: &str| {
            let names = account.list_at(&[field]).iter().map(|one| one.str_at(&["name"]).into());
            names.collect::<Vec<Box<str>>>()
        };
        let enforced = TRUE.contains(&account.str_at(&["metadata", "annotations", ENFORCED]));
        let pull_secrets = names("imagePullSecrets");
        Account {
            name: account.str_at(&["metadata", "name"]).to_owned(),
            automount: account.at(&["automountServiceAccountToken"]).and_then(Value::as_bool),
            enforced: enforced.then(|| Allowed {
                secrets: names("secrets").into_iter().collect(),
                pull_secrets: pull_secrets.iter().cloned().collect(),
            }),
            pull_secrets,
        }
    }
}

impl Account {
    /// Checks the secrets that a new pod references.
    pub fn check(&self, pod: &Value) -> Result<(), String> {
        let Some(allowed) = &self.enforced else { return Ok(()) };
        let name = &self.name;
        for volume in pod.list_at(&["spec", "volumes"]) {
            let Some(secret) = volume.at(&["secret"]) else { continue };
            let secret = secret.str_at(&["secretName"]);
            if !allowed.secrets.contains(secret) {
                return Err(format!(
                    "volume with secret.secretName=\"{secret}\" is not allowed because service \
                     account {name} does not reference that secret"
                ));
            }
        }
        self.check_containers(allowed, pod, "initContainers", "init container")?;
        self.check_containers(allowed, pod, "containers", "container")?;
        for (index, secret) in pod.list_at(&["spec", "imagePullSecrets"]).iter().enumerate() {
            let secret = secret.str_at(&["name"]);
            if !allowed.pull_secrets.contains(secret) {
                return Err(format!(
                    "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service \
                     account {name} does not reference that imagePullSecret"
                ));
            }
        }
        Ok(())
    }

    /// Checks the secrets that ephemeral containers reference.
    pub fn check_ephemeral(&self, pod: &Value) -> Result<(), String> {
        match &self.enforced {
            Some(allowed) => {
                self.check_containers(allowed, pod, "ephemeralContainers", "ephemeral container")
            }
            None => Ok(()),
        }
    }

    fn check_containers(
        &self,
        allowed: &Allowed,
        pod: &Value,
        field: &str,
        kind: &str,
    ) -> Result<(), String> {
        let refused = |container: &Value, how: &str, secret: &str| {
            let (container, name) = (container.str_at(&["name"]), &self.name);
            Err(format!(
                "{kind} {container} with {how} referencing secret.secretName=\"{secret}\" is not \
                 allowed because service account {name} does not reference that secret"
            ))
        };
        for container in pod.list_at(&["spec", field]) {
            for env in container.list_at(&["env"]) {
                let Some(secret) = env.at(&["valueFrom", "secretKeyRef"]) else { continue };
                let secret = secret.str_at(&["name"]);
                if !allowed.secrets.contains(secret) {
                    let how = format!("envVar {}", env.str_at(&["name"]));
                    return refused(container, &how, secret);
                }
            }
            for from in container.list_at(&["envFrom"]) {
                let Some(secret) = from.at(&["secretRef"]) else { continue };
                let secret = secret.str_at(&["name"]);
                if !allowed.secrets.contains(secret) {
                    return refused(container, "envFrom", secret);
                }
            }
        }
        Ok(())
    }
}
