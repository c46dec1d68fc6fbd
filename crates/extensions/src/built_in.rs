//! Groups and keys of the built-in servers, which no definition may reach.

use std::collections::BTreeSet;

/// Groups and key prefixes of built-in kinds. A CustomResourceDefinition may have any of their names, but a request for
/// one of their groups never reaches custom resources: rows there would appear in discovery and OpenAPI alone, as the
/// preferred version of a group that does not have it.
#[derive(Clone, Debug, Default)]
pub struct BuiltIn {
    groups: BTreeSet<String>,
    prefixes: Vec<String>,
}

impl BuiltIn {
    /// Takes the served groups, and the key prefixes of all built-in kinds, served or not.
    pub fn new(
        groups: impl IntoIterator<Item = String>,
        prefixes: impl IntoIterator<Item = String>,
    ) -> Self {
        BuiltIn { groups: groups.into_iter().collect(), prefixes: prefixes.into_iter().collect() }
    }

    /// Whether a built-in server has this group.
    pub(crate) fn serves(&self, group: &str) -> bool {
        self.groups.contains(group)
    }

    /// Whether keys below a prefix overlap with keys of a built-in kind (upstream: OverlappingBuiltInResources).
    pub(crate) fn stores(&self, prefix: &str) -> bool {
        let overlap = |other: &String| other.starts_with(prefix) || prefix.starts_with(&**other);
        self.prefixes.iter().any(overlap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_overlap_only_at_path_boundaries() {
        let prefixes = ["/registry/a.io/as/", "/registry/services/specs/"].map(str::to_owned);
        let built_in = BuiltIn::new(["a.io".to_owned()], prefixes);
        for (prefix, expected) in [
            ("/registry/a.io/as/", true),
            ("/registry/a.io/", true),
            ("/registry/services/", true),
            ("/registry/services/specs/more/", true),
            ("/registry/a.io/a/", false),
            ("/registry/a.io/ass/", false),
            ("/registry/services/spec/", false),
        ] {
            assert_eq!(built_in.stores(prefix), expected, "{prefix}");
        }
        assert!(built_in.serves("a.io"));
        assert!(!built_in.serves("b.a.io") && !built_in.serves("io"));
    }
}
