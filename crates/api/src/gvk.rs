//! Groups, versions, kinds and resources.

use compact_str::CompactString;
use std::fmt;
use std::str::FromStr;

/// A name of a group, version, kind or resource: static for built-in ones, inline if short.
pub type Name = CompactString;

macro_rules! name_tuple {
    ($(#[$doc:meta])* $type:ident { $($field:ident),+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type {
            $(#[doc = concat!("The ", stringify!($field), ".")] pub $field: Name,)+
        }

        impl $type {
            /// Static value, without allocation.
            pub const fn from_static($($field: &'static str),+) -> Self {
                $type { $($field: Name::const_new($field)),+ }
            }

            /// Makes a value of the given parts.
            pub fn new($($field: impl Into<Name>),+) -> Self {
                $type { $($field: $field.into()),+ }
            }

            /// Whether every part is empty.
            pub fn is_empty(&self) -> bool {
                $(self.$field.is_empty())&&+
            }
        }
    };
}

name_tuple! {
    /// A group and a version, as `apiVersion` holds them: `apps/v1`, or `v1` for the core group.
    ///
    /// ```
    /// use kevel_api::gvk::GroupVersion;
    /// let apps: GroupVersion = "apps/v1".parse()?;
    /// assert_eq!(apps.with_kind("Deployment").to_string(), "apps/v1, Kind=Deployment");
    /// # Ok::<(), kevel_api::gvk::ParseGroupVersionError>(())
    /// ```
    GroupVersion { group, version }
}
name_tuple! {
    /// A kind in a version of a group.
    GroupVersionKind { group, version, kind }
}
name_tuple! {
    /// A resource (the plural in a URL) in a version of a group.
    GroupVersionResource { group, version, resource }
}
name_tuple! {
    /// A kind in a group, whatever the version: `Deployment.apps`.
    GroupKind { group, kind }
}
name_tuple! {
    /// A resource in a group, whatever the version: `deployments.apps`.
    GroupResource { group, resource }
}

impl GroupVersion {
    /// Kind in this version.
    pub fn with_kind(&self, kind: impl Into<Name>) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: kind.into(),
        }
    }

    /// Resource in this version.
    pub fn with_resource(&self, resource: impl Into<Name>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: resource.into(),
        }
    }
}

impl GroupVersionKind {
    /// Parses `apiVersion` and `kind`. An invalid `apiVersion` counts as empty, as in the reference.
    pub fn from_api_version_and_kind(api_version: &str, kind: &str) -> Self {
        api_version.parse::<GroupVersion>().unwrap_or_default().with_kind(kind)
    }

    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

impl GroupVersionResource {
    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Group and resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }
}

impl GroupKind {
    /// Kind in one version.
    pub fn with_version(&self, version: impl Into<Name>) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: version.into(),
            kind: self.kind.clone(),
        }
    }

    /// Parses `Kind.group`; everything after the first dot is the group.
    pub fn parse(text: &str) -> Self {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        GroupKind::new(group, kind)
    }
}

impl GroupResource {
    /// Resource in one version.
    pub fn with_version(&self, version: impl Into<Name>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: version.into(),
            resource: self.resource.clone(),
        }
    }

    /// Parses `resource.group`; everything after the first dot is the group.
    pub fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource::new(group, resource)
    }
}

/// Error of an `apiVersion` with more than one slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseGroupVersionError(String);

impl fmt::Display for ParseGroupVersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unexpected GroupVersion string: {}", self.0)
    }
}

impl std::error::Error for ParseGroupVersionError {}

impl FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            None => Ok(GroupVersion::new("", text)),
            Some((group, version)) if !version.contains('/') => {
                Ok(GroupVersion::new(group, version))
            }
            Some(_) => Err(ParseGroupVersionError(text.to_owned())),
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.version)
    }
}

// The core group prints a leading slash in these two, as messages have it.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.kind, &self.group)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.resource, &self.group)
    }
}

fn write_dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if group.is_empty() { Ok(()) } else { write!(f, ".{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_versions_parse_and_print() {
        for (text, group, version, printed) in [
            ("v1", "", "v1", "v1"),
            ("apps/v1", "apps", "v1", "apps/v1"),
            ("/v1", "", "v1", "v1"),
            ("apps/", "apps", "", "apps/"),
            ("", "", "", ""),
            ("/", "", "", ""),
        ] {
            let parsed: GroupVersion = text.parse().unwrap();
            assert_eq!(parsed, GroupVersion::new(group, version), "{text}");
            assert_eq!(parsed.to_string(), printed, "{text}");
        }
        assert_eq!(
            "a/b/c".parse::<GroupVersion>().unwrap_err().to_string(),
            "unexpected GroupVersion string: a/b/c"
        );
    }

    #[test]
    fn names_print_as_in_messages() {
        const DEPLOYMENTS: GroupVersionResource =
            GroupVersionResource::from_static("apps", "v1", "deployments");
        const POD: GroupVersionKind = GroupVersionKind::from_static("", "v1", "Pod");
        assert_eq!(DEPLOYMENTS.to_string(), "apps/v1, Resource=deployments");
        assert_eq!(DEPLOYMENTS.group_resource().to_string(), "deployments.apps");
        assert_eq!(POD.to_string(), "/v1, Kind=Pod");
        assert_eq!(POD.group_kind().to_string(), "Pod");
        assert_eq!(
            GroupKind::parse("Deployment.apps.example.com").to_string(),
            "Deployment.apps.example.com"
        );
        assert_eq!(GroupResource::parse("pods"), GroupResource::new("", "pods"));
        assert_eq!(
            GroupVersionKind::from_api_version_and_kind("a/b/c", "Pod"),
            GroupVersionKind::new("", "", "Pod")
        );
    }
}
