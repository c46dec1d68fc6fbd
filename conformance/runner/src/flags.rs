//! Additional flags of a comparison, given to both servers.

use serde_json::Value;

use crate::control_plane::tree;
use crate::{Result, objects};

/// ExtraFlags that switch on every feature gate and every API.
const ALL_GATES: [&str; 2] =
    ["--feature-gates=AllAlpha=true,AllBeta=true", "--runtime-config=api/all=true"];

/// ExtraFlags of both servers besides those of every control plane.
#[derive(Clone, Debug, Default)]
pub struct ExtraFlags {
    /// The flags, as on a command line.
    pub flags: Vec<String>,
    all_gates: bool,
}

impl ExtraFlags {
    /// Makes the flags of a command line: `--flag`, as often as it is given, and `--all-gates`.
    pub fn new(flags: Vec<String>, all_gates: bool) -> Self {
        let gates = ALL_GATES.into_iter().filter(|_| all_gates).map(String::from);
        ExtraFlags { flags: gates.chain(flags).collect(), all_gates }
    }

    /// Objects that servers with these flags serve: one of every kind, in the order of their creation.
    pub fn objects(&self) -> Result<Vec<Value>> {
        let mut all = objects::read(&tree().join("conformance/objects.yaml"))?;
        if self.all_gates {
            all.extend(objects::read(&tree().join("conformance/objects-gated.yaml"))?);
        }
        Ok(all)
    }
}
