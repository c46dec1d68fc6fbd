//! Volume `kube-api-access`: the API credentials of pods.

use kevel_api::name::generate_name;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode_any};

const VOLUME: &str = "kube-api-access-";
const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Token, CA bundle and namespace. A token with this lifetime (an hour and seven seconds) is extended to a year for
/// old clients, and its later use is counted as stale.
const PROJECTED: &str = r#"{"defaultMode":420,"sources":[
    {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
    {"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},
    {"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},
                              "path":"namespace"}]}}]}"#;

/// The projected volume.
#[derive(Debug)]
pub(super) struct TokenVolume {
    projected: Value,
}

impl TokenVolume {
    pub fn new() -> Result<Self, String> {
        let decoded = decode_any(PROJECTED.as_bytes(), Unknown::Ignore);
        Ok(TokenVolume { projected: decoded.map_err(|error| error.to_string())?.value })
    }

    /// Mounts the volume in all containers that mount nothing at its path.
    pub fn mount(&self, pod: &mut Value) {
        let volumes = pod.list_at(&["spec", "volumes"]).iter();
        let own = volumes.map(|volume| volume.str_at(&["name"])).find(|n| n.starts_with(VOLUME));
        let own = own.map(str::to_owned);
        let name = own.clone().unwrap_or_else(|| generate_name(VOLUME));
        let mut mounted = false;
        for kind in ["initContainers", "containers"] {
            let containers = pod.at_mut(&["spec", kind]).and_then(Value::as_list_mut);
            for container in containers.into_iter().flatten() {
                let mounts = container.list_at(&["volumeMounts"]);
                if mounts.iter().any(|mount| mount.str_at(&["mountPath"]) == PATH) {
                    continue;
                }
                let mount = Map::from_iter([
                    ("mountPath", PATH.into()),
                    ("name", name.as_str().into()),
                    ("readOnly", true.into()),
                ]);
                container.make_list(&[], "volumeMounts").push(mount.into());
                mounted = true;
            }
        }
        if mounted && own.is_none() {
            let volume = Map::from_iter([
                ("name", Value::from(name.as_str())),
                ("projected", self.projected.clone()),
            ]);
            pod.make_list(&["spec"], "volumes").push(volume.into());
        }
    }
}
