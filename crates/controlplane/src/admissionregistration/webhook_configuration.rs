//! Kinds MutatingWebhookConfiguration and ValidatingWebhookConfiguration: validation.

use std::collections::HashSet;

use kevel_api::name;
use kevel_api::value::Value;
use kevel_registry::metadata;
use kevel_server::webhook::{validate_webhook_service, validate_webhook_url};

use super::expression::match_conditions;
use super::match_resources::rule_with_operations;
use super::{FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, kind, static_suffix};
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

/// `mutatingwebhookconfigurations`
pub static MUTATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    counts_empty_lists: true,
    columns: columns::admissionregistration::WEBHOOKS,
    ..kind("mutatingwebhookconfigurations", RULES)
};

/// `validatingwebhookconfigurations`
pub static VALIDATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    counts_empty_lists: true,
    columns: columns::admissionregistration::WEBHOOKS,
    ..kind("validatingwebhookconfigurations", RULES)
};

const RULES: Rules = Rules {
    prepare_for_update: |new, old, _| count_generation(new, old),
    validate_create: |new| {
        check(new, &Options::NEW);
        static_suffix(new);
    },
    validate_update: |new, old| check(new, &Options::of_update(new, old)),
    ..Rules::NONE
};

/// Supported versions of `AdmissionReview`.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
/// Range of `timeoutSeconds`.
const TIMEOUT: std::ops::RangeInclusive<i64> = 1..=30;

/// Raises the generation if webhooks change. Unlike in other kinds, an empty list differs from an absent one; an
/// empty `caBundle` does not, because it is not stored.
fn count_generation(new: &mut Value, old: &Value) {
    let mut before = old.at(&["webhooks"]).cloned();
    without_empty_bundles(new.at_mut(&["webhooks"]));
    without_empty_bundles(before.as_mut());
    if new.at(&["webhooks"]) != before.as_ref() {
        metadata::count_generation(new, old);
    }
}

fn without_empty_bundles(webhooks: Option<&mut Value>) {
    for hook in webhooks.and_then(Value::as_list_mut).into_iter().flatten() {
        if let Some(config) = hook.at_mut(&["clientConfig"]).and_then(Value::as_map_mut) {
            config.retain(|field, value| field != "caBundle" || !value.is_empty());
        }
    }
}

/// Rules to enforce: not those that the stored configuration violates already.
struct Options {
    match_conditions: bool,
    no_side_effects: bool,
    known_review_version: bool,
    unique_names: bool,
    good_selectors: bool,
}

impl Options {
    const NEW: Options = Options {
        match_conditions: true,
        no_side_effects: true,
        known_review_version: true,
        unique_names: true,
        good_selectors: true,
    };

    fn of_update(new: Field, old: Field) -> Self {
        let (new, old) = (new.at("webhooks"), old.at("webhooks"));
        let conditions = |hooks: (Field, Field)| {
            hooks.0.at("matchConditions").same(&hooks.1.at("matchConditions"))
        };
        let mut names = HashSet::new();
        Options {
            match_conditions: new.len() != old.len()
                || !new.items().zip(old.items()).all(conditions),
            no_side_effects: old
                .items()
                .all(|hook| NO_SIDE_EFFECTS.contains(&hook.at("sideEffects").str())),
            known_review_version: old.items().all(|hook| {
                let versions = hook.at("admissionReviewVersions");
                versions.is_empty() || versions.strings().any(is_known)
            }),
            unique_names: old.items().all(|hook| names.insert(hook.at("name").str())),
            good_selectors: !old.items().any(|hook| {
                ["namespaceSelector", "objectSelector"].into_iter().any(|selector| {
                    hook.at(selector).fails(|selector| selector.label_selector(false))
                })
            }),
        }
    }
}

fn is_known(version: &str) -> bool {
    REVIEW_VERSIONS.contains(&version)
}

fn check(configuration: Field, options: &Options) {
    let mut names = HashSet::new();
    for hook in configuration.at("webhooks").items() {
        webhook(hook, options);
        review_versions(hook.at("admissionReviewVersions"), options.known_review_version);
        let name = hook.at("name");
        if options.unique_names && !name.is_empty() {
            name.unique(&mut names, name.str());
        }
    }
}

