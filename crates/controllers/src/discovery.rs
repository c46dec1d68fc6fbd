//! Resources that the server serves, aggregated ones included, as discovery tells.

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_controller_runtime::Client;

/// Form of the aggregated discovery document.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A resource in the version that clients prefer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiResource {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

/// Result of discovery: resources, and groups and versions whose servers did not tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Discovered {
    pub resources: Vec<ApiResource>,
    /// `metrics.k8s.io/v1beta1`
    pub failed: Vec<String>,
}

impl ApiResource {
    /// Whether the resource supports a verb.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Path of the collection; `namespace` is ignored for cluster-scoped resources.
    pub fn path(&self, namespace: &str) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if self.namespaced && !namespace.is_empty() {
            format!("{root}/namespaces/{namespace}/{}", self.plural)
        } else {
            format!("{root}/{}", self.plural)
        }
    }
}

impl Discovered {
    /// Error about the groups that did not tell (upstream: `ErrGroupDiscoveryFailed`).
    pub fn error(&self) -> Option<String> {
        let stale =
            |version: &String| format!("{version}: stale GroupVersion discovery: {version}");
        let failed: Vec<String> = self.failed.iter().map(stale).collect();
        let failed = (!failed.is_empty()).then(|| failed.join(", "));
        failed
            .map(|failed| format!("unable to retrieve the complete list of server APIs: {failed}"))
    }

    fn read(&mut self, document: &Value) {
        for group in document.list_at(&["items"]) {
            let name = group.str_at(&["metadata", "name"]);
            let first = self.resources.len();
            for version in group.list_at(&["versions"]) {
                let of = version.str_at(&["version"]);
                if version.str_at(&["freshness"]) == "Stale" {
                    let failed =
                        if name.is_empty() { of.to_owned() } else { format!("{name}/{of}") };
                    self.failed.push(failed);
                    continue;
                }
                for resource in version.list_at(&["resources"]) {
                    kevel_compute::charge(1);
                    let plural = resource.str_at(&["resource"]);
                    let known = self.resources.iter().skip(first).any(|r| r.plural == plural);
                    if !known {
                        self.resources.push(read(name, of, plural, resource));
                    }
                }
            }
        }
    }
}

fn read(group: &str, version: &str, plural: &str, resource: &Value) -> ApiResource {
    let verbs = resource.list_at(&["verbs"]).iter().filter_map(Value::as_str);
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        kind: resource.str_at(&["responseKind", "kind"]).to_owned(),
        namespaced: resource.str_at(&["scope"]) == "Namespaced",
        verbs: verbs.map(str::to_owned).collect(),
    }
}

/// Resources of all groups, each in its preferred version (upstream: `ServerPreferredResources`).
pub(crate) async fn preferred_resources(client: &Client) -> Result<Discovered, StatusError> {
    let mut discovered = Discovered::default();
    for path in ["/api", "/apis"] {
        discovered.read(&client.get_as(path, AGGREGATED).await?);
    }
    Ok(discovered)
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    #[test]
    fn preferred_version_wins_and_stale_versions_are_told() {
        let resource = |plural: &str| {
            format!(
                r#"{{"resource":"{plural}","responseKind":{{"kind":"K"}},"scope":"Namespaced",
                "verbs":["delete"]}}"#
            )
        };
        let text = format!(
            r#"{{"items":[{{"metadata":{{"name":"g"}},"versions":[
            {{"version":"v2","resources":[{}]}},{{"version":"v1","resources":[{},{}]}},
            {{"version":"v0","freshness":"Stale"}}]}}]}}"#,
            resource("as"),
            resource("as"),
            resource("bs"),
        );
        let mut discovered = Discovered::default();
        discovered.read(&decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value);
        let found: Vec<_> = discovered.resources.iter().map(|found| found.path("n")).collect();
        assert_eq!(found, ["/apis/g/v2/namespaces/n/as", "/apis/g/v1/namespaces/n/bs"]);
        assert_eq!(
            discovered.error().unwrap(),
            "unable to retrieve the complete list of server APIs: \
             g/v0: stale GroupVersion discovery: g/v0",
        );
    }
}
