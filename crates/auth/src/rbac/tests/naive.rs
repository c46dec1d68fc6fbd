//! Decisions beside a naive evaluation of the objects themselves, in worlds made up at random.

use std::collections::BTreeMap;

use super::super::index::SEARCHED_ROLES;
use super::*;
use crate::rule::{self, Coverage, PolicyRule};

/// A small generator of numbers; the same ones each time.
pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn some<'a>(&mut self, from: &[&'a str], most: usize) -> Vec<&'a str> {
        (0..=self.below(most)).map(|_| self.pick(from)).collect()
    }

    fn list(&mut self, from: &[&str], most: usize) -> Value {
        Value::List(self.some(from, most).into_iter().map(Value::from).collect())
    }
}

const VERBS: [&str; 4] = ["get", "list", "create", "*"];
const GROUPS: [&str; 3] = ["", "apps", "*"];
const RESOURCES: [&str; 7] = ["pods", "jobs", "pods/log", "jobs/scale", "*/scale", "*/log", "*"];
pub(super) const NAMES: [&str; 3] = ["a", "b", ""];
const URLS: [&str; 7] = ["/", "/x", "/x/*", "/x/y*", "/x/y", "/x/y/**", "*"];
const NAMESPACES: [&str; 3] = ["n", "m", "o"];
const SUBJECTS: [&str; 9] = [
    "User:u",
    "User:v",
    "User:system:serviceaccount:n:u",
    "Group:u",
    "Group:g",
    "Group:h",
    "ServiceAccount:u",
    "ServiceAccount:m/u",
    "Other:u",
];

/// Size of a world.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Names of roles, in each namespace and of the cluster.
    roles: usize,
    /// Most rules of a role.
    rules: usize,
    /// Names of bindings.
    bindings: usize,
    /// Most subjects of a binding.
    subjects: usize,
    changes: usize,
    /// Number of values that names and groups have besides those of small worlds: a large world must not allow everything.
    values: usize,
}

const SMALL: Shape = Shape { roles: 5, rules: 4, bindings: 6, subjects: 5, changes: 60, values: 0 };
/// Subjects with so many roles that their rules are looked up together.
const MANY_ROLES: Shape =
    Shape { roles: 120, rules: 2, bindings: 200, subjects: 9, changes: 900, values: 40 };
/// Roles with so many rules that each has an index of its own, beside small ones.
const LARGE_ROLES: Shape =
    Shape { roles: 4, rules: 60, bindings: 12, subjects: 5, changes: 60, values: 60 };

/// A value that only large worlds have, now and then.
fn value(random: &mut Random, prefix: &str, of: &[&str], shape: Shape) -> String {
    match shape.values {
        0 => random.pick(of).to_owned(),
        _ if random.below(20) == 0 => random.pick(of).to_owned(),
        values => format!("{prefix}{}", random.below(values)),
    }
}

pub(super) fn random_role(random: &mut Random) -> Value {
    shaped_role(random, SMALL)
}

fn shaped_role(random: &mut Random, shape: Shape) -> Value {
    let count = 1 + random.below(shape.rules);
    let rules = (0..count).map(|_| random_rule(random, shape)).collect();
    map([("rules", Value::List(rules))])
}

fn random_rule(random: &mut Random, shape: Shape) -> Value {
    // Stars are rare, or everything is allowed.
    let rare = random.below(if shape.values == 0 { 12 } else { 200 }) == 0;
    let end = |all: usize| if rare { all } else { all - 1 };
    let verbs = random.list(&VERBS[..end(4)], 2);
    match random.below(4) {
        0 => {
            let urls = match shape.values {
                0 => random.list(&URLS, 2),
                _ => {
                    let url = value(random, "/x/", &URLS[..end(7)], shape);
                    let star = if random.below(4) == 0 { "*" } else { "" };
                    words(&format!("{url}{star}"))
                }
            };
            map([("verbs", verbs), ("nonResourceURLs", urls)])
        }
        kind => {
            let (groups, resources) = match shape.values {
                0 => (random.list(&GROUPS[..end(3)], 2), random.list(&RESOURCES[..end(7)], 2)),
                _ => {
                    let group = value(random, "g", &GROUPS[..end(3)], shape);
                    let resource = value(random, "r", &RESOURCES[..end(7)], shape);
                    (words(&group), words(&resource))
                }
            };
            let mut rule =
                Map::from_iter([("verbs", verbs), ("apiGroups", groups), ("resources", resources)]);
            if kind == 1 {
                let named = value(random, "name", &NAMES, shape);
                let named = [named, random.pick(&NAMES).to_owned()];
                let count = 1 + random.below(2);
                let names = named[..count].iter().map(|name| name.as_str().into());
                rule.insert("resourceNames", Value::List(names.collect()));
            }
            rule.into()
        }
    }
}

fn random_binding(random: &mut Random, shape: Shape) -> Value {
    let kind = random.pick(&["Role", "ClusterRole", "ClusterRole", "ClusterRole"]);
    let kind = if random.below(20) == 0 { "Other" } else { kind };
    let role = format!("{kind}:{}", random.below(shape.roles));
    binding(&role, &random.some(&SUBJECTS, shape.subjects))
}

