mod aggregated;
mod follow;
mod naive;

use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::{Map, Value};
use kevel_clock::Stopwatch;
use kevel_registry::selectors::NO_SELECTORS;
use kevel_registry::user::User;
use kevel_server::authorization::{Attributes, Decision, Opinion};

use super::Rbac;
use super::policy::{Kind, Policy};

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Map::from_iter(entries).into()
}

fn words(text: &str) -> Value {
    Value::List(text.split(' ').map(Value::from).collect())
}

/// `verbs | groups | resources [| names]`, or `verbs url paths`; the group that has no name is `-`.
fn rule(text: &str) -> Value {
    if let Some((verbs, urls)) = text.split_once(" url ") {
        return map([("verbs", words(verbs)), ("nonResourceURLs", words(urls))]);
    }
    let fields = ["verbs", "apiGroups", "resources", "resourceNames"];
    let values = text.split(" | ").map(|part| words(part.replace('-', "").as_str()));
    Map::from_iter(fields.into_iter().zip(values)).into()
}

fn role(rules: &[&str]) -> Value {
    map([("rules", Value::List(rules.iter().map(|text| rule(text)).collect()))])
}

/// `User:jane`, `Group:dev`, `ServiceAccount:bot`, `ServiceAccount:ns/bot`
fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once(':').unwrap();
    let (namespace, name) = match kind {
        "ServiceAccount" => name.split_once('/').unwrap_or(("", name)),
        _ => ("", name),
    };
    map([("kind", kind.into()), ("name", name.into()), ("namespace", namespace.into())])
}

fn binding(role: &str, subjects: &[&str]) -> Value {
    let (kind, name) = role.split_once(':').unwrap();
    map([
        ("roleRef", map([("kind", kind.into()), ("name", name.into())])),
        ("subjects", Value::List(subjects.iter().map(|text| subject(text)).collect())),
    ])
}

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    User { name: name.into(), groups, ..User::default() }
}

/// `verb group resource[/subresource][=name] [namespace]` with `-` for what is empty, or `verb /path`.
fn asked<'a>(user: &'a User, text: &'a str) -> Attributes<'a> {
    let parts: Vec<&str> = text.split(' ').map(|part| part.trim_matches('-')).collect();
    let empty = Attributes {
        user,
        verb: parts[0],
        is_resource: false,
        path: "",
        group: "",
        version: "v1",
        namespace: "",
        resource: "",
        subresource: "",
        name: "",
        selectors: &NO_SELECTORS,
    };
    if let [_, path] = parts[..] {
        return Attributes { path, ..empty };
    }
    let (resource, name) = parts[2].split_once('=').unwrap_or((parts[2], ""));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let namespace = parts.get(3).copied().unwrap_or_default();
    let group = parts[1];
    Attributes { is_resource: true, group, namespace, resource, subresource, name, ..empty }
}

fn rbac(policy: &mut Policy) -> Rbac {
    let rbac = Rbac::default();
    rbac.index.store(Arc::new(policy.index()));
    rbac
}

fn example() -> Policy {
    let mut policy = Policy::default();
    for (key, rules) in [
        ("view", &["get list | - | pods pods/log */scale", "get url /logs/* /one"][..]),
        ("all", &["* | * | *", "* url *"]),
        ("named", &["get | - | secrets | one two"]),
    ] {
        policy.set(Kind::ClusterRole, key, Some(&role(rules)));
    }
    policy.set(Kind::Role, "ns/edit", Some(&role(&["update | apps | deployments"])));
    for (key, role, subjects) in [
        ("admins", "ClusterRole:all", &["Group:ops", "User:root"][..]),
        ("viewers", "ClusterRole:view", &["User:jane", "ServiceAccount:sys/bot"]),
        ("lost", "ClusterRole:gone", &["User:joe", "User:jane"]),
        ("wrong", "Role:edit", &["User:joe"]),
        ("odd", "Thing:x", &["User:odd"]),
    ] {
        policy.set(Kind::ClusterRoleBinding, key, Some(&binding(role, subjects)));
    }
    for (key, role, subjects) in [
        ("ns/editors", "Role:edit", &["User:joe", "ServiceAccount:bot"][..]),
        ("ns/named", "ClusterRole:named", &["Group:dev"]),
        ("other/editors", "Role:edit", &["User:jim"]),
    ] {
        policy.set(Kind::RoleBinding, key, Some(&binding(role, subjects)));
    }
    policy
}

