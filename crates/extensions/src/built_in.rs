//! Versions and keys of the built-in servers, which no definition may reach.

use std::collections::BTreeSet;

/// Groups with their versions, and key prefixes, of built-in kinds. A CustomResourceDefinition may have any of their names.
/// Its rows must not be where those of built-in kinds are, nor its keys. Rows of another version of a built-in group are
/// in discovery and OpenAPI alone, as in the reference: a request for the group never reaches custom resources.
#[derive(Clone, Debug, Default)]
pub struct BuiltIn {
    versions: BTreeSet<(String, String)>,
    prefixes: Vec<String>,
}

impl BuiltIn {
    /// Takes the served groups and versions, and the key prefixes of all built-in kinds, served or not.
    pub fn new(
        versions: impl IntoIterator<Item = (String, String)>,
        prefixes: impl IntoIterator<Item = String>,
    ) -> Self {
        BuiltIn {
            versions: versions.into_iter().collect(),
            prefixes: prefixes.into_iter().collect(),
        }
    }

    /// Whether a built-in server has this version of this group.
    pub(crate) fn serves(&self, group: &str, version: &str) -> bool {
        self.versions.contains(&(group.to_owned(), version.to_owned()))
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
        let built_in = BuiltIn::new([("a.io".to_owned(), "v1".to_owned())], prefixes);
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
        assert!(built_in.serves("a.io", "v1"));
        assert!(!built_in.serves("a.io", "v2") && !built_in.serves("io", "v1"));
    }
}
