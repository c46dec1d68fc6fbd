//! Scopes of quotas: the objects that a quota applies to.

use kevel_api::value::Value;

/// A scope selector requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// `Terminating`
    pub name: String,
    /// `In`
    pub operator: String,
    /// Values of the operator.
    pub values: Vec<String>,
}

impl Scope {
    /// Reads a ScopedResourceSelectorRequirement of a quota or configuration.
    pub fn read(requirement: &Value) -> Self {
        let values = requirement.list_at(&["values"]).iter().filter_map(Value::as_str);
        Scope {
            name: requirement.str_at(&["scopeName"]).to_owned(),
            operator: requirement.str_at(&["operator"]).to_owned(),
            values: values.map(str::to_owned).collect(),
        }
    }

    /// True if the requirement matches one of the names, or the absence of names.
    pub fn selects(&self, names: &[&str]) -> bool {
        let listed = |name: &&str| self.values.iter().any(|value| value == name);
        match self.operator.as_str() {
            "Exists" => !names.is_empty(),
            "DoesNotExist" => names.is_empty(),
            "In" => names.iter().any(listed),
            "NotIn" => names.is_empty() || names.iter().any(|name| !listed(name)),
            _ => false,
        }
    }
}

/// As the reference's messages print it.
impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.name, self.operator, self.values.join(" "))
    }
}

/// Scopes of a quota: `scopes` and `scopeSelector`.
pub fn of(quota: &Value) -> Vec<Scope> {
    let plain = quota.list_at(&["spec", "scopes"]).iter().filter_map(Value::as_str);
    let plain = plain.map(|name| Scope {
        name: name.to_owned(),
        operator: "Exists".to_owned(),
        values: Vec::new(),
    });
    let selected = quota.list_at(&["spec", "scopeSelector", "matchExpressions"]);
    plain.chain(selected.iter().map(Scope::read)).collect()
}
