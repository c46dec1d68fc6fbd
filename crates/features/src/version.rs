//! Versions that a server emulates and stays compatible with.

use std::fmt;

use kevel_api::quote::quote;
use thiserror::Error;

/// Major and minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MajorMinor(pub u32, pub u32);

/// Version whose behaviour this server has unless it emulates another.
pub const BINARY: MajorMinor = MajorMinor(1, 36);

/// Oldest version that can be emulated: three minor versions back, as in the reference.
pub const FLOOR: MajorMinor = MajorMinor(1, 33);

impl MajorMinor {
    /// Version before this one; the first of a major version has none.
    fn previous(self) -> Self {
        MajorMinor(self.0, self.1.saturating_sub(1))
    }
}

impl fmt::Display for MajorMinor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Versions that decide about gates, APIs, storage versions and CEL (upstream: `EffectiveVersion`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveVersion {
    /// Version whose APIs and features the server has (`--emulated-version`).
    pub emulation: MajorMinor,
    /// Oldest version of the other servers of the control plane (`--min-compatibility-version`).
    pub min_compatibility: MajorMinor,
}

/// Mistake in `--emulated-version` or `--min-compatibility-version`, in the reference's words.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum VersionError {
    /// Text without a number at its start.
    #[error("could not parse {} as version", quote(.0))]
    Unparsable(String),
    /// Text that has too few or too many numbers.
    #[error("illegal version string {}", quote(.0))]
    Illegal(String),
    /// Version with a patch.
    #[error("patch version not allowed, got: {component}={version}.{patch}")]
    Patch {
        /// Component that it is for.
        component: String,
        /// Version without the patch.
        version: MajorMinor,
        /// Patch, which is not 0.
        patch: u32,
    },
    /// Component that this server does not have.
    #[error("component not registered: {0}")]
    Component(String),
    /// Two versions of one component.
    #[error("duplicate version flag, kube={0} and kube={1}")]
    Duplicate(MajorMinor, MajorMinor),
    /// Emulation version outside of the bounds.
    #[error("emulation version {0} is not between [{FLOOR}, {BINARY}.0]")]
    Emulation(MajorMinor),
    /// Minimal compatibility version outside of the bounds, of which the second is the emulation version.
    #[error("minCompatibilityVersion version {0} is not between [{FLOOR}, {1}]")]
    MinCompatibility(MajorMinor, MajorMinor),
}

impl Default for EffectiveVersion {
    fn default() -> Self {
        EffectiveVersion::emulating(BINARY)
    }
}

impl EffectiveVersion {
    /// Emulates a version and stays compatible with the one before it.
    pub fn emulating(emulation: MajorMinor) -> Self {
        EffectiveVersion { emulation, min_compatibility: emulation.previous().max(FLOOR) }
    }

    /// Versions that the values of `--emulated-version` and `--min-compatibility-version` ask for.
    ///
    /// ```
    /// use kevel_features::{EffectiveVersion, MajorMinor};
    /// let version = EffectiveVersion::new(["1.34"], []).unwrap();
    /// assert_eq!(version.min_compatibility, MajorMinor(1, 33));
    /// ```
    pub fn new<'a>(
        emulated: impl IntoIterator<Item = &'a str>,
        min_compatibility: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, VersionError> {
        let emulated = kube_version(emulated)?;
        let version = EffectiveVersion::emulating(emulated.unwrap_or(BINARY));
        let min_compatibility = kube_version(min_compatibility)?;
        let min_compatibility = min_compatibility.unwrap_or(version.min_compatibility);
        Ok(EffectiveVersion { min_compatibility, ..version })
    }

    /// Tells whether the server emulates another version than its own.
    pub fn is_emulated(&self) -> bool {
        self.emulation != BINARY
    }

    /// Bounds that the versions exceed.
    pub fn validate(&self) -> Vec<VersionError> {
        let EffectiveVersion { emulation, min_compatibility } = *self;
        let mut errors = Vec::new();
        if !(FLOOR..=BINARY).contains(&emulation) {
            errors.push(VersionError::Emulation(emulation));
        }
        if min_compatibility > emulation || min_compatibility < FLOOR {
            errors.push(VersionError::MinCompatibility(min_compatibility, emulation));
        }
        errors
    }
}

/// Version of the one component that there is.
fn kube_version<'a>(
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<Option<MajorMinor>, VersionError> {
    let mut found: Option<MajorMinor> = None;
    for text in texts {
        let (component, text) = match text.split_once('=') {
            Some((component, text)) => (component.trim(), text.trim()),
            None => ("kube", text),
        };
        let version = parse_version(component, text)?;
        if component != "kube" {
            return Err(VersionError::Component(component.to_owned()));
        }
        if let Some(earlier) = found {
            return Err(VersionError::Duplicate(earlier, version));
        }
        found = Some(version);
    }
    Ok(found)
}

fn parse_version(component: &str, text: &str) -> Result<MajorMinor, VersionError> {
    let numbers = text.trim().strip_prefix('v').unwrap_or(text.trim());
    if !numbers.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(VersionError::Unparsable(text.to_owned()));
    }
    let numbers: Vec<u32> = numbers.split('.').map_while(|part| part.parse().ok()).collect();
    match numbers[..] {
        [major, minor] | [major, minor, 0] => Ok(MajorMinor(major, minor)),
        [major, minor, patch] => Err(VersionError::Patch {
            component: component.to_owned(),
            version: MajorMinor(major, minor),
            patch,
        }),
        _ => Err(VersionError::Illegal(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_default_to_the_one_before_the_emulated() {
        for (emulated, min, expected) in [
            (&[][..], &[][..], (36, 35)),
            (&["1.33"], &[], (33, 33)),
            (&["kube=1.34"], &[], (34, 33)),
            (&["v1.35.0"], &["1.33"], (35, 33)),
            (&[], &["1.36"], (36, 36)),
        ] {
            let version =
                EffectiveVersion::new(emulated.iter().copied(), min.iter().copied()).unwrap();
            assert_eq!((version.emulation.1, version.min_compatibility.1), expected);
            assert_eq!(version.validate(), []);
        }
    }

    #[test]
    fn versions_are_refused_in_the_words_of_the_reference() {
        for (emulated, message) in [
            (&["x"][..], "could not parse \"x\" as version"),
            (&["1"], "illegal version string \"1\""),
            (&["kube=1.35.2"], "patch version not allowed, got: kube=1.35.2"),
            (&["wardle=1.2"], "component not registered: wardle"),
            (&["1.34", "1.35"], "duplicate version flag, kube=1.34 and kube=1.35"),
        ] {
            let error = EffectiveVersion::new(emulated.iter().copied(), []).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        for (emulated, min, messages) in [
            ("1.37", "1.36", &["emulation version 1.37 is not between [1.33, 1.36.0]"][..]),
            (
                "1.32",
                "1.31",
                &[
                    "emulation version 1.32 is not between [1.33, 1.36.0]",
                    "minCompatibilityVersion version 1.31 is not between [1.33, 1.32]",
                ],
            ),
            ("1.34", "1.35", &["minCompatibilityVersion version 1.35 is not between [1.33, 1.34]"]),
        ] {
            let version = EffectiveVersion::new([emulated], [min]).unwrap();
            let errors: Vec<String> = version.validate().iter().map(ToString::to_string).collect();
            assert_eq!(errors, messages);
        }
    }
}
