//! The roles and bindings that every cluster starts with, as tables. Lists are words in one text.

mod cluster_role_bindings;
mod cluster_roles;
mod controllers;
mod gated;
mod namespaced;

use std::collections::BTreeSet;

use kevel_api::value::{Map, Value};

use self::cluster_role_bindings::CLUSTER_ROLE_BINDINGS;
use self::cluster_roles::CLUSTER_ROLES;
use self::controllers::CONTROLLERS;
use self::namespaced::{ROLE_BINDINGS, ROLES};
use crate::GROUP;
use crate::rule::PolicyRule;

/// Annotation of bootstrap objects: they are reconciled with the policy unless it says `false`.
pub(super) const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

/// The verbs that only look.
const READ: &str = "get list watch";
/// The verbs that change something.
const WRITE: &str = "create delete deletecollection patch update";
/// Verbs of readers and writers together.
const ALL: &str = "create delete deletecollection get list patch update watch";

/// An object that has to be there.
#[derive(Debug)]
pub(super) struct Desired {
    pub plural: &'static str,
    /// Empty for the cluster's.
    pub namespace: &'static str,
    pub object: Value,
}

/// Bootstrap objects under these feature gates: roles before bindings.
pub(super) fn policy(on: &Gates) -> Vec<Desired> {
    let open = |gates: &str| gates.split_whitespace().all(|gate| on.contains(gate));
    let gated = gated::CONTROLLERS.iter().filter(|(gates, _)| open(gates));
    let controllers: Vec<_> = CONTROLLERS.iter().chain(gated.map(|(_, gated)| gated)).collect();
    let roles: Vec<_> = gated::CLUSTER_ROLES.iter().filter(|(gates, ..)| open(gates)).collect();
    let mut all: Vec<Desired> = CLUSTER_ROLES.iter().map(ClusterRole::desired).collect();
    all.extend(roles.iter().map(|(_, name, rules, _)| ClusterRole::new(name, rules).desired()));
    all.extend(controllers.iter().map(|controller| controller.desired_role()));
    for (_, name, rules) in gated::RULES.iter().filter(|(gates, ..)| open(gates)) {
        let named = |role: &&mut Desired| role.object.str_at(&["metadata", "name"]) == *name;
        let role = all.iter_mut().find(named);
        let of_role = role.and_then(|role| role.object.at_mut(&["rules"])?.as_list_mut());
        if let Some(all) = of_role {
            all.extend(rules.iter().map(|rule| rule.policy_rule().to_value()));
        }
    }
    all.extend(CLUSTER_ROLE_BINDINGS.iter().map(ClusterRoleBinding::desired));
    all.extend(
        roles.iter().map(|(_, name, _, subjects)| ClusterRoleBinding { name, subjects }.desired()),
    );
    all.extend(controllers.iter().map(|controller| controller.desired_binding()));
    all.extend(ROLES.iter().map(Role::desired));
    all.extend(ROLE_BINDINGS.iter().map(RoleBinding::desired));
    all
}

/// Whether there is a role of a controller, whatever feature gate it goes with.
pub(super) fn has_controller(name: &str) -> bool {
    let of_role = |role: &Role| role.name.strip_prefix("system:controller:") == Some(name);
    let gated = gated::CONTROLLERS.iter().map(|(_, controller)| controller);
    CONTROLLERS.iter().chain(gated).any(|controller| controller.name == name)
        || ROLES.iter().any(of_role)
}

/// Names of feature gates that are on.
pub type Gates = BTreeSet<&'static str>;

/// Names of the feature gates that roles and rules go with.
pub fn gates() -> Gates {
    let controllers = gated::CONTROLLERS.iter().map(|(gates, _)| *gates);
    let roles = gated::CLUSTER_ROLES.iter().map(|(gates, ..)| *gates);
    let rules = gated::RULES.iter().map(|(gates, ..)| *gates);
    controllers.chain(roles).chain(rules).flat_map(str::split_whitespace).collect()
}

/// Rules of every node.
pub(crate) fn node_rules() -> Vec<PolicyRule> {
    let nodes = CLUSTER_ROLES.iter().filter(|role| role.name == "system:node");
    nodes.flat_map(|role| role.rules).map(Rule::policy_rule).collect()
}

struct ClusterRole {
    name: &'static str,
    rules: &'static [Rule],
    /// Label by which this role aggregates the rules of other roles.
    aggregates: Option<&'static str>,
    /// Label by which this role is aggregated into another.
    part_of: Option<&'static str>,
}

impl ClusterRole {
    const fn new(name: &'static str, rules: &'static [Rule]) -> Self {
        ClusterRole { name, rules, aggregates: None, part_of: None }
    }

    const fn aggregate(name: &'static str, aggregates: &'static str) -> Self {
        ClusterRole { name, rules: &[], aggregates: Some(aggregates), part_of: None }
    }

    const fn aggregated_to(mut self, role: &'static str) -> Self {
        self.part_of = Some(role);
        self
    }

    fn desired(&self) -> Desired {
        let mut object = role("ClusterRole", "", self.name, self.rules);
        if let Some(role) = self.part_of {
            let labels = object.at_mut(&["metadata", "labels"]).and_then(Value::as_map_mut);
            labels.map(|labels| labels.insert(aggregation_label(role), "true".into()));
        }
        if let (Some(role), Some(object)) = (self.aggregates, object.as_map_mut()) {
            let labels = Map::from_iter([(aggregation_label(role), Value::from("true"))]);
            let selector = map([("matchLabels", labels.into())]);
            let selectors = list([selector]);
            object.insert("aggregationRule", map([("clusterRoleSelectors", selectors)]));
        }
        Desired { plural: "clusterroles", namespace: "", object }
    }
}

