//! The rules that apply to a user, as far as they can be listed (`RuleResolver`).

/// What a user may do in a namespace: `SelfSubjectRulesReview` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// On resources.
    pub resource_rules: Vec<ResourceRule>,
    /// On plain paths.
    pub non_resource_rules: Vec<NonResourceRule>,
    /// Whether there may be more.
    pub incomplete: bool,
    /// Why there may be more, or some may be missing.
    pub errors: Vec<String>,
}

/// Verbs on resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRule {
    /// What may be done.
    pub verbs: Vec<String>,
    /// In which API groups.
    pub api_groups: Vec<String>,
    /// With which resources.
    pub resources: Vec<String>,
    /// Empty for all.
    pub resource_names: Vec<String>,
}

/// Verbs on plain paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NonResourceRule {
    /// What may be done.
    pub verbs: Vec<String>,
    /// At which paths.
    pub non_resource_urls: Vec<String>,
}

impl Rules {
    /// Everything.
    pub fn everything() -> Self {
        let all = || vec!["*".to_owned()];
        Rules {
            resource_rules: vec![ResourceRule {
                verbs: all(),
                api_groups: all(),
                resources: all(),
                resource_names: Vec::new(),
            }],
            non_resource_rules: vec![NonResourceRule { verbs: all(), non_resource_urls: all() }],
            ..Rules::default()
        }
    }

    /// Nothing, for an authorizer that cannot list what it allows.
    pub fn unknown(error: impl Into<String>) -> Self {
        Rules { incomplete: true, errors: vec![error.into()], ..Rules::default() }
    }

    /// Adds what another authorizer allows.
    pub fn extend(&mut self, other: Rules) {
        self.resource_rules.extend(other.resource_rules);
        self.non_resource_rules.extend(other.non_resource_rules);
        self.incomplete |= other.incomplete;
        self.errors.extend(other.errors);
    }
}
