//! `rules` of a webhook or policy (upstream: rules.Matcher).

use kevel_api::value::Value;
use kevel_registry::admission::{Attributes, Operation};
use kevel_registry::resource::Resource;

/// A compiled rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    operations: Operations,
    scope: Scope,
    groups: Names,
    versions: Names,
    /// Pairs of plural and subresource: `pods/*` in two parts.
    resources: Vec<(Name, Name)>,
    /// `resourceNames`; empty matches all names.
    names: Vec<String>,
}

impl Rule {
    /// Compiles a list of rules.
    pub fn list(rules: &[Value]) -> Vec<Rule> {
        rules.iter().map(Rule::new).collect()
    }

    fn new(rule: &Value) -> Self {
        Rule {
            operations: Operations::new(strings(rule, "operations")),
            scope: Scope::new(rule.str_at(&["scope"])),
            groups: Names::new(strings(rule, "apiGroups")),
            versions: Names::new(strings(rule, "apiVersions")),
            resources: strings(rule, "resources").map(split_resource).collect(),
            names: strings(rule, "resourceNames").map(str::to_owned).collect(),
        }
    }

    /// Whether the rule matches a request as if it were one to this row.
    pub fn matches(&self, attributes: &Attributes<'_>, resource: &Resource) -> bool {
        // The resource comes first: it excludes most rules.
        self.resources.iter().any(|(plural, subresource)| {
            plural.is(&resource.plural) && subresource.is(attributes.subresource)
        }) && self.matches_all_but_resource(attributes)
            && self.groups.contain(&resource.kind.group)
            && self.versions.contain(&resource.kind.version)
            && self.scope.contains(attributes, resource)
    }

    /// Whether the parts of the rule match that do not depend on the row.
    pub fn matches_all_but_resource(&self, attributes: &Attributes<'_>) -> bool {
        self.operations.contain(attributes.operation)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }
}

fn strings<'v>(rule: &'v Value, field: &'static str) -> impl Iterator<Item = &'v str> {
    let list = rule.at(&[field]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str)
}

/// Splits `pods/status` into plural and subresource; `pods` alone has an empty subresource.
fn split_resource(text: &str) -> (Name, Name) {
    let (plural, subresource) = text.split_once('/').unwrap_or((text, ""));
    (Name::new(plural), Name::new(subresource))
}

/// A name, or `*` for all.
#[derive(Clone, Debug)]
enum Name {
    All,
    One(String),
}

impl Name {
    fn new(text: &str) -> Self {
        if text == "*" { Name::All } else { Name::One(text.to_owned()) }
    }

    fn is(&self, name: &str) -> bool {
        match self {
            Name::All => true,
            Name::One(one) => one == name,
        }
    }
}

#[derive(Clone, Debug)]
enum Names {
    All,
    Some(Vec<String>),
}

impl Names {
    fn new<'v>(names: impl Iterator<Item = &'v str>) -> Self {
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.iter().any(|name| name == "*") { Names::All } else { Names::Some(names) }
    }

    fn contain(&self, name: &str) -> bool {
        match self {
            Names::All => true,
            Names::Some(names) => names.iter().any(|one| one == name),
        }
    }
}

/// Set of operations, a bit for each.
#[derive(Clone, Copy, Debug)]
struct Operations(u8);

impl Operations {
    fn new<'v>(names: impl Iterator<Item = &'v str>) -> Self {
        let bits = names.map(|name| match name {
            "*" => u8::MAX,
            name => Operation::parse(name).map_or(0, |operation| 1 << operation as u8),
        });
        Operations(bits.fold(0, |all, bit| all | bit))
    }

    fn contain(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u8) != 0
    }
}

#[derive(Clone, Copy, Debug)]
enum Scope {
    All,
    Namespaced,
    Cluster,
    /// An unknown scope matches nothing.
    Unknown,
}

impl Scope {
    fn new(text: &str) -> Self {
        match text {
            "" | "*" => Scope::All,
            "Namespaced" => Scope::Namespaced,
            "Cluster" => Scope::Cluster,
            _ => Scope::Unknown,
        }
    }

    fn contains(self, attributes: &Attributes<'_>, resource: &Resource) -> bool {
        // A request for a namespace has that namespace in its attributes, but the object is cluster-scoped.
        let is_namespace = resource.plural == "namespaces"
            && resource.kind.group.is_empty()
            && resource.kind.version == "v1";
        let cluster = is_namespace || attributes.namespace.is_empty();
        match self {
            Scope::All => true,
            Scope::Namespaced => !cluster,
            Scope::Cluster => cluster,
            Scope::Unknown => false,
        }
    }
}
