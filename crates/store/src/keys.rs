//! Storage keys of resources and objects under the prefix (`--etcd-prefix`, `/registry`): the reference's layout, so
//! that either server finds the other's objects.
//!
//! ```
//! use kevel_store::keys::{self, Origin};
//!
//! let pods = keys::resource_prefix("/registry", Origin::BuiltIn, "", "pods");
//! assert_eq!(keys::object_key(&pods, Some("default"), "web-0"), "/registry/pods/default/web-0");
//! ```

/// Origin of a resource; it decides whether the API group is part of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A built-in kind of the control plane: `/registry/<resource>/`.
    BuiltIn,
    /// A kind of another API server in the same process, or a custom resource: `/registry/<group>/<resource>/`.
    Extension,
}

/// Keys, relative to the prefix, that hold bookkeeping rather than objects of a resource.
pub mod bookkeeping {
    /// Bitmap of allocated service cluster IPs.
    pub const SERVICE_IPS: &str = "ranges/serviceips";
    /// Bitmap of service cluster IPs of the second address family.
    pub const SECONDARY_SERVICE_IPS: &str = "ranges/secondaryserviceips";
    /// Bitmap of allocated node ports.
    pub const SERVICE_NODE_PORTS: &str = "ranges/servicenodeports";
    /// Leases of the API servers that are endpoints of the `kubernetes` service.
    pub const MASTER_LEASES: &str = "masterleases/";
    /// Leases of the API servers that take proxied requests of their peers.
    pub const PEER_SERVER_LEASES: &str = "peerserverleases/";
}

/// Prefix of all keys of a resource, with a slash at its end. Some built-in kinds are stored under another name than
/// their own: nodes under `minions`.
pub fn resource_prefix(prefix: &str, origin: Origin, group: &str, resource: &str) -> String {
    let root = root(prefix);
    let resource = resource.to_lowercase();
    match origin {
        Origin::BuiltIn => format!("{root}{resource}/"),
        Origin::Extension => format!("{root}{group}/{resource}/"),
    }
}

/// Key of one object, given the prefix of its resource.
pub fn object_key(resource_prefix: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{resource_prefix}{namespace}/{name}"),
        None => format!("{resource_prefix}{name}"),
    }
}

/// The storage prefix with one slash at either end, whatever slashes the flag had.
pub fn root(prefix: &str) -> String {
    match prefix.trim_matches('/') {
        "" => "/".into(),
        inner => format!("/{inner}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_live_where_the_reference_puts_them() {
        use Origin::*;
        for (origin, group, resource, expected) in [
            (BuiltIn, "", "pods", "/registry/pods/"),
            (BuiltIn, "", "services/specs", "/registry/services/specs/"),
            (BuiltIn, "networking.k8s.io", "networkpolicies", "/registry/networkpolicies/"),
            (BuiltIn, "events.k8s.io", "events", "/registry/events/"),
            (BuiltIn, "coordination.k8s.io", "leases", "/registry/leases/"),
            (BuiltIn, "apps", "deployments", "/registry/deployments/"),
            (
                Extension,
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "/registry/apiextensions.k8s.io/customresourcedefinitions/",
            ),
            (
                Extension,
                "apiregistration.k8s.io",
                "apiservices",
                "/registry/apiregistration.k8s.io/apiservices/",
            ),
            (Extension, "example.com", "widgets", "/registry/example.com/widgets/"),
        ] {
            assert_eq!(resource_prefix("/registry", origin, group, resource), expected);
        }
    }

    #[test]
    fn the_prefix_flag_is_taken_in_any_form() {
        for (flag, expected) in
            [("/registry", "/registry/"), ("registry/", "/registry/"), ("/a/b", "/a/b/"), ("", "/")]
        {
            assert_eq!(root(flag), expected, "{flag:?}");
        }
    }
}
