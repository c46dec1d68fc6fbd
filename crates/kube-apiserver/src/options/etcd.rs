//! Flags of the storage.

use crate::flags::{EFFECTIVE, MOOT, Strings, section};
use kevel_api::duration::Duration;
use kevel_api::gvk::GroupResource;
use std::collections::BTreeMap;

section! {
    /// Options of the storage.
    Etcd, "etcd" {
        /// Watch cache size for resources that have none of their own; 0 turns their cache off.
        /// Neither is so, as in the reference.
        default_watch_cache_size: i64 = "100", MOOT
            .deprecated("watch caches are sized automatically and this flag will be removed in a \
                         future version")
            .hidden();
        /// Number of objects that a delete of a collection works on at a time.
        delete_collection_workers: i64 = "1", EFFECTIVE;
        /// Leave objects with dependents to the garbage collector. Must be as for the
        /// kube-controller-manager.
        enable_garbage_collector: bool = "true", EFFECTIVE;
        /// File that says which resources are encrypted in the storage, and how.
        encryption_provider_config: String, EFFECTIVE;
        /// Read --encryption-provider-config again whenever the file changes. The health checks of
        /// its KMS plugins are then one.
        encryption_provider_config_automatic_reload: bool = "false", EFFECTIVE;
        /// File with the authority that etcd's certificate is checked against.
        etcd_cafile: String, EFFECTIVE;
        /// File with the client certificate for etcd.
        etcd_certfile: String, EFFECTIVE;
        /// Interval at which the server asks etcd to compact; 0 leaves that to others.
        etcd_compaction_interval: Duration = "5m0s", EFFECTIVE;
        /// Interval at which the objects of each resource are counted for the metrics; 0 does not count. They are
        /// counted whenever the metrics are read.
        etcd_count_metric_poll_period: Duration = "1m0s", EFFECTIVE;
        /// Interval at which the size of the database is read for a metric that is not shown any more; 0 does not.
        etcd_db_metric_poll_interval: Duration = "30s", MOOT;
        /// Timeout of a health check of etcd.
        etcd_healthcheck_timeout: Duration = "2s", EFFECTIVE;
        /// File with the private key of --etcd-certfile.
        etcd_keyfile: String, EFFECTIVE;
        /// Prefix of every key.
        etcd_prefix: String = "/registry", EFFECTIVE;
        /// Timeout of a readiness check of etcd.
        etcd_readycheck_timeout: Duration = "2s", EFFECTIVE;
        /// URLs of the etcd servers (scheme://ip:port), comma separated. Without any, and without
        /// --storage, objects are kept in --data-dir.
        etcd_servers: Strings, EFFECTIVE;
        /// Other etcd servers for single resources, comma separated, each as group/resource#URLs
        /// with semicolons between the URLs, as in /events#http://etcd4:2379;http://etcd5:2379.
        etcd_servers_overrides: Strings, EFFECTIVE;
        /// Seconds for which a lease is used for further objects. Fewer seconds make more leases; more put more objects
        /// under the same one.
        lease_reuse_duration_seconds: i64 = "60", EFFECTIVE;
        /// Kind of etcd: etcd3.
        storage_backend: String, EFFECTIVE;
        /// Media type in which objects are stored: application/json, application/yaml or
        /// application/vnd.kubernetes.protobuf. Custom resources are always JSON.
        storage_media_type: String = "application/vnd.kubernetes.protobuf", EFFECTIVE;
        /// Serve reads of any state (resourceVersion=0) from a cache of the storage. Without it they get the current
        /// state; all other reads always do.
        watch_cache: bool = "true", EFFECTIVE;
        /// Resources whose watch cache is on or off, comma separated, each as
        /// resource[.group]#size. Size 0 is off, any other is on.
        watch_cache_sizes: Strings, EFFECTIVE;
    }
}

/// Servers, and the resources that are stored there.
pub(crate) type Overrides = Vec<(Vec<String>, Vec<GroupResource>)>;

/// The media types that objects can be stored in.
const MEDIA_TYPES: [&str; 3] =
    ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];

