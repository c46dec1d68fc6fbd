//! `storageVersionHash` of resources, which clients only compare.

use compact_str::CompactString;
use ring::digest;

use kevel_registry::resource::Resource;
use kevel_registry::verb::Verb;

/// Hash of a resource's storage version; `None` if the resource is not stored.
pub(super) fn of(resource: &Resource) -> Option<CompactString> {
    // Stored resources can be watched; computed ones (componentstatuses) cannot.
    let storage = resource.storage.as_ref().filter(|_| resource.allows(Verb::Watch))?;
    let kind = &storage.kind;
    let known = WRITTEN_AS.iter().find(|(group, name, _)| kind.group == group && kind.kind == name);
    let version = known.map_or(kind.version.as_str(), |(_, _, version)| version);
    Some(hash(&kind.group, version, &kind.kind))
}

/// Kinds whose storage version in the reference is not the preferred one.
const WRITTEN_AS: [(&str, &str, &str); 1] =
    [("apiextensions.k8s.io", "CustomResourceDefinition", "v1beta1")];

fn hash(group: &str, version: &str, kind: &str) -> CompactString {
    let name = format!("{group}/{version}/{kind}");
    let digest = digest::digest(&digest::SHA256, name.as_bytes());
    kevel_codec::base64::encode(digest.as_ref().get(..8).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn hashes_are_the_reference_s() {
        assert_eq!(super::hash("", "v1", "ConfigMap"), "qFsyl6wFWjQ=");
        assert_eq!(super::hash("apps", "v1", "Deployment"), "8aSe+NMegvE=");
    }
}
