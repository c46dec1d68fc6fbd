//! Names in the flags that do not exist, and those that were meant. The reference's messages have no place for them: they
//! are logged beside.

use kevel_admission_plugins::PLUGINS;
use kevel_features::Feature;

use super::ServerRunOptions;
use super::authorization::MODES;
use crate::nearest::nearest;

/// Gates that stand for all of a stage.
const STAGES: [&str; 2] = ["AllAlpha", "AllBeta"];

/// A name that does not exist, near one that does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// Flag that has the name.
    pub flag: &'static str,
    /// The name.
    pub name: String,
    /// The name that was probably meant.
    pub meant: &'static str,
}

impl ServerRunOptions {
    /// Suggestions for the feature gates, authorization modes and admission plug-ins that do not exist.
    pub fn suggestions(&self) -> Vec<Suggestion> {
        let gates = self.generic.feature_gates.values().flatten();
        let gates = gates.map(|setting| setting.split('=').next().unwrap_or_default().trim());
        let known = Feature::gates().iter().map(|gate| gate.name).chain(STAGES);
        let mut found = of("--feature-gates", gates, &known.collect::<Vec<_>>());
        let modes = self.authorization.authorization_mode.iter().map(String::as_str);
        found.extend(of("--authorization-mode", modes, &MODES));
        let plugins: Vec<&str> = PLUGINS.iter().map(|plugin| plugin.name).collect();
        let admission = &self.admission;
        for (flag, names) in [
            ("--admission-control", &admission.admission_control),
            ("--enable-admission-plugins", &admission.enable_admission_plugins),
            ("--disable-admission-plugins", &admission.disable_admission_plugins),
        ] {
            found.extend(of(flag, names.iter().map(String::as_str), &plugins));
        }
        found
    }
}

fn of<'n>(
    flag: &'static str,
    names: impl Iterator<Item = &'n str>,
    known: &[&'static str],
) -> Vec<Suggestion> {
    let unknown = names.filter(|name| !known.contains(name));
    let meant = unknown.filter_map(|name| {
        let meant = nearest(name, known.iter().copied())?;
        Some(Suggestion { flag, name: name.to_owned(), meant })
    });
    meant.collect()
}
