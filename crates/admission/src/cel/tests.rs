//! Tests of expressions: text cases of compilation, evaluation and match conditions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kevel_api::gvk::GroupVersionKind;
use kevel_api::schema::{Scalar, Schema, Type};
use kevel_api::value::{Map, Value};
use kevel_api::{builtin, quote::quote};
use kevel_codec::json::{Unknown, decode_any};
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, OperationOptions};
use kevel_registry::columns::NameAndCreation;
use kevel_registry::resource::{Conventions, Resource, Subresource, SubresourceKind};
use kevel_registry::strategy::Generic;
use kevel_registry::type_ref::TypeRef;
use kevel_registry::user::User;
use kevel_registry::verb::Verb;
use kevel_registry::warnings::Warnings;
use kevel_server::audit::AuditContext;
use kevel_server::authorization::{Attributes as Question, Authorizer, Decision, Opinion};
use kevel_server::metrics::Metrics;

use super::*;

/// Authorizer without opinion on questions with `no`; gives the question as the reason, and is pending once for paths
/// with `wait`.
#[derive(Default)]
struct Repeats {
    asked: AtomicUsize,
}

impl Authorizer for Repeats {
    fn authorize<'a>(&'a self, question: &'a Question<'a>) -> Pending<'a, Opinion> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if question.path.contains("wait") {
                tokio::task::yield_now().await;
            }
            let Question { user, verb, group, version, resource, subresource, .. } = question;
            let groups = match user.name.as_str() {
                "jane" => String::new(),
                _ => format!(" in [{}]", user.groups.join(" ")),
            };
            let labels: String =
                question.selectors.labels.iter().map(|label| format!(" {label}")).collect();
            let about = match question.is_resource {
                true => format!(
                    "{group}/{version}/{resource}/{subresource} {}/{}{labels}",
                    question.namespace, question.name
                ),
                false => question.path.to_owned(),
            };
            Opinion {
                decision: if about.contains("no") { Decision::NoOpinion } else { Decision::Allow },
                reason: format!("{}{groups} {verb} {about}", user.name),
                error: (question.path == "/broken").then(|| "broken".to_owned()),
            }
        })
    }
}

/// Admission of an update of a Deployment's scale.
struct World {
    row: Resource,
    user: User,
    warnings: Warnings,
    audit: AuditContext,
    object: Value,
    kind: GroupVersionKind,
    schema: Schema<'static>,
    namespace: Value,
    options: Value,
}

impl World {
    fn new() -> Self {
        let ty = TypeRef::BuiltIn(builtin::schema("autoscaling", "v1", "Scale").unwrap());
        let scale = Subresource {
            kind: GroupVersionKind::new("autoscaling", "v1", "Scale"),
            verbs: Vec::new(),
            ty: ty.clone(),
            role: SubresourceKind::NotServed,
        };
        let row = Resource {
            kind: GroupVersionKind::new("apps", "v1", "Deployment"),
            plural: "deployments".to_owned(),
            singular: String::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs: Vec::new(),
            ty,
            strategy: Arc::new(Generic),
            allocation: None,
            columns: Arc::new(NameAndCreation),
            storage: None,
            creater: None,
            lister: None,
            subresources: BTreeMap::from([("scale".to_owned(), scale)]),
            list_kind: String::new(),
            conventions: Conventions::typed(false),
        };
        let user = User {
            name: "jane".to_owned(),
            groups: vec!["dev".to_owned()],
            extra: vec![("k".to_owned(), vec!["v".to_owned()])],
            ..User::default()
        };
        let namespace = json(
            r#"{"metadata":{"name":"ns","labels":{"env":"prod"},"creationTimestamp":"2024-01-01T00:00:00Z",
                "managedFields":[{}],"ownerReferences":[{}]},"status":{"phase":"Active"}}"#,
        );
        let schema = builtin::schema("autoscaling", "v1", "Scale").unwrap();
        let kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
        let object = json(r#"{"metadata":{"name":"web"},"spec":{"replicas":3}}"#);
        World {
            row,
            user,
            warnings: Warnings::default(),
            audit: AuditContext::default(),
            object,
            kind,
            schema,
            namespace: namespace_object(&namespace),
            options: json(r#"{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1"}"#),
        }
    }

    fn object(&self) -> Object<'_> {
        Object { tree: &self.object, schema: self.schema, kind: &self.kind }
    }

    fn attributes(&self) -> Attributes<'_> {
        static CLOCK: kevel_clock::Clock = kevel_clock::Clock::system();
        Attributes {
            resource: &self.row,
            subresource: "scale",
            operation: Operation::Update,
            verb: Verb::Update,
            namespace: "ns",
            name: "web",
            user: &self.user,
            dry_run: false,
            warnings: &self.warnings,
            audit: &self.audit,
            old: None,
            options: OperationOptions::None,
            deadline: None,
            clock: &CLOCK,
            trackers: None,
            reinvocation: None,
        }
    }
}

