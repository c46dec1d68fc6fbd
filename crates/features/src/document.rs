//! Table of all gates for readers (`docs/feature-gates.md`).

use crate::{BINARY, EffectiveVersion, FLOOR, Feature, Gate, GateEffect, MajorMinor, Maturity};

const INTRODUCTION: &str = "# Feature gates

Every feature gate of kube-apiserver with its stage and default in each version that `--emulated-version` can name, and
its effect in Kevel. `cargo test -p kevel-features --test document` holds this page to the table in
`crates/features/src/known.rs`; with `KEVEL_WRITE=1` it writes the page.

| effect | |
| --- | --- |
| honoured | Kevel does as the gate says. |
| other component | Only the kubelet, the scheduler, the controller manager or the proxy looks at the gate. It is accepted and logged. |
| internal | The gate chooses between two ways inside the reference that clients cannot tell apart. It is accepted and logged. |
| always on, always off | Kevel acts as if the gate were on, or off. The other value is refused when the gate is named. Under `AllAlpha`, `AllBeta` and an emulated version the gate stays as it is, and that is logged. |

Stages: A alpha, B beta, G generally available, D deprecated; on or off by default; `!`: locked. `-`: the version does
not have the gate.

";

/// The page, of which every line is a fact of the table.
pub fn document() -> String {
    let versions: Vec<MajorMinor> =
        (FLOOR.1..=BINARY.1).map(|minor| MajorMinor(1, minor)).collect();
    let columns: Vec<String> = versions.iter().map(ToString::to_string).collect();
    let mut text = INTRODUCTION.to_owned();
    text.push_str(&format!("| gate | {} | effect |\n", columns.join(" | ")));
    text.push_str(&format!("| --- |{} --- |\n", " --- |".repeat(columns.len())));
    for gate in Feature::gates() {
        let states: Vec<String> = versions.iter().map(|version| state(gate, *version)).collect();
        text.push_str(&format!("| {} | {} | {} |\n", gate.name, states.join(" | "), effect(gate)));
    }
    text
}

fn state(gate: &Gate, version: MajorMinor) -> String {
    let spec = gate.at(EffectiveVersion::emulating(version));
    let stage = match spec.stage {
        Maturity::PreAlpha => return "-".to_owned(),
        Maturity::Alpha => "A",
        Maturity::Beta => "B",
        Maturity::Ga => "G",
        Maturity::Deprecated => "D",
    };
    let default = if spec.state.default_value() { "on" } else { "off" };
    let locked = if spec.state.is_locked() { "!" } else { "" };
    format!("{stage} {default}{locked}")
}

/// A gate that is locked to the value that the server acts by, in every version, is honoured.
fn effect(gate: &Gate) -> &'static str {
    let followed = |fixed: bool| {
        (FLOOR.1..=BINARY.1).all(|minor| {
            let state = gate.at(EffectiveVersion::emulating(MajorMinor(1, minor))).state;
            state.is_locked() && state.default_value() == fixed
        })
    };
    match gate.effect {
        GateEffect::AlwaysOn if !followed(true) => "always on",
        GateEffect::AlwaysOff if !followed(false) => "always off",
        GateEffect::Honoured | GateEffect::AlwaysOn | GateEffect::AlwaysOff => "honoured",
        GateEffect::Elsewhere => "other component",
        GateEffect::Internal => "internal",
    }
}
