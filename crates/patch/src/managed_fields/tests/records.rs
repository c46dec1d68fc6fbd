//! Records of field managers: what resets, drops and takes over entries.

use kevel_codec::json::{Unknown, decode};

use super::Object;

#[test]
fn only_kubectl_takes_over_and_only_what_is_unchanged() {
    let last = r#"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"data\":{\"k\":\"1\"}}"#;
    let live = |value: &str| {
        let annotation = format!(r#""kubectl.kubernetes.io/last-applied-configuration":"{last}""#);
        format!(r#"{{"metadata":{{"annotations":{{{annotation}}}}},"data":{{"k":"{value}"}}}}"#)
    };
    for (value, manager, conflicts) in
        [("1", "kubectl", false), ("1", "other", true), ("9", "kubectl", true)]
    {
        let mut object = Object::new("ConfigMap");
        object.update("kubectl-client-side-apply", "", &live("1"));
        object.update("editor", "", &live(value));
        let applied = object.apply(manager, false, r#"{"data":{"k":"2"}}"#);
        assert_eq!(applied.is_err(), conflicts, "{value} {manager}: {applied:?}");
    }
}

#[test]
fn last_applied_annotation_that_grows_too_large_is_dropped() {
    let last = r#"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}"#;
    let live = format!(
        r#"{{"metadata":{{"annotations":{{"kubectl.kubernetes.io/last-applied-configuration":"{last}"}}}}}}"#
    );
    for (length, kept) in [(1000, true), (300_000, false)] {
        let mut object = Object::new("ConfigMap");
        object.update("kubectl-client-side-apply", "", &live);
        let config = format!(r#"{{"data":{{"k":"{}"}}}}"#, "x".repeat(length));
        object.apply("kubectl", false, &config).unwrap();
        assert_eq!(object.json().contains("last-applied-configuration"), kept, "{length}");
    }
}

#[test]
fn atomic_lists_are_applied_as_a_whole() {
    let mut object = Object::new("Deployment");
    let config = |args: &str| {
        format!(
            r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"c","args":{args}}}]}}}}}}}}"#
        )
    };
    object.apply("m", false, &config(r#"["a","b"]"#)).unwrap();
    object.apply("m", false, &config(r#"["c"]"#)).unwrap();
    assert!(object.json().contains(r#""args":["c"]"#), "{}", object.json());
}

#[test]
fn writers_of_a_subresource_do_not_reset_the_record() {
    let mut object = Object::new("Deployment");
    object.update("a", "", r#"{"spec":{"replicas":1}}"#);
    let status =
        r#"{"metadata":{"managedFields":[]},"spec":{"replicas":1},"status":{"replicas":1}}"#;
    object.update("s", "status", status);
    let managers = object.managers();
    assert!(managers.iter().any(|entry| entry.starts_with("a Update")), "{managers:?}");
}

#[test]
fn managers_in_versions_of_the_past_are_dropped() {
    let mut object = Object::new("ConfigMap");
    object.update("a", "", r#"{"data":{"k":"1","l":"1"}}"#);
    let old = r#"{"manager":"old","operation":"Update","apiVersion":"v0","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:l":{}}}}"#;
    let json = format!(r#"{{"metadata":{{"managedFields":[{old}]}},"data":{{"k":"2","l":"1"}}}}"#);
    object.update("a", "", &json);
    let managers = object.managers();
    assert!(!managers.iter().any(|entry| entry.starts_with("old")), "{managers:?}");
}

#[test]
fn past_version_of_an_applier_leaves_its_time() {
    let old = r#"{"manager":"a","operation":"Apply","apiVersion":"v0","time":"1970-01-01T00:00:42Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}}"#;
    for (value, second) in [("1", "42"), ("2", "02")] {
        let mut object = Object::new("ConfigMap");
        let live = format!(r#"{{"metadata":{{"managedFields":[{old}]}},"data":{{"k":"1"}}}}"#);
        object.store(decode(live.as_bytes(), object.schema, Unknown::Ignore).unwrap().value);
        object.clock.seconds = 1;
        object.apply("a", true, &format!(r#"{{"data":{{"k":"{value}"}}}}"#)).unwrap();
        assert_eq!(
            object.managers(),
            [format!(r#"a Apply {second}: {{"f:data":{{"f:k":{{}}}}}}"#)]
        );
    }
}