impl Etcd {
    /// Validation errors of these options alone. That there are etcd servers at all is checked with `--storage`.
    pub(super) fn validate(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if !matches!(self.storage_backend.as_str(), "" | "etcd3") {
            errors.push(
                "--storage-backend invalid, allowed values: etcd3. If not specified, it will \
                 default to 'etcd3'"
                    .to_owned(),
            );
        }
        if self.etcd_servers_overrides.iter().any(|text| !is_servers_override(text)) {
            errors.push(
                "--etcd-servers-overrides invalid, must be of format: group/resource#servers, \
                 where servers are URLs, semicolon separated"
                    .to_owned(),
            );
        }
        if self.encryption_provider_config.is_empty()
            && self.encryption_provider_config_automatic_reload
        {
            errors.push(
                "--encryption-provider-config-automatic-reload must be set with \
                 --encryption-provider-config"
                    .to_owned(),
            );
        }
        let media_type = self.storage_media_type.as_str();
        if !media_type.is_empty() && !MEDIA_TYPES.contains(&media_type) {
            errors.push(format!(
                "--storage-media-type {media_type:?} invalid, allowed values: {}",
                MEDIA_TYPES.join(", ")
            ));
        }
        errors
    }

    /// Sets of servers in `--etcd-servers-overrides`, each once, whatever the order of its servers. For a resource that
    /// is named several times the last entry counts; names are taken as written.
    pub(crate) fn overrides(&self) -> Overrides {
        let mut overrides: Vec<(Vec<String>, Vec<GroupResource>)> = Vec::new();
        for text in self.etcd_servers_overrides.iter() {
            let Some((resource, servers)) = text.split_once('#') else { continue };
            let Some((group, resource)) = resource.split_once('/') else { continue };
            let resource = GroupResource::new(group, resource);
            let mut servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
            servers.sort();
            for (_, resources) in &mut overrides {
                resources.retain(|earlier| *earlier != resource);
            }
            match overrides.iter_mut().find(|(known, _)| *known == servers) {
                Some((_, resources)) => resources.push(resource),
                None => overrides.push((servers, vec![resource])),
            }
        }
        overrides
    }

    /// The resources whose cache is set apart, and the size of it. Events have none unless asked
    /// for: there are many of them and few who watch.
    pub(super) fn sizes_of_watch_caches(&self) -> Result<BTreeMap<GroupResource, i64>, String> {
        let events = |group| (GroupResource::from_static(group, "events"), 0);
        let mut sizes = BTreeMap::from([events(""), events("events.k8s.io")]);
        for text in self.watch_cache_sizes.iter() {
            let mut parts = text.split('#');
            let (Some(resource), Some(size), None) = (parts.next(), parts.next(), parts.next())
            else {
                return Err(format!("invalid value of watch cache size: {text}"));
            };
            let size: i64 =
                size.parse().map_err(|_| format!("invalid size of watch cache size: {text}"))?;
            if size < 0 {
                return Err(format!("watch cache size cannot be negative: {text}"));
            }
            let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
            sizes.insert(GroupResource::new(group, resource), size);
        }
        Ok(sizes)
    }
}

/// Whether this is `group/resource#server;server`.
fn is_servers_override(text: &str) -> bool {
    text.split_once('#').is_some_and(|(resource, servers)| {
        resource.matches('/').count() == 1
            && !servers.contains('#')
            && servers.split(';').all(|server| !server.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_override_of_a_resource_counts() {
        let said = "/events#http://a,apps/*#http://b;http://c,/events#http://b,/Pods#http://c;http://b,/events#http://a";
        let mut options = Etcd::default();
        options.etcd_servers_overrides.0 = said.split(',').map(str::to_owned).collect();
        let servers = |names: &[&str]| names.iter().map(|name| format!("http://{name}")).collect();
        let expected: Overrides = vec![
            (servers(&["a"]), vec![GroupResource::new("", "events")]),
            // As they are written: the reference finds no Pods, either.
            (
                servers(&["b", "c"]),
                vec![GroupResource::new("apps", "*"), GroupResource::new("", "Pods")],
            ),
            // It still has a health check.
            (servers(&["b"]), vec![]),
        ];
        assert_eq!(options.overrides(), expected);
    }
}