fn json(text: &str) -> Value {
    decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
}

/// Lines without comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

#[test]
fn compile() {
    let mut cases: Vec<(&str, String)> = Vec::new();
    for line in lines(include_str!("cases/compile.txt")).filter(|line| !line.is_empty()) {
        let is_case = line.split_once(" | ").is_some_and(|(head, _)| !head.is_empty());
        match cases.last_mut() {
            Some((_, said)) if !is_case => said.push_str(&format!("\n{line}")),
            _ => cases.push((line, String::new())),
        }
    }
    assert!(cases.len() > 30);
    for (case, expected) in cases {
        let (head, expression) = case.split_once(" | ").unwrap();
        let (returns, scope) = head.rsplit_once(' ').unwrap();
        let returns = match returns {
            "bool" => Returns::Bool,
            "string" => Returns::String,
            "string or null" => Returns::StringOrNull,
            "anything" => Returns::Anything,
            "JSONPatches" => Returns::JsonPatches,
            "Object" => Returns::Object,
            other => panic!("{other}"),
        };
        let declarations = OptionalVariableDeclarations {
            has_params: scope.contains('p'),
            has_authorizer: scope.contains('a'),
            has_patch_types: scope.contains('t'),
        };
        let mut compiler = Compiler::new();
        if scope.contains('v') {
            compiler = Compiler::composited();
            let types = OptionalVariableDeclarations { has_patch_types: true, ..declarations };
            compiler.variable("replicas", "1 + 1", declarations).unwrap();
            compiler.variable("names", "['a', 'b']", declarations).unwrap();
            compiler.variable("patch", "JSONPatch{op: 'add'}", types).unwrap();
            compiler.variable("broken", "x", declarations).unwrap_err();
        }
        let found = match compiler.compile(expression, returns, declarations).program {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(format!("\n{found}"), expected, "{expression}");
    }
}

#[tokio::test]
async fn evaluate() {
    const ALL: OptionalVariableDeclarations = OptionalVariableDeclarations {
        has_params: true,
        has_authorizer: true,
        has_patch_types: false,
    };
    let mut compiler = Compiler::composited();
    compiler.variable("name", "object.metadata.name", ALL).unwrap();
    compiler.variable("broken", "1 / 0", ALL).unwrap();
    compiler.variable("none", "x", ALL).unwrap_err();
    let dear = "[1,2,3,4].all(i, authorizer.path('/a').check('get').allowed())";
    compiler.variable("dear", dear, ALL).unwrap();
    let world = World::new();
    let attributes = world.attributes();
    let request = admission_request(&attributes, attributes.resource, Some(&world.options));
    let repeats = Repeats::default();
    let authorizer = CachingAuthorizer::new(&repeats, &world.user);
    let input = Input {
        attributes: &attributes,
        request: Some(&request),
        object: Some(world.object()),
        old_object: None,
        params: None,
        namespace: Some(&world.namespace),
        authorizer: Some(&authorizer),
        variables: compiler.variables(),
    };
    let mut lines = lines(include_str!("cases/evaluate.txt")).filter(|line| !line.is_empty());
    let mut lines = std::iter::from_fn(|| lines.next()).peekable();
    while let Some(text) = lines.next() {
        let mut expected = lines.next().unwrap().to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with(" | ")) {
            expected.push_str(&format!("\n{more}"));
        }
        let expression = compiler.compile(text, Returns::Anything, ALL);
        let mut evaluator = Evaluator::new(&input, RUNTIME_COST_BUDGET);
        let found = match evaluator.evaluate(&expression).unwrap() {
            Ok(kevel_cel::Value::String(text)) => quote(&text),
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }
}

#[tokio::test]
async fn match_conditions() {
    let declarations = OptionalVariableDeclarations { has_authorizer: true, ..Default::default() };
    let world = World::new();
    let attributes = world.attributes();
    let request = admission_request(&attributes, attributes.resource, None);
    for case in include_str!("cases/match_conditions.txt").split("\n\n").skip(1) {
        let mut lines = lines(case);
        let failure_policy = FailurePolicy::new(lines.next());
        let mut lines = lines.collect::<Vec<_>>();
        let counted = lines.pop_if(|line| !line.starts_with("=>")).unwrap_or_default();
        let expected = lines.pop().unwrap().trim_start_matches("=> ");
        let names: Vec<String> = (0..lines.len()).map(|number| number.to_string()).collect();
        let conditions = MatchConditions::compile(
            &Compiler::new(),
            names.iter().map(String::as_str).zip(lines),
            declarations,
            failure_policy,
            Matcher { kind: "webhook", step: "admit", name: "w".into() },
        );
        let repeats = Repeats::default();
        let authorizer = CachingAuthorizer::new(&repeats, &world.user);
        let input = Input {
            attributes: &attributes,
            request: Some(&request),
            object: Some(world.object()),
            old_object: None,
            params: None,
            namespace: Some(&world.namespace),
            authorizer: Some(&authorizer),
            variables: None,
        };
        let metrics = Metrics::default();
        let counters = MatchConditionMetrics::new(&metrics);
        let found = match conditions.matches(&input, &counters).await {
            MatchResult::Matches => "matches".to_owned(),
            MatchResult::Excluded { failed_condition: None } => "excluded".to_owned(),
            MatchResult::Excluded { failed_condition: Some(name) } => format!("excluded by {name}"),
            MatchResult::Failed(error) => error.replace('\n', ""),
        };
        assert_eq!(found, expected, "{case}");
        let shown = metrics.show();
        let count = |name: &str| {
            let line = format!(
                r#"apiserver_admission_match_condition_{name}_total{{kind="webhook",name="w",operation="UPDATE",type="admit"}} "#
            );
            shown.split_once(&line).map(|(_, rest)| rest.lines().next().unwrap_or_default())
        };
        let parts = [("exclusions", "exclusions"), ("errors", "evaluation_errors")];
        let parts =
            parts.iter().filter_map(|(title, name)| Some(format!("{title} {}", count(name)?)));
        assert_eq!(parts.collect::<Vec<_>>().join(" "), counted, "{case}");
    }
}

#[tokio::test]
async fn questions_are_asked_once() {
    let declarations = OptionalVariableDeclarations { has_authorizer: true, ..Default::default() };
    let world = World::new();
    let attributes = world.attributes();
    let request = admission_request(&attributes, attributes.resource, None);
    let repeats = Repeats::default();
    let authorizer = CachingAuthorizer::new(&repeats, &world.user);
    let input = Input {
        attributes: &attributes,
        request: Some(&request),
        object: None,
        old_object: None,
        params: None,
        namespace: None,
        authorizer: Some(&authorizer),
        variables: None,
    };
    // A check that has to wait is asked twice: without waiting first, then by `settle`.
    for (path, asked) in [("/a", 1), ("/a", 1), ("/wait", 3), ("/wait", 3), ("/b", 4)] {
        let text = format!("authorizer.path('{path}').check('get').allowed()");
        let expression = Compiler::new().compile(&text, Returns::Bool, declarations);
        let evaluate = || {
            let mut evaluator = Evaluator::new(&input, RUNTIME_COST_BUDGET);
            evaluator.evaluate(&expression).unwrap().unwrap_or(kevel_cel::Value::Null).as_bool()
        };
        assert_eq!(authorizer.settle(evaluate).await, Ok(Some(true)));
        assert_eq!(repeats.asked.load(Ordering::Relaxed), asked, "{path}");
    }
}

/// Each variable may cost as much as an expression, but all together no more than the budget.
#[test]
fn variables_share_the_budget() {
    let mut compiler = Compiler::composited();
    let all = OptionalVariableDeclarations::default();
    compiler.variable("v0", "'0123456789'", all).unwrap();
    for i in 1..=16 {
        let text = format!("variables.v{0} + variables.v{0}", i - 1);
        compiler.variable(&format!("v{i}"), &text, all).unwrap();
    }
    for i in 0..200 {
        compiler.variable(&format!("d{i}"), "variables.v16 + 'x'", all).unwrap();
    }
    let dear: Vec<String> = (0..200).map(|i| format!("variables.d{i}")).collect();
    let dear = format!("[{}].size() == 200", dear.join(", "));
    let world = World::new();
    let attributes = world.attributes();
    let request = admission_request(&attributes, attributes.resource, None);
    let input = Input {
        attributes: &attributes,
        request: Some(&request),
        object: None,
        old_object: None,
        params: None,
        namespace: None,
        authorizer: None,
        variables: compiler.variables(),
    };
    let dear = compiler.compile(&dear, Returns::Bool, all);
    let error = Evaluator::new(&input, RUNTIME_COST_BUDGET_MATCH_CONDITIONS).evaluate(&dear);
    assert_eq!(error.unwrap_err().kind, ErrorKind::OutOfBudget);
    // An expression that reads only cheap variables is not affected.
    let cheap = compiler.compile("variables.v3.size() == 80", Returns::Bool, all);
    let value = Evaluator::new(&input, RUNTIME_COST_BUDGET).evaluate(&cheap).unwrap().unwrap();
    assert_eq!(value.as_bool(), Some(true));
}

/// Objects of every built-in kind look to expressions as they do to clients, whatever fields are set.
#[test]
fn objects_are_seen_as_they_are_written() {
    for kind in builtin::kinds() {
        let schema = kind.schema();
        let gvk = GroupVersionKind::new(kind.group, kind.version, kind.name);
        for said in [0, 1, 2] {
            let object = said_all(schema, said, 4);
            let seen = kevel_cel::Value::from_object(&object, schema, &gvk).to_tree().unwrap();
            let written = versioned_object(&object, schema, &gvk);
            assert_eq!(shown(&seen), shown(&written), "{gvk} {said}");
        }
    }
}

fn shown(tree: &Value) -> String {
    let mut text = Vec::new();
    kevel_codec::json::encode_any(tree, &mut text);
    String::from_utf8(text).unwrap()
}

/// A value of a type: no fields, zero values, or other values, down to a depth.
fn said_all(schema: Schema<'_>, said: usize, depth: usize) -> Value {
    match schema.ty() {
        Type::Struct(_) => {
            let fields = schema.as_struct().into_iter().flat_map(|structure| structure.fields());
            let fields = fields.filter(|_| said > 0 && depth > 0);
            let fields =
                fields.map(|field| (field.name(), said_all(field.schema(), said, depth - 1)));
            Value::Map(Map::from_iter(fields))
        }
        Type::List { item, .. } if said == 2 && depth > 0 => {
            Value::List([said_all(schema.other(*item), 1, depth - 1)].into_iter().collect())
        }
        Type::Map { value, .. } if said == 2 && depth > 0 => {
            let value = said_all(schema.other(*value), said, depth - 1);
            Value::Map(Map::from_iter([("key", value)]))
        }
        Type::List { .. } => Value::List(std::iter::empty().collect()),
        Type::Map { .. } => Value::Map(Map::new()),
        Type::Scalar(scalar) => match (scalar, said) {
            (Scalar::Bool, _) => Value::Bool(said == 2),
            (Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString, _) => {
                Value::Int(said as i64 - 1)
            }
            (_, 2) => "1".into(),
            _ => "".into(),
        },
        _ => Value::Null,
    }
}