pub(super) fn random_request<'a>(random: &mut Random, user: &'a User) -> Attributes<'a> {
    Attributes {
        verb: random.pick(&["get", "get", "list", "create", "*"]),
        is_resource: random.below(4) > 0,
        path: random.pick(&["/", "/x", "/x/", "/x/y", "/x/y/z", "/x/yz", "/z", "", "*"]),
        group: random.pick(&["", "", "apps", "apps", "*"]),
        namespace: random.pick(&["", "n", "m", "o", "none"]),
        resource: random.pick(&["pods", "pods", "jobs", "jobs", "other", "*"]),
        subresource: random.pick(&["", "", "log", "scale"]),
        name: random.pick(&NAMES),
        ..asked(user, "get /")
    }
}

/// The objects themselves, evaluated as the documentation tells.
type World = BTreeMap<(u8, String), Value>;

pub(super) fn text_list<'v>(value: &'v Value, field: &str) -> Vec<&'v str> {
    let list = value.at(&[field]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

/// All rules that a user has in a namespace.
fn held<'w>(world: &'w World, user: &User, namespace: &str) -> Vec<&'w Value> {
    let bound = world.iter().filter_map(|((kind, key), binding)| {
        let own = match (*kind, key.split_once('/')) {
            (BINDING, Some((own, _))) if own == namespace => own,
            (CLUSTER_BINDING, None) => "",
            _ => return None,
        };
        let role = binding.str_at(&["roleRef", "name"]);
        let role = match binding.str_at(&["roleRef", "kind"]) {
            "Role" => world.get(&(ROLE, format!("{own}/{role}"))),
            "ClusterRole" => world.get(&(CLUSTER_ROLE, role.to_owned())),
            _ => None,
        };
        let subjects = binding.at(&["subjects"]).and_then(Value::as_list).unwrap();
        let means = subjects.iter().any(|subject| is_subject(subject, user, own));
        role.filter(|_| means)
    });
    bound.flat_map(|role| role.at(&["rules"]).and_then(Value::as_list).unwrap()).collect()
}

fn is_subject(subject: &Value, user: &User, binding_namespace: &str) -> bool {
    let name = subject.str_at(&["name"]);
    match subject.str_at(&["kind"]) {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let own = subject.str_at(&["namespace"]);
            let of = if own.is_empty() { binding_namespace } else { own };
            !of.is_empty() && user.name == format!("system:serviceaccount:{of}:{name}")
        }
        _ => false,
    }
}

pub(super) fn naive_rule(rule: &Value, asked: &Attributes<'_>) -> bool {
    let is = |field: &str, wanted: &str| {
        text_list(rule, field).into_iter().any(|text| text == "*" || text == wanted)
    };
    if !asked.is_resource {
        let url = |url: &str| match url.strip_suffix('*') {
            Some(start) => asked.path.starts_with(start.trim_end_matches('*')),
            None => url == asked.path,
        };
        return is("verbs", asked.verb) && text_list(rule, "nonResourceURLs").into_iter().any(url);
    }
    let whole = match asked.subresource {
        "" => asked.resource.to_owned(),
        subresource => format!("{}/{subresource}", asked.resource),
    };
    let any = format!("*/{}", asked.subresource);
    let names = text_list(rule, "resourceNames");
    is("verbs", asked.verb)
        && is("apiGroups", asked.group)
        && (is("resources", &whole) || (!asked.subresource.is_empty() && is("resources", &any)))
        && (names.is_empty() || names.contains(&asked.name))
}

const ROLE: u8 = Kind::Role as u8;
const BINDING: u8 = Kind::RoleBinding as u8;
const CLUSTER_ROLE: u8 = Kind::ClusterRole as u8;
const CLUSTER_BINDING: u8 = Kind::ClusterRoleBinding as u8;

/// Decisions so far, and how many of them were about what.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    allowed: usize,
    /// Of subjects whose small roles are indexed together.
    of_many_roles: usize,
    allowed_of_many_roles: usize,
    /// Of subjects with a role that has an index of its own.
    of_large_roles: usize,
    allowed_of_large_roles: usize,
    uncovered: usize,
    covered: usize,
}

/// Changes a world and the policy in the same way.
fn change(random: &mut Random, shape: Shape, world: &mut World, policy: &mut Policy) {
    let kind = Kind::ALL[random.below(4)];
    let own = random.below(shape.roles).to_string();
    let bound = random.below(shape.bindings).to_string();
    let namespace = random.pick(&NAMESPACES);
    let (key, object) = match kind {
        Kind::Role => (format!("{namespace}/{own}"), shaped_role(random, shape)),
        Kind::ClusterRole => (own, shaped_role(random, shape)),
        Kind::RoleBinding => (format!("{namespace}/{bound}"), random_binding(random, shape)),
        Kind::ClusterRoleBinding => (bound, random_binding(random, shape)),
    };
    let object = (random.below(5) > 0).then_some(object);
    policy.set(kind, &key, object.as_ref());
    match object {
        Some(object) => world.insert((kind as u8, key), object),
        None => world.remove(&(kind as u8, key)),
    };
}

