use kevel_api::value::Value;
use kevel_codec::json;
use kevel_test_support::facts;

use super::policy::{Gates, gates, policy};
use super::reconcile::{Change, reconcile};

fn read(text: &str) -> Value {
    json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value
}

#[test]
fn the_policy_is_the_reference_s() {
    let of = |object: &Value| {
        let text = |path: &[&str]| object.str_at(path).to_owned();
        (text(&["kind"]), text(&["metadata", "namespace"]), text(&["metadata", "name"]))
    };
    let mut expected: Vec<Value> = facts::json("rbac.json").as_list().unwrap().to_vec();
    assert!(expected.len() > 100, "{}", expected.len());
    for object in &mut expected {
        object.as_map_mut().unwrap().retain(|_, value| !value.is_null());
    }
    let mut found: Vec<Value> =
        policy(&Gates::new()).into_iter().map(|desired| desired.object).collect();
    expected.sort_by_key(of);
    found.sort_by_key(of);
    assert_eq!(
        found.iter().map(of).collect::<Vec<_>>(),
        expected.iter().map(of).collect::<Vec<_>>()
    );
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{:?}", of(expected));
    }
}

#[test]
fn what_is_missing_comes_back_and_what_was_added_stays() {
    let meta = r#""metadata":{"name":"x","labels":{"a":"1"}}"#;
    let role = format!(
        r#"{{{meta},"rules":[{{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}}]}}"#
    );
    let aggregate = format!(
        r#"{{{meta},"aggregationRule":{{"clusterRoleSelectors":[{{"matchLabels":{{"a":"b"}}}}]}}}}"#
    );
    let binding = format!(
        r#"{{{meta},"roleRef":{{"kind":"ClusterRole","name":"r"}},"subjects":[{{"kind":"User","name":"u"}}]}}"#
    );
    let protect = |text: &str| {
        text.replace(
            r#""name":"x","#,
            r#""name":"x","annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"},"#,
        )
    };
    let updated = |text: &str| Change::Update(read(text));
    let wider = role.replace(r#"["pods"]"#, r#"["*"]"#);
    let narrower = role.replace(r#""get","list""#, r#""get""#);
    let completed = narrower.replace(
        r#"["pods"]}]"#,
        r#"["pods"]},{"verbs":["list"],"apiGroups":[""],"resources":["pods"]}]"#,
    );
    let relabeled = role.replace(r#"{"a":"1"}"#, r#"{"a":"2","b":"3"}"#);
    let other = binding.replace(r#""name":"r""#, r#""name":"s""#);
    let others = binding.replace(r#""name":"u""#, r#""name":"v""#);
    let together = others.replace(r#""v"}"#, r#""v"},{"kind":"User","name":"u"}"#);
    let no_rules = format!(r#"{{{meta},"rules":null}}"#);
    let gathers = format!(
        r#"{{{meta},"rules":null,"aggregationRule":{{"clusterRoleSelectors":[{{"matchLabels":{{"a":"b"}}}}]}}}}"#
    );
    for (existing, desired, expected) in [
        (&role, &role, Change::None),
        (&wider, &role, Change::None),
        // What is missing is added permission by permission.
        (&narrower, &role, updated(&completed)),
        (&protect(&narrower), &role, Change::Protected),
        (&protect(&role), &role, Change::None),
        // What an object says in its labels goes before what it should say.
        (&relabeled, &role, Change::None),
        (&role.replace(r#","labels":{"a":"1"}"#, ""), &role, updated(&role)),
        (&no_rules, &role, updated(&completed)),
        (&no_rules, &aggregate, updated(&gathers)),
        (&gathers, &aggregate, Change::None),
        (&gathers, &role, updated(&completed)),
        (&binding, &binding, Change::None),
        (&others, &binding, updated(&together)),
        (&other, &binding, Change::Recreate),
        (&protect(&other), &binding, Change::Protected),
    ] {
        assert_eq!(reconcile(&read(existing), &read(desired)), expected, "{existing} {desired}");
    }
}

#[test]
fn feature_gates_add_roles_and_rules() {
    let named = |on: &Gates, kind: &str, name: &str| {
        let all = policy(on).into_iter().map(|desired| desired.object);
        all.into_iter().find(|object| {
            object.str_at(&["kind"]) == kind && object.str_at(&["metadata", "name"]) == name
        })
    };
    let cleaner = "system:controller:podcertificaterequestcleaner";
    let collector = "system:controller:storage-version-garbage-collector";
    let discovery = "system:cluster-trust-bundle-discovery";
    for (gates, role, expected) in [
        (&[][..], cleaner, false),
        (&["PodCertificateRequest"], cleaner, true),
        (
            &["StorageVersionMigrator"],
            "system:controller:storage-version-migrator-controller",
            true,
        ),
        (&["StorageVersionAPI"], collector, false),
        (&["StorageVersionAPI", "APIServerIdentity"], collector, true),
        (&["ClusterTrustBundle"], discovery, true),
    ] {
        let on = Gates::from_iter(gates.iter().copied());
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            assert_eq!(named(&on, kind, role).is_some(), expected, "{kind} {role} {gates:?}");
        }
    }
    // Rules of other roles: each finds its role.
    let rules = |on: &Gates| -> usize {
        policy(on).iter().map(|desired| desired.object.list_at(&["rules"]).len()).sum()
    };
    for gate in ["GenericWorkload", "DRADeviceTaintRules", "WorkloadWithJob"] {
        assert!(gates().contains(gate));
        assert!(rules(&Gates::from([gate])) > rules(&Gates::new()), "{gate}");
    }
    let node = named(&Gates::from(["PodCertificateRequest"]), "ClusterRole", "system:node");
    let last = node.unwrap().list_at(&["rules"]).last().cloned().unwrap();
    assert_eq!(last.list_at(&["resources"])[0].as_str(), Some("podcertificaterequests"));
}
