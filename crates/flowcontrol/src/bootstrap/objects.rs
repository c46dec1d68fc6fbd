//! Bootstrap objects as rows of a table.

use kevel_api::value::{Map, Value};

use super::AUTO_UPDATE_ANNOTATION;
use crate::EXEMPT;

const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
const ALL: &str = "*";

/// A PriorityLevelConfiguration.
#[derive(Clone, Copy)]
pub(super) struct Level {
    name: &'static str,
    shares: i64,
    lendable_percent: i64,
    limits: Limits,
}

#[derive(Clone, Copy)]
enum Limits {
    Exempt,
    Reject,
    Queue { queues: i64, hand_size: i64, length_limit: i64 },
}

/// A level without queues: excess requests are rejected.
pub(super) const fn level(name: &'static str, shares: i64, lendable_percent: i64) -> Level {
    Level { name, shares, lendable_percent, limits: Limits::Reject }
}

impl Level {
    /// The exempt level.
    pub(super) const EXEMPT: Level =
        Level { name: EXEMPT, shares: 0, lendable_percent: 0, limits: Limits::Exempt };

    /// Copy of the level with queues for excess requests.
    pub(super) const fn queues(self, queues: i64, hand_size: i64, length_limit: i64) -> Self {
        Level { limits: Limits::Queue { queues, hand_size, length_limit }, ..self }
    }

    pub(super) fn object(&self) -> Value {
        let mut said = vec![
            ("nominalConcurrencyShares", self.shares.into()),
            ("lendablePercent", self.lendable_percent.into()),
        ];
        let response = match self.limits {
            Limits::Exempt => None,
            Limits::Reject => Some(map([("type", "Reject".into())])),
            Limits::Queue { queues, hand_size, length_limit } => {
                let queuing = [
                    ("queues", queues.into()),
                    ("handSize", hand_size.into()),
                    ("queueLengthLimit", length_limit.into()),
                ];
                Some(map([("type", "Queue".into()), ("queuing", map(queuing))]))
            }
        };
        let (ty, field) = match response {
            None => ("Exempt", "exempt"),
            Some(_) => ("Limited", "limited"),
        };
        said.extend(response.map(|response| ("limitResponse", response)));
        let spec = map([("type", ty.into()), (field, map(said))]);
        object("PriorityLevelConfiguration", self.name, spec)
    }
}

/// A FlowSchema with one rule.
#[derive(Clone, Copy)]
pub(super) struct Schema {
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: Option<Distinguisher>,
    subjects: &'static [Subject],
    resources: &'static [Resources],
    /// Verbs and paths.
    urls: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Copy)]
pub(super) enum Distinguisher {
    ByUser,
    ByNamespace,
}

#[derive(Clone, Copy)]
pub(super) enum Subject {
    Group(&'static str),
    User(&'static str),
    KubeSystemServiceAccounts,
}

/// Verbs, an API group and resources, in all namespaces.
#[derive(Clone, Copy)]
pub(super) struct Resources {
    verbs: &'static str,
    group: &'static str,
    resources: &'static str,
    cluster_scope: bool,
}

pub(super) const fn schema(name: &'static str, level: &'static str, precedence: i64) -> Schema {
    Schema {
        name,
        level,
        precedence,
        distinguisher: None,
        subjects: &[],
        resources: &[],
        urls: None,
    }
}

pub(super) const fn on(
    verbs: &'static str,
    group: &'static str,
    resources: &'static str,
) -> Resources {
    Resources { verbs, group, resources, cluster_scope: false }
}

impl Resources {
    /// Copy of the rule that matches cluster-scoped requests, too.
    pub(super) const fn in_cluster(self) -> Self {
        Resources { cluster_scope: true, ..self }
    }

    fn object(&self) -> Value {
        let mut rule = vec![
            ("verbs", words(self.verbs)),
            ("apiGroups", list([self.group.into()])),
            ("resources", words(self.resources)),
            ("namespaces", words(ALL)),
        ];
        rule.extend(self.cluster_scope.then_some(("clusterScope", true.into())));
        map(rule)
    }
}

impl Schema {
    pub(super) const fn by(self, distinguisher: Distinguisher) -> Self {
        Schema { distinguisher: Some(distinguisher), ..self }
    }

    pub(super) const fn of(self, subjects: &'static [Subject]) -> Self {
        Schema { subjects, ..self }
    }

    pub(super) const fn resources(self, resources: &'static [Resources]) -> Self {
        Schema { resources, ..self }
    }

    pub(super) const fn urls(self, verbs: &'static str, paths: &'static str) -> Self {
        Schema { urls: Some((verbs, paths)), ..self }
    }

    /// Adds rules for all resources and all non-resource URLs.
    pub(super) const fn everything(self) -> Self {
        const ALL_RESOURCES: &[Resources] = &[on(ALL, ALL, ALL).in_cluster()];
        self.resources(ALL_RESOURCES).urls(ALL, ALL)
    }

    pub(super) fn object(&self) -> Value {
        let mut rule = vec![("subjects", list(self.subjects.iter().map(Subject::object)))];
        if !self.resources.is_empty() {
            rule.push(("resourceRules", list(self.resources.iter().map(Resources::object))));
        }
        rule.extend(self.urls.map(|(verbs, paths)| {
            let urls = map([("verbs", words(verbs)), ("nonResourceURLs", words(paths))]);
            ("nonResourceRules", list([urls]))
        }));
        let mut spec = vec![
            ("priorityLevelConfiguration", map([("name", self.level.into())])),
            ("matchingPrecedence", self.precedence.into()),
            ("rules", list([map(rule)])),
        ];
        spec.extend(self.distinguisher.map(|distinguisher| {
            let method = match distinguisher {
                Distinguisher::ByUser => "ByUser",
                Distinguisher::ByNamespace => "ByNamespace",
            };
            ("distinguisherMethod", map([("type", method.into())]))
        }));
        object("FlowSchema", self.name, map(spec))
    }
}

impl Subject {
    fn object(&self) -> Value {
        let named = |name: &'static str| map([("name", name.into())]);
        let (kind, field, described) = match *self {
            Subject::Group(name) => ("Group", "group", named(name)),
            Subject::User(name) => ("User", "user", named(name)),
            Subject::KubeSystemServiceAccounts => {
                let all = [("namespace", "kube-system".into()), ("name", ALL.into())];
                ("ServiceAccount", "serviceAccount", map(all))
            }
        };
        map([("kind", kind.into()), (field, described)])
    }
}

fn object(kind: &'static str, name: &'static str, spec: Value) -> Value {
    let annotations = map([(AUTO_UPDATE_ANNOTATION, "true".into())]);
    map([
        ("apiVersion", API_VERSION.into()),
        ("kind", kind.into()),
        ("metadata", map([("name", name.into()), ("annotations", annotations)])),
        ("spec", spec),
    ])
}

fn map(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Map(Map::from_iter(entries))
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

fn words(text: &'static str) -> Value {
    list(text.split(' ').map(Value::from))
}
