//! The version that the server behaves as.

use crate::flags::Strings;
use kevel_api::quote::quote;
use kevel_server::version::API_LEVEL;
use std::fmt;

/// A major and a minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MajorMinor(pub u32, pub u32);

impl fmt::Display for MajorMinor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The version that the server behaves as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveVersion {
    /// Whose APIs and features it shows.
    pub emulation: MajorMinor,
    /// Whose components it must get along with.
    pub min_compatibility: MajorMinor,
}

const BINARY: MajorMinor = MajorMinor(API_LEVEL.0, API_LEVEL.1);

/// How far back the server can go.
const FLOOR: MajorMinor = MajorMinor(API_LEVEL.0, API_LEVEL.1 - 3);

impl EffectiveVersion {
    /// The version that `--emulated-version` and `--min-compatibility-version` ask for.
    pub fn new(emulated: &Strings, min_compatibility: &Strings) -> Result<Self, String> {
        let emulation = kube_version(emulated)?.unwrap_or(BINARY);
        let before = MajorMinor(emulation.0, emulation.1.saturating_sub(1));
        let min_compatibility = kube_version(min_compatibility)?.unwrap_or(before.max(FLOOR));
        Ok(EffectiveVersion { emulation, min_compatibility })
    }

    /// Whether the server behaves as another version than its own.
    pub fn is_emulated(&self) -> bool {
        self.emulation != BINARY
    }

    /// What is wrong with the two versions.
    pub(super) fn validate(&self) -> Vec<String> {
        let EffectiveVersion { emulation, min_compatibility } = *self;
        let mut errors = Vec::new();
        if !(FLOOR..=BINARY).contains(&emulation) {
            errors.push(format!(
                "emulation version {emulation} is not between [{FLOOR}, {BINARY}.0]"
            ));
        }
        if min_compatibility > emulation || min_compatibility < FLOOR {
            errors.push(format!(
                "minCompatibilityVersion version {min_compatibility} is not between [{FLOOR}, \
                 {emulation}]"
            ));
        }
        errors
    }
}

/// The version of the one component that there is.
fn kube_version(flag: &Strings) -> Result<Option<MajorMinor>, String> {
    let mut found: Option<MajorMinor> = None;
    for text in flag.iter() {
        let (component, text) = match text.split_once('=') {
            Some((component, text)) => (component.trim(), text.trim()),
            None => ("kube", text.as_str()),
        };
        let version = parse_version(component, text)?;
        if component != "kube" {
            return Err(format!("component not registered: {component}"));
        }
        if let Some(earlier) = found {
            return Err(format!("duplicate version flag, kube={earlier} and kube={version}"));
        }
        found = Some(version);
    }
    Ok(found)
}

fn parse_version(component: &str, text: &str) -> Result<MajorMinor, String> {
    let numbers = text.trim().strip_prefix('v').unwrap_or(text.trim());
    if !numbers.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("could not parse {} as version", quote(text)));
    }
    let numbers: Vec<u32> = numbers.split('.').map_while(|part| part.parse().ok()).collect();
    match numbers[..] {
        [major, minor] | [major, minor, 0] => Ok(MajorMinor(major, minor)),
        [major, minor, patch] => {
            Err(format!("patch version not allowed, got: {component}={major}.{minor}.{patch}"))
        }
        _ => Err(format!("illegal version string {}", quote(text))),
    }
}