fn aggregation_label(role: &str) -> String {
    format!("{GROUP}/aggregate-to-{role}")
}

struct ClusterRoleBinding {
    name: &'static str,
    subjects: &'static [Subject],
}

impl ClusterRoleBinding {
    fn desired(&self) -> Desired {
        let role = ("ClusterRole", self.name);
        let object = binding("ClusterRoleBinding", "", self.name, role, self.subjects);
        Desired { plural: "clusterrolebindings", namespace: "", object }
    }
}

struct Controller {
    name: &'static str,
    rules: &'static [Rule],
}

impl Controller {
    fn full_name(&self) -> String {
        format!("system:controller:{}", self.name)
    }

    fn desired_role(&self) -> Desired {
        let object = role("ClusterRole", "", &self.full_name(), self.rules);
        Desired { plural: "clusterroles", namespace: "", object }
    }

    fn desired_binding(&self) -> Desired {
        let (name, subjects) = (self.full_name(), [system_account(self.name)]);
        let role = ("ClusterRole", name.as_str());
        let object = binding("ClusterRoleBinding", "", &name, role, &subjects);
        Desired { plural: "clusterrolebindings", namespace: "", object }
    }
}

struct Role {
    namespace: &'static str,
    name: &'static str,
    rules: &'static [Rule],
}

impl Role {
    fn desired(&self) -> Desired {
        let object = role("Role", self.namespace, self.name, self.rules);
        Desired { plural: "roles", namespace: self.namespace, object }
    }
}

struct RoleBinding {
    namespace: &'static str,
    name: &'static str,
    role: &'static str,
    subjects: &'static [Subject],
}

impl RoleBinding {
    fn desired(&self) -> Desired {
        let role = ("Role", self.role);
        let object = binding("RoleBinding", self.namespace, self.name, role, self.subjects);
        Desired { plural: "rolebindings", namespace: self.namespace, object }
    }
}

#[derive(Clone, Copy)]
struct Rule {
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
    urls: &'static str,
    verbs: &'static str,
}

/// Verbs on resources of groups; the group that has no name is `core`.
const fn on(groups: &'static str, resources: &'static str, verbs: &'static str) -> Rule {
    Rule { groups, resources, names: "", urls: "", verbs }
}

/// Verbs on plain paths.
const fn url(urls: &'static str, verbs: &'static str) -> Rule {
    Rule { groups: "", resources: "", names: "", urls, verbs }
}

impl Rule {
    /// Limits the rule to objects of these names.
    const fn named(mut self, names: &'static str) -> Self {
        self.names = names;
        self
    }

    fn policy_rule(&self) -> PolicyRule {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let group = |group: String| if group == "core" { String::new() } else { group };
        PolicyRule {
            verbs: words(self.verbs),
            api_groups: words(self.groups).into_iter().map(group).collect(),
            resources: words(self.resources),
            resource_names: words(self.names),
            non_resource_urls: words(self.urls),
        }
    }
}

#[derive(Clone, Copy)]
enum Subject {
    User(&'static str),
    Group(&'static str),
    /// A service account of `kube-system`.
    SystemAccount(&'static str),
}

const fn user(name: &'static str) -> Subject {
    Subject::User(name)
}

const fn group(name: &'static str) -> Subject {
    Subject::Group(name)
}

const fn system_account(name: &'static str) -> Subject {
    Subject::SystemAccount(name)
}

impl Subject {
    fn to_value(self) -> Value {
        let of_group = |kind: &str, name: &str| {
            map([("kind", kind.into()), ("apiGroup", GROUP.into()), ("name", name.into())])
        };
        match self {
            Subject::User(name) => of_group("User", name),
            Subject::Group(name) => of_group("Group", name),
            Subject::SystemAccount(name) => map([
                ("kind", "ServiceAccount".into()),
                ("name", name.into()),
                ("namespace", "kube-system".into()),
            ]),
        }
    }
}

fn role(kind: &str, namespace: &str, name: &str, rules: &[Rule]) -> Value {
    let rules = list(rules.iter().map(|rule| rule.policy_rule().to_value()));
    object(kind, namespace, name, [("rules", rules)])
}

fn binding(
    kind: &str,
    namespace: &str,
    name: &str,
    (role_kind, role): (&str, &str),
    subjects: &[Subject],
) -> Value {
    let subjects = list(subjects.iter().map(|subject| subject.to_value()));
    let role = map([("apiGroup", GROUP.into()), ("kind", role_kind.into()), ("name", role.into())]);
    object(kind, namespace, name, [("subjects", subjects), ("roleRef", role)])
}

/// Builds an object without its empty fields.
fn object<const N: usize>(
    kind: &str,
    namespace: &str,
    name: &str,
    content: [(&str, Value); N],
) -> Value {
    let (label, value) = BOOTSTRAPPING;
    let metadata = map([
        ("name", name.into()),
        ("namespace", namespace.into()),
        ("labels", map([(label, value.into())])),
        ("annotations", map([(AUTOUPDATE, "true".into())])),
    ]);
    let version = format!("{GROUP}/v1");
    let common =
        [("apiVersion", version.as_str().into()), ("kind", kind.into()), ("metadata", metadata)];
    map(common.into_iter().chain(content))
}

fn map<'k>(entries: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    Map::from_iter(entries.into_iter().filter(|(_, value)| !value.is_empty())).into()
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}
