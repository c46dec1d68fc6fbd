//! Kind FlowSchema: validation.

use kevel_api::name;
use kevel_flowcontrol::EXEMPT;
use kevel_registry::strategy::{ALL_METADATA, RESET_ALL_BUT_STATUS};

use super::mandatory;
use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::Field;

/// `flowschemas`
pub static KIND: Kind = Kind {
    kept_by_status: &ALL_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    counts_generation: true,
    columns: columns::flowcontrol::FLOW_SCHEMA,
    rules: Rules {
        validate_create: check,
        validate_update: |schema, _| check(schema),
        validate_status_update: super::validate_status_update,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::Meta,
    ..Kind::new("flowcontrol.apiserver.k8s.io", "flowschemas")
};

/// Maximum `matchingPrecedence`.
const MAX_PRECEDENCE: i64 = 10_000;

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// A kind of subject: name, field, and check.
type Subject = (&'static str, &'static str, fn(Field));

/// Kinds of subjects, in the order in which they are checked.
const SUBJECTS: [Subject; 3] = [
    ("ServiceAccount", "serviceAccount", service_account),
    ("User", "user", named),
    ("Group", "group", named),
];

fn check(schema: Field) {
    let name = schema.down("metadata.name").str();
    check_spec(schema.at("spec"), name);
    mandatory::flow_schema(schema.at("spec"), name);
}

fn check_spec(spec: Field, name: &str) {
    let precedence = spec.at("matchingPrecedence");
    match precedence.int() {
        ..=0 => precedence.invalid_as(precedence.int(), "must be a positive value"),
        1 if name != EXEMPT => {
            precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1");
        }
        1..=MAX_PRECEDENCE => {}
        _ => precedence.invalid(format!("must not be greater than {MAX_PRECEDENCE}")),
    }
    let method = spec.at("distinguisherMethod");
    let methods = ["ByNamespace", "ByUser"];
    if method.is_set() && !methods.contains(&method.at("type").str()) {
        // The reference shows the whole method as the bad value.
        method.at("type").unsupported_as(method.bad_value(), &methods);
    }
    let level = spec.at("priorityLevelConfiguration");
    if level.at("name").must("must reference a priority level") {
        level.at("name").object_name(name::name_is_dns_subdomain);
    }
    spec.at("rules").items().for_each(check_rule);
}

fn check_rule(rule: Field) {
    let subjects = rule.at("subjects");
    subjects.must("subjects must contain at least one value");
    subjects.items().for_each(check_subject);
    let (resources, others) = (rule.at("resourceRules"), rule.at("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        rule.required("at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    resources.items().for_each(resource_rule);
    others.items().for_each(non_resource_rule);
}

fn check_subject(subject: Field) {
    let kind = subject.at("kind");
    let Some((_, own, check)) = SUBJECTS.iter().find(|(name, ..)| *name == kind.str()) else {
        return kind.unsupported(&["Group", "ServiceAccount", "User"]);
    };
    match subject.at(own).is_set() {
        true => check(subject.at(own)),
        false => subject
            .at(own)
            .required(format!("{own} is required when subject kind is '{}'", kind.str())),
    }
    for (kind, other, _) in SUBJECTS.iter().filter(|(_, other, _)| other != own) {
        if subject.at(other).is_set() {
            let why = format!("{other} is forbidden when subject kind is not '{kind}'");
            subject.at(other).forbidden(why);
        }
    }
}

fn named(subject: Field) {
    subject.at("name").must("");
}

fn service_account(subject: Field) {
    let (name, namespace) = (subject.at("name"), subject.at("namespace"));
    if name.must("") && name.str() != "*" {
        name.object_name(name::name_is_dns_subdomain);
    }
    if namespace.must("must specify namespace for service account") {
        namespace.object_name(name::name_is_dns_label);
    }
}

fn resource_rule(rule: Field) {
    verbs(rule.at("verbs"));
    some_or_all(
        rule.at("apiGroups"),
        "resource rules must supply at least one api group",
        "if '*' is present, must not specify other api groups",
    );
    some_or_all(
        rule.at("resources"),
        "resource rules must supply at least one resource",
        "if '*' is present, must not specify other resources",
    );
    let namespaces = rule.at("namespaces");
    if namespaces.is_empty() {
        if !rule.at("clusterScope").bool() {
            namespaces.required(
                "resource rules that are not cluster scoped must supply at least one namespace",
            );
        }
    } else if !all(namespaces, "if '*' is present, must not specify other namespaces") {
        for namespace in namespaces.items() {
            for problem in name::name_is_dns_label(namespace.str(), false) {
                namespace.invalid_as(
                    namespace.str(),
                    format!("each member of this list must be '*' or a DNS-1123 label; {problem}"),
                );
            }
        }
    }
}

fn non_resource_rule(rule: Field) {
    verbs(rule.at("verbs"));
    let urls = rule.at("nonResourceURLs");
    let several = "if '*' is present, must not specify other non-resource URLs";
    if urls.must("nonResourceURLs must contain at least one value") && !all(urls, several) {
        urls.items().for_each(url);
    }
}

fn verbs(verbs: Field) {
    let several = "if '*' is present, must not specify other verbs";
    if !verbs.must("verbs must contain at least one value") || all(verbs, several) {
        return;
    }
    if !verbs.strings().all(|verb| VERBS.contains(&verb)) {
        verbs.unsupported(VERBS);
    }
}

fn some_or_all(list: Field, none: &'static str, several: &'static str) {
    if list.must(none) {
        all(list, several);
    }
}

/// True if a list contains `*`, which must be its only item.
fn all(list: Field, several: &'static str) -> bool {
    let all = list.strings().any(|item| item == "*");
    if all && list.len() > 1 {
        list.invalid(several);
    }
    all
}

/// Checks a URL, which may end with `*`.
fn url(url: Field) {
    let path = url.str();
    let stars = path.matches('*').count();
    let why = match path {
        "" => "must not be empty",
        "/" => return,
        _ if !path.starts_with('/') => "must start with slash",
        _ if path.contains(' ') => "must not contain white-space",
        _ if path.contains("//") => "must not contain double slash",
        _ if stars > 1 || (stars == 1 && !path.ends_with("/*")) => {
            "wildcard can only do suffix matching"
        }
        _ => return,
    };
    url.invalid(why);
}