#[test]
fn a_decision_says_by_which_binding() {
    let jane = user("jane", &["dev"]);
    let joe = user("joe", &[]);
    let root = user("root", &["ops"]);
    let bot = user("system:serviceaccount:ns:bot", &[]);
    let system_bot = user("system:serviceaccount:sys:bot", &[]);
    let view = r#"ClusterRoleBinding "viewers" of ClusterRole "view" to "#;
    let to_jane = format!(r#"{view}User "jane""#);
    let gone = r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#;
    let refused = |reason: &str| Err(format!("RBAC: {reason}"));
    let rbac = rbac(&mut example());
    for (who, what, expected) in [
        (&jane, "get - pods ns", Ok(to_jane.clone())),
        (&jane, "get - pods", Ok(to_jane.clone())),
        (&jane, "list - pods/log ns", Ok(to_jane.clone())),
        (&jane, "get - things/scale ns", Ok(to_jane.clone())),
        (&jane, "get /logs/a/b", Ok(to_jane.clone())),
        (&jane, "get /one", Ok(to_jane.clone())),
        (&jane, "get /one/more", refused(gone)),
        (&jane, "post /logs/a", refused(gone)),
        (&jane, "get - pods/exec ns", refused(gone)),
        (&jane, "get apps pods ns", refused(gone)),
        (&jane, "delete - pods ns", refused(gone)),
        (&jane, "get - secrets ns", refused(gone)),
        (&jane, "get - secrets=three ns", refused(gone)),
        (
            &jane,
            "get - secrets=two ns",
            Ok(r#"RoleBinding "named/ns" of ClusterRole "named" to Group "dev""#.to_owned()),
        ),
        (&jane, "get - secrets=two other", refused(gone)),
        (
            &joe,
            "update apps deployments ns",
            Ok(r#"RoleBinding "editors/ns" of Role "edit" to User "joe""#.to_owned()),
        ),
        (
            &joe,
            "update apps deployments",
            refused(&format!(r#"[{gone}, role.rbac.authorization.k8s.io "edit" not found]"#)),
        ),
        (
            &bot,
            "update apps deployments ns",
            Ok(r#"RoleBinding "editors/ns" of Role "edit" to ServiceAccount "bot/ns""#.to_owned()),
        ),
        (&bot, "update apps deployments other", Err(String::new())),
        (&system_bot, "get - pods x", Ok(format!(r#"{view}ServiceAccount "bot/sys""#))),
        // The first subject that the user is, in the binding's order.
        (
            &root,
            "any x/y z",
            Ok(r#"ClusterRoleBinding "admins" of ClusterRole "all" to Group "ops""#.to_owned()),
        ),
        (
            &user("jim", &[]),
            "get - pods other",
            refused(r#"role.rbac.authorization.k8s.io "edit" not found"#),
        ),
        (&user("odd", &[]), "get - pods", refused(r#"unsupported role reference kind: "Thing""#)),
        (&user("", &[""]), "get - pods", Err(String::new())),
    ] {
        let expected = match expected {
            Ok(by) => Opinion {
                decision: Decision::Allow,
                reason: format!("RBAC: allowed by {by}"),
                error: None,
            },
            Err(reason) => Opinion::none(reason),
        };
        assert_eq!(rbac.decide(&asked(who, what)), expected, "{} {what}", who.name);
    }
}

#[test]
fn rules_of_a_user_are_listed() {
    let rbac = rbac(&mut example());
    let texts = |name: &str, groups: &[&str], namespace: &str| {
        let rules = rbac.rules_of(&user(name, groups), namespace);
        (rules.iter().map(|rule| rule.to_string()).collect::<Vec<_>>(), rules.error())
    };
    let gone = r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#;
    let named =
        r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["one" "two"], Verbs:["get"]}"#;
    let (rules, error) = texts("jane", &["dev", "dev"], "ns");
    assert_eq!((rules.len(), rules[2].as_str(), error.as_deref()), (3, named, Some(gone)));
    assert_eq!(texts("jane", &["dev"], "").0.len(), 2);
    assert_eq!(texts("stranger", &[], "ns"), (Vec::new(), None));
}

#[test]
fn nothing_is_allowed_before_everything_is_loaded() {
    let root = user("root", &["ops"]);
    let rbac = Rbac::default();
    assert_eq!(rbac.decide(&asked(&root, "get - pods")), Opinion::none(""));
    assert!(!rbac.has_synced());
}

/// Far above what a change takes without optimization on a busy machine, far below what a look at the rules for each
/// holder would.
const CHANGE: Duration = Duration::from_secs(2);

#[test]
fn role_change_costs_no_look_at_its_holders() {
    const MANY: usize = 4000;
    let mut policy = Policy::default();
    let users: Vec<String> = (0..MANY).map(|number| format!("User:u{number}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    policy.set(Kind::RoleBinding, "n/all", Some(&binding("Role:large", &users)));
    let rules: Vec<String> = (0..MANY).map(|n| format!("get | - | pods | p{n}")).collect();
    for resource in ["secrets", "configmaps"] {
        let more = format!("list | - | {resource}");
        let rules: Vec<&str> = rules.iter().map(String::as_str).chain([more.as_str()]).collect();
        let large = role(&rules);
        let begun = Stopwatch::start();
        policy.set(Kind::Role, "n/large", Some(&large));
        let rbac = rbac(&mut policy);
        assert!(begun.elapsed() < CHANGE, "{:?}", begun.elapsed());
        for name in ["u0", "u3999"] {
            let user = user(name, &[]);
            let may = |what: &str| rbac.decide(&asked(&user, what)).decision == Decision::Allow;
            let allowed = ["get - pods=p3999 n", "list - secrets n", "list - configmaps n"];
            assert_eq!(allowed.map(may), [true, resource == "secrets", resource == "configmaps"]);
        }
    }
}

/// Far above what a decision among 10,000 bindings takes without optimization on a busy machine, far below
/// what a look at each of them would.
const DECISION: Duration = Duration::from_micros(200);

#[test]
fn many_small_roles_are_looked_up_beside_a_large_one() {
    let mut policy = Policy::default();
    let large: Vec<String> = (0..40).map(|i| format!("get | large | r{i}")).collect();
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    policy.set(Kind::ClusterRole, "large", Some(&role(&large)));
    policy.set(Kind::ClusterRole, "any-group", Some(&role(&["get | * | things"])));
    let small = (0..40).map(|i| (format!("small{i}"), format!("get | g{i} | things")));
    for (name, rule) in small {
        policy.set(Kind::ClusterRole, &name, Some(&role(&[&rule])));
        let bound = binding(&format!("ClusterRole:{name}"), &["User:jane", "User:joe"]);
        policy.set(Kind::ClusterRoleBinding, &name, Some(&bound));
    }
    for name in ["large", "any-group"] {
        let bound = binding(&format!("ClusterRole:{name}"), &["User:jane"]);
        policy.set(Kind::ClusterRoleBinding, name, Some(&bound));
    }
    let rbac = rbac(&mut policy);
    for (who, what, expected) in [
        ("jane", "get large r39", Decision::Allow),
        ("jane", "get large r40", Decision::NoOpinion),
        ("jane", "get other things", Decision::Allow),
        ("jane", "list other things", Decision::NoOpinion),
        ("joe", "get g39 things", Decision::Allow),
        ("joe", "get large r39", Decision::NoOpinion),
        ("joe", "get other things", Decision::NoOpinion),
    ] {
        let user = user(who, &[]);
        assert_eq!(rbac.decide(&asked(&user, what)).decision, expected, "{who} {what}");
    }
}

#[test]
fn ten_thousand_bindings_are_not_searched() {
    let mut shared = Policy::default();
    let mut spread = Policy::default();
    let view = role(&["get list watch | - | pods services configmaps"; 8]);
    spread.set(Kind::ClusterRole, "view", Some(&view));
    for i in 0..10_000 {
        // One user who has everything, each by a role of its own.
        let own = role(&[
            &format!("get list watch | - | pods | pod{i}"),
            &format!("get | g{i} | things"),
        ]);
        shared.set(Kind::ClusterRole, &i.to_string(), Some(&own));
        let bound = binding(&format!("ClusterRole:{i}"), &["User:jane"]);
        shared.set(Kind::ClusterRoleBinding, &i.to_string(), Some(&bound));
        // Many users in many namespaces, half of them bound for the whole cluster.
        let bound = binding("ClusterRole:view", &[&format!("User:u{i}"), "Group:dev"]);
        match i % 2 {
            0 => spread.set(Kind::ClusterRoleBinding, &i.to_string(), Some(&bound)),
            _ => spread.set(Kind::RoleBinding, &format!("n{}/{i}", i % 500), Some(&bound)),
        }
    }
    let groups = ["dev", "a", "b", "c", "d", "system:authenticated"];
    let (spread_rbac, shared_rbac) = (rbac(&mut spread), rbac(&mut shared));
    let rows: [(_, _, _, _); 6] = [
        (&spread_rbac, user("u4001", &groups), "get - pods n1", Decision::Allow),
        (&spread_rbac, user("u4001", &groups), "delete - pods n1", Decision::NoOpinion),
        (&spread_rbac, user("stranger", &groups[1..]), "get - pods n1", Decision::NoOpinion),
        (&shared_rbac, user("jane", &groups), "get - pods=pod9999 n1", Decision::Allow),
        (&shared_rbac, user("jane", &groups), "get - pods=none n1", Decision::NoOpinion),
        (&shared_rbac, user("jane", &groups), "get g5000 things n1", Decision::Allow),
    ];
    for (rbac, who, what, expected) in rows {
        let request = asked(&who, what);
        assert_eq!(rbac.decide(&request).decision, expected, "{} {what}", who.name);
        let rounds = 500;
        let begun = Stopwatch::start();
        for _ in 0..rounds {
            std::hint::black_box(rbac.decide(&request));
        }
        let each = begun.elapsed() / rounds;
        assert!(each < DECISION, "{} {what}: {each:?}", who.name);
    }
    // What changes in one binding, or in the role of all of them, is seen.
    let (first, second) = (user("u0", &[]), user("u2", &[]));
    let may = |policy: &mut Policy, user: &User, what: &str| {
        rbac(policy).decide(&asked(user, what)).decision
    };
    assert_eq!(may(&mut spread, &first, "get - pods n1"), Decision::Allow);
    spread.set(Kind::ClusterRoleBinding, "0", None);
    assert_eq!(may(&mut spread, &first, "get - pods n1"), Decision::NoOpinion);
    assert_eq!(may(&mut spread, &second, "get - pods n1"), Decision::Allow);
    spread.set(Kind::ClusterRole, "view", Some(&role(&["get | - | secrets"])));
    assert_eq!(may(&mut spread, &second, "get - pods n1"), Decision::NoOpinion);
    assert_eq!(may(&mut spread, &second, "get - secrets n1"), Decision::Allow);
}