fn random_user(random: &mut Random) -> User {
    let accounts = ["system:serviceaccount:n:u", "system:serviceaccount:m:u"];
    let name = random.pick(&["u", "v", "g", accounts[0], accounts[1]]);
    user(name, &random.some(&["u", "g", "h", "none", "none"], 2))
}

/// Asks for something, in large worlds often for what one of the user's rules is about.
fn compare(random: &mut Random, shape: Shape, world: &World, rbac: &Rbac, counts: &mut Counts) {
    let user = random_user(random);
    let mut request = random_request(random, &user);
    let rules = held(world, &user, request.namespace);
    if shape.values > 0 && !rules.is_empty() && random.below(3) > 0 {
        let rule = rules[random.below(rules.len())];
        let first = |field: &str| text_list(rule, field).first().copied();
        request.is_resource = first("resources").is_some();
        request.path = first("nonResourceURLs").unwrap_or(request.path);
        request.group = first("apiGroups").unwrap_or(request.group);
        if let Some(resource) = first("resources") {
            (request.resource, request.subresource) =
                resource.split_once('/').unwrap_or((resource, ""));
        }
        request.name = first("resourceNames").unwrap_or(request.name);
    }
    let expected = rules.iter().any(|rule| naive_rule(rule, &request));
    let found = rbac.decide(&request);
    let allowed = found.decision == Decision::Allow;
    assert_eq!(allowed, expected, "{request:?}\n{found:?}\n{world:?}");
    let index = rbac.index.load();
    let (mut many, mut large) = (false, false);
    for held in index.of(&user, request.namespace) {
        many |= held.roles().filter(|role| !role.is_large()).count() > SEARCHED_ROLES;
        large |= held.roles().any(|role| role.is_large());
    }
    counts.all += 1;
    counts.allowed += usize::from(allowed);
    counts.of_many_roles += usize::from(many);
    counts.allowed_of_many_roles += usize::from(many && allowed);
    counts.of_large_roles += usize::from(large);
    counts.allowed_of_large_roles += usize::from(large && allowed);
    compare_coverage(random, shape, (&rules, rbac), (&user, request.namespace), counts);
}

/// Compares the permissions that a user lacks with those that all rules together lack.
fn compare_coverage(
    random: &mut Random,
    shape: Shape,
    (rules, rbac): (&[&Value], &Rbac),
    (user, namespace): (&User, &str),
    counts: &mut Counts,
) {
    let mut wanted = shaped_role(random, Shape { rules: 2, ..shape });
    if !rules.is_empty() && random.below(2) == 0 {
        let own = rules[random.below(rules.len())].clone();
        wanted = map([("rules", Value::List([own].into_iter().collect()))]);
    }
    let wanted = rule::rules(&wanted);
    let all = map([("rules", Value::List(rules.iter().copied().cloned().collect()))]);
    let all: Vec<PolicyRule> = rule::rules(&all);
    let expected = rule::uncovered([&Coverage::new(&all)], &wanted).unwrap();
    let found = rbac.rules_of(user, namespace).uncovered(&wanted).unwrap();
    assert_eq!(found, expected, "{user:?} {namespace} {wanted:?}\n{all:?}");
    counts.uncovered += usize::from(!found.is_empty());
    counts.covered += usize::from(found.is_empty());
}

#[test]
fn decisions_equal_a_naive_evaluation() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut counts = Counts::default();
    for round in 0..400 {
        let shape = match round % 20 {
            0 => MANY_ROLES,
            5 | 15 => LARGE_ROLES,
            _ => SMALL,
        };
        let (mut world, mut policy) = (World::new(), Policy::default());
        let rbac = rbac(&mut policy);
        for number in 1..=shape.changes {
            change(&mut random, shape, &mut world, &mut policy);
            // Changes are shown one by one, or several at once; what was decided in between must not be remembered.
            if random.below(3) == 0 || number == shape.changes {
                rbac.index.store(Arc::new(policy.index()));
                if random.below(8) == 0 {
                    compare(&mut random, shape, &world, &rbac, &mut counts);
                }
            }
        }
        for _ in 0..20 {
            compare(&mut random, shape, &world, &rbac, &mut counts);
        }
    }
    let Counts { all, allowed, .. } = counts;
    assert!(allowed > all / 20 && allowed < all * 2 / 3, "{counts:?}");
    assert!(counts.allowed_of_many_roles > 100, "{counts:?}");
    assert!(counts.of_many_roles - counts.allowed_of_many_roles > 100, "{counts:?}");
    assert!(counts.allowed_of_large_roles > 100, "{counts:?}");
    assert!(counts.of_large_roles - counts.allowed_of_large_roles > 100, "{counts:?}");
    assert!(counts.covered > all / 10 && counts.uncovered > all / 10, "{counts:?}");
}