fn webhook(hook: Field, options: &Options) {
    let name = hook.at("name");
    name.extend(name::is_fully_qualified_name(&name.path(), name.str()));
    hook.at("rules").items().for_each(rule_with_operations);
    for (field, known) in [("failurePolicy", FAILURE_POLICIES), ("matchPolicy", MATCH_POLICIES)] {
        if hook.at(field).is_set() {
            hook.at(field).one_of(known);
        }
    }
    let effects = hook.at("sideEffects");
    let known = if options.no_side_effects { NO_SIDE_EFFECTS } else { SIDE_EFFECTS };
    match effects.is_set() {
        true => effects.one_of(known),
        false => effects.required(format!("must specify one of {}", known.join(", "))),
    }
    let timeout = hook.at("timeoutSeconds");
    if timeout.is_set() && !TIMEOUT.contains(&timeout.int()) {
        let why = "the timeout value must be between 1 and 30 seconds";
        timeout.invalid_as(timeout.int(), why);
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        hook.at(selector).label_selector(!options.good_selectors);
    }
    // Only mutating webhooks have the field.
    let reinvocation = hook.at("reinvocationPolicy");
    if reinvocation.is_set() {
        reinvocation.one_of(REINVOCATION_POLICIES);
    }
    client_config(hook.at("clientConfig"));
    if options.match_conditions {
        match_conditions(hook.at("matchConditions"), false);
    }
}

/// Checks `clientConfig`. `caBundle` is checked only when the webhook is called.
fn client_config(config: Field) {
    let (url, service) = (config.at("url"), config.at("service"));
    match (url.is_set(), service.get().filter(|_| service.is_set())) {
        (true, None) => url.extend(validate_webhook_url(&url.path(), url.str())),
        (false, Some(said)) => service.extend(validate_webhook_service(&service.path(), said)),
        _ => config.required("exactly one of url or service is required"),
    }
}

fn review_versions(versions: Field, must_be_known: bool) {
    if versions.is_empty() {
        return versions.required(format!("must specify one of {}", REVIEW_VERSIONS.join(", ")));
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        match seen.insert(version.str()) {
            true => version.form(name::is_dns1035_label),
            false => version.invalid("duplicate version"),
        }
    }
    if must_be_known && !versions.strings().any(is_known) {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        versions.invalid(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::Capabilities;
    use crate::rules::cases::value;

    /// Configuration with one webhook for each item, which adds these fields to a valid one.
    fn configuration(hooks: &[&str]) -> Value {
        let hooks = hooks.iter().map(|fields| {
            let mut hook = value(
                r#"{"name": "a.b.c", "clientConfig": {"url": "https://x"}, "sideEffects": "None",
                    "admissionReviewVersions": ["v1"]}"#,
            );
            for (field, value) in value(fields).as_map().unwrap().iter() {
                hook.make_map(&[]).insert(field, value.clone());
            }
            hook
        });
        let mut object = value("{}");
        object.make_map(&[]).insert("webhooks", Value::List(hooks.collect()));
        object
    }

    /// Stored configurations that are invalid by today's rules may be updated. The expectations are from the
    /// reference's source, because the reference refuses to create such configurations.
    #[test]
    fn what_was_stored_before_may_stay() {
        let bad =
            r#"{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}}"#;
        let odd = r#"{"objectSelector": {"matchExpressions":
            [{"key": "a", "operator": "In", "values": ["-"]}]}}"#;
        let condition =
            r#"{"matchConditions": [{"name": "", "expression": "1"}], "timeoutSeconds": 7}"#;
        for (was, new, expected) in [
            (&[r#"{"sideEffects": "Unknown"}"#][..], &[r#"{"sideEffects": "Some"}"#][..], ""),
            (
                &[r#"{"sideEffects": "Unknown"}"#],
                &[r#"{"sideEffects": "Foo"}"#],
                r#"webhooks[0].sideEffects: Unsupported value: "Foo": supported values: "None", "NoneOnDryRun", "Some", "Unknown""#,
            ),
            (&["{}"], &[r#"{"sideEffects": "Some"}"#], r#"webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun""#),
            (&[r#"{"admissionReviewVersions": ["v2"]}"#], &[r#"{"admissionReviewVersions": ["v3"]}"#], ""),
            (
                &[r#"{"admissionReviewVersions": []}"#],
                &[r#"{"admissionReviewVersions": ["v3"]}"#],
                r#"webhooks[0].admissionReviewVersions: Invalid value: ["v3"]: must include at least one of v1, v1beta1"#,
            ),
            (&["{}", "{}"], &["{}", "{}", "{}"], ""),
            (&["{}"], &["{}", "{}"], r#"webhooks[1].name: Duplicate value: "a.b.c""#),
            (&[bad], &[odd], ""),
            (&[odd], &[bad], r#"webhooks[0].namespaceSelector.matchExpressions[0].operator: Invalid value: "Foo": not a valid selector operator"#),
            // Unchanged match conditions are not checked.
            (&[condition], &[condition], ""),
            (
                &[condition],
                &[condition, r#"{"name": "d.e.f"}"#],
                "webhooks[0].matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int
webhooks[0].matchConditions[0].name: Required value",
            ),
        ] {
            let (was, new) = (configuration(was), configuration(new));
            let errors = Capabilities::default().update_errors(&new, &was, RULES.validate_update);
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors.join("\n"), expected);
        }
    }
}
