//! Controllers that `--controllers` selects, in kube-controller-manager's syntax.

use std::borrow::Cow;

use kevel_api::quote::quote;

use crate::CONTROLLERS;
use crate::names::{self, KnownController};

/// Selects all controllers that are on by default.
const STAR: &str = "*";
/// Selection of a server that runs alone: a cluster that nodes join by tokens needs these two, too.
const STANDALONE: [&str; 3] = [STAR, "bootstrap-signer-controller", "token-cleaner-controller"];

/// Selection of controllers: `*` for all that are on by default, a name, or a name to switch off after a `-`.
#[derive(Clone, Debug, Default)]
pub struct ControllerSelection(Vec<Cow<'static, str>>);

/// A wrong name in a selection.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// No controller manager knows the name.
    #[error("{} is not in the list of known controllers", quote(.0))]
    Unknown(String),
    /// A controller of kube-controller-manager that this server lacks.
    #[error("{} is a controller of kube-controller-manager that this server does not have", quote(.0))]
    Absent(String),
}

impl ControllerSelection {
    /// Selection of a server that runs alone.
    pub fn standalone() -> Self {
        ControllerSelection(STANDALONE.map(Cow::Borrowed).to_vec())
    }

    /// No controllers.
    pub fn none() -> Self {
        ControllerSelection::default()
    }

    /// Reads the values of the flag; all errors at once.
    pub fn parse(values: &[String]) -> Result<Self, Vec<SelectionError>> {
        let (mut selected, mut errors) = (Vec::new(), Vec::new());
        for value in values {
            if value == STAR {
                selected.push(Cow::Borrowed(STAR));
                continue;
            }
            let (off, name) = match value.strip_prefix('-') {
                Some(name) => ("-", name),
                None => ("", value.as_str()),
            };
            match names::find(name) {
                None => errors.push(SelectionError::Unknown(name.to_owned())),
                Some(known) if off.is_empty() && !is_built_in(known) => {
                    errors.push(SelectionError::Absent(name.to_owned()));
                }
                Some(known) => selected.push(Cow::Owned(format!("{off}{}", known.name))),
            }
        }
        if errors.is_empty() { Ok(ControllerSelection(selected)) } else { Err(errors) }
    }

    /// Whether a controller is selected (upstream: `IsControllerEnabled`).
    pub(crate) fn enables(&self, known: &KnownController) -> bool {
        let mut star = false;
        for value in &self.0 {
            if value == known.name {
                return true;
            }
            if value.strip_prefix('-') == Some(known.name) {
                return false;
            }
            star |= value == STAR;
        }
        star && known.on_by_default
    }

    /// Whether no controller is selected.
    pub fn is_empty(&self) -> bool {
        !names::KNOWN.iter().any(|known| self.enables(known))
    }
}

fn is_built_in(known: &KnownController) -> bool {
    CONTROLLERS.iter().any(|descriptor| descriptor.name == known.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(flag: &str) -> Result<ControllerSelection, Vec<String>> {
        let values: Vec<String> =
            flag.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect();
        let told = |errors: Vec<SelectionError>| errors.iter().map(ToString::to_string).collect();
        ControllerSelection::parse(&values).map_err(told)
    }

    #[test]
    fn names_aliases_and_the_star_select_as_the_reference_does() {
        let (accounts, signer) = ("serviceaccount-controller", "bootstrap-signer-controller");
        for (flag, name, expected) in [
            ("*", accounts, true),
            ("*", signer, false),
            ("", accounts, false),
            ("serviceaccount", accounts, true),
            ("-serviceaccount,*", accounts, false),
            ("*,-serviceaccount-controller", accounts, false),
            ("serviceaccount,-serviceaccount", accounts, true),
            ("-deployment,*", accounts, true),
            ("-namespace", accounts, false),
        ] {
            let selection = selected(flag).unwrap();
            assert_eq!(selection.enables(names::find(name).unwrap()), expected, "{flag} {name}");
        }
        let signer = names::find("bootstrap-signer-controller").unwrap();
        assert!(ControllerSelection::standalone().enables(signer));
        assert!(ControllerSelection::none().is_empty());
    }

    #[test]
    fn unknown_and_absent_controllers_are_refused() {
        assert_eq!(
            selected("*,nope,-no,deployment").unwrap_err(),
            [
                r#""nope" is not in the list of known controllers"#,
                r#""no" is not in the list of known controllers"#,
                r#""deployment" is a controller of kube-controller-manager that this server does not have"#,
            ],
        );
    }
}
