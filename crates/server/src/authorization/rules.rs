//! Rules of a user, as far as they can be listed (upstream: `RuleResolver`).

/// Rules of a user in a namespace, for `SelfSubjectRulesReview`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Rules on resources.
    pub resource_rules: Vec<ResourceRule>,
    /// Rules on plain paths.
    pub non_resource_rules: Vec<NonResourceRule>,
    /// Whether the list may be incomplete.
    pub incomplete: bool,
    /// Errors that make the list incomplete.
    pub errors: Vec<String>,
}

/// A rule on resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRule {
    /// Allowed verbs.
    pub verbs: Vec<String>,
    /// API groups.
    pub api_groups: Vec<String>,
    /// Resources that the rule covers.
    pub resources: Vec<String>,
    /// Names of objects; empty for all.
    pub resource_names: Vec<String>,
}

/// A rule on plain paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NonResourceRule {
    /// Allowed verbs.
    pub verbs: Vec<String>,
    /// URL paths that the rule covers.
    pub non_resource_urls: Vec<String>,
}

impl Rules {
    /// Rules that allow everything.
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

    /// No rules, for an authorizer that cannot list them.
    pub fn unknown(error: impl Into<String>) -> Self {
        Rules { incomplete: true, errors: vec![error.into()], ..Rules::default() }
    }

    /// Adds the rules of another authorizer.
    pub fn extend(&mut self, other: Rules) {
        self.resource_rules.extend(other.resource_rules);
        self.non_resource_rules.extend(other.non_resource_rules);
        self.incomplete |= other.incomplete;
        self.errors.extend(other.errors);
    }
}
