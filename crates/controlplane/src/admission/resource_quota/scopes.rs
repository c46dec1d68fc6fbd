//! Which objects a quota is about.

use kevel_api::value::Value;

/// What a quota asks of objects that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub name: String,
    pub operator: String,
    pub values: Vec<String>,
}

impl Scope {
    /// A requirement, as objects and configurations write it.
    pub fn read(requirement: &Value) -> Self {
        let values = requirement.list_at(&["values"]).iter().filter_map(Value::as_str);
        Scope {
            name: requirement.str_at(&["scopeName"]).to_owned(),
            operator: requirement.str_at(&["operator"]).to_owned(),
            values: values.map(str::to_owned).collect(),
        }
    }

    /// Whether one of some names is as the scope asks; where there are none, whether that is.
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

/// As messages show it.
impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.name, self.operator, self.values.join(" "))
    }
}

/// The scopes of a quota.
pub(super) fn of(quota: &Value) -> Vec<Scope> {
    let plain = quota.list_at(&["spec", "scopes"]).iter().filter_map(Value::as_str);
    let plain = plain.map(|name| Scope {
        name: name.to_owned(),
        operator: "Exists".to_owned(),
        values: Vec::new(),
    });
    let selected = quota.list_at(&["spec", "scopeSelector", "matchExpressions"]);
    plain.chain(selected.iter().map(Scope::read)).collect()
}
