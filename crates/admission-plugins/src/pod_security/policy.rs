//! Pod security policy of a namespace: levels and versions from its labels and the defaults of the configuration.

use std::fmt;

use kevel_api::field_error::{FieldError, Path};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// Level of the Pod Security Standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    /// Name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// Version of the standards: `None` for `latest`, otherwise the minor number.
pub(super) type Version = Option<u32>;

/// Level at a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

/// Levels of the three modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Violations are refused.
    pub enforce: LevelVersion,
    /// Violations are recorded as audit annotations.
    pub audit: LevelVersion,
    /// Violations are returned to clients as warnings.
    pub warn: LevelVersion,
}

impl Policy {
    /// Policy with `privileged` in all modes.
    pub const PRIVILEGED: Policy = {
        let privileged = LevelVersion { level: Level::Privileged, version: None };
        Policy { enforce: privileged, audit: privileged, warn: privileged }
    };

    /// Policy from a namespace's labels with `self` as the default, and the errors of the labels.
    pub fn of<'l>(self, label: impl Fn(&str) -> Option<&'l str>) -> (Policy, Vec<FieldError>) {
        let (mut policy, mut errors) = (self, Vec::new());
        let labels = Path::new("metadata");
        let labels = labels.child("labels");
        let label = |name: &str| label(&format!("{PREFIX}{name}"));
        let mut wrong = |name: &str, value: &str, error: String| {
            let key = format!("{PREFIX}{name}");
            errors.push(FieldError::invalid(&labels.key(&key), value, error));
        };
        let mut enforces = None;
        for (name, of) in [
            ("enforce", &mut policy.enforce),
            ("audit", &mut policy.audit),
            ("warn", &mut policy.warn),
        ] {
            if let Some(text) = label(name) {
                let parsed = parse_level(text);
                if name == "enforce" {
                    enforces = parsed.as_ref().ok().copied();
                }
                // An invalid enforce level counts as restricted, an invalid audit or warn level as privileged.
                let unread = if name == "enforce" { Level::Restricted } else { Level::Privileged };
                of.level = parsed.unwrap_or_else(|error| {
                    wrong(name, text, error);
                    unread
                });
            }
            let version = format!("{name}-version");
            if let Some(text) = label(&version) {
                of.version = parse_version(text).unwrap_or_else(|error| {
                    wrong(&version, text, error);
                    None
                });
            }
        }
        // Without a warn label, warn at least of violations of the enforce level.
        if let Some(level) = enforces.filter(|level| *level > policy.warn.level)
            && label("warn").is_none()
        {
            policy.warn.level = level;
            if label("warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    /// True if all modes are privileged.
    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|of| of.level == Level::Privileged)
    }

    /// True if two policies have the same effect: versions do not matter at the privileged level.
    pub fn is_like(&self, other: &Policy) -> bool {
        let same = |a: LevelVersion, b: LevelVersion| {
            a == b || (a.level == Level::Privileged && b.level == Level::Privileged)
        };
        same(self.enforce, other.enforce)
            && same(self.audit, other.audit)
            && same(self.warn, other.warn)
    }
}

/// Parses a level.
pub(super) fn parse_level(text: &str) -> Result<Level, String> {
    match text {
        "privileged" => Ok(Level::Privileged),
        "baseline" => Ok(Level::Baseline),
        "restricted" => Ok(Level::Restricted),
        _ => Err("must be one of privileged, baseline, restricted".to_owned()),
    }
}

/// Parses a version.
pub(super) fn parse_version(text: &str) -> Result<Version, String> {
    if text == "latest" {
        return Ok(None);
    }
    let digits = text.strip_prefix("v1.").unwrap_or_default();
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let plain = plain && (digits == "0" || !digits.starts_with('0'));
    let minor = digits.parse().ok().filter(|_| plain);
    minor.map(Some).ok_or_else(|| r#"must be "latest" or "v1.x""#.to_owned())
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.name();
        match self.version {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_say_what_is_asked_for() {
        for (labels, expected) in [
            (&[][..], "privileged:latest privileged:latest privileged:latest 0"),
            (&[("enforce", "baseline")], "baseline:latest privileged:latest baseline:latest 0"),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.22"), ("warn", "baseline")],
                "restricted:v1.22 privileged:latest baseline:latest 0",
            ),
            (
                &[
                    ("enforce", "restricted"),
                    ("enforce-version", "v1.22"),
                    ("warn-version", "v1.1"),
                ],
                "restricted:v1.22 privileged:latest restricted:v1.1 0",
            ),
            (
                &[("enforce", "x"), ("audit", "y"), ("audit-version", "v1.01"), ("warn", "z")],
                "restricted:latest privileged:latest privileged:latest 4",
            ),
        ] {
            let label = |name: &str| {
                let name = name.strip_prefix(PREFIX).unwrap();
                labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
            };
            let (Policy { enforce, audit, warn }, errors) = Policy::PRIVILEGED.of(label);
            let found = format!("{enforce} {audit} {warn} {}", errors.len());
            assert_eq!(found, expected, "{labels:?}");
        }
    }
}
