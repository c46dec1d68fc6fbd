//! Tests of the host's parts: authorizers, variables that are expressions, constructed objects, types of built-in
//! kinds.

#![allow(clippy::unwrap_used)]

mod common;

use common::{json, show};
use kevel_cel::{
    Activation, Authorizer, Budget, Decision, DeclType, Environment, Program, ResourceCheck, Type,
    Value, Variables,
};

struct Recorded;

/// Allows questions about `pods`, and gives the question as the reason.
impl Authorizer for Recorded {
    fn authorize_path(
        &self,
        account: Option<(&str, &str)>,
        path: &str,
        verb: &str,
    ) -> Option<Decision> {
        let reason = format!("{account:?} {verb} {path}");
        (path != "/wait").then(|| Decision { allowed: path == "/healthz", reason, error: None })
    }

    fn authorize_resource(
        &self,
        account: Option<(&str, &str)>,
        check: &ResourceCheck,
        verb: &str,
    ) -> Option<Decision> {
        let ResourceCheck {
            group,
            resource,
            subresource,
            namespace,
            name,
            field_selector,
            label_selector,
        } = check;
        let reason = format!(
            "{account:?} {verb} {group}/{resource}/{subresource} {namespace}/{name} {field_selector} {label_selector}"
        );
        let error = (resource == "broken").then(|| "broken".to_owned());
        Some(Decision { allowed: resource == "pods", reason, error })
    }
}

fn evaluate(program: &Program) -> String {
    let pods = ResourceCheck { resource: "pods".into(), ..Default::default() };
    let mut activation = Activation::new();
    activation
        .bind("authorizer", Value::authorizer(&Recorded))
        .bind("authorizer.requestResource", Value::resource_check(&Recorded, pods));
    let evaluation = program.evaluate(&activation, Budget::default());
    match &evaluation.result {
        Ok(value) => format!("{} [{}]", show(value), evaluation.cost),
        Err(error) => format!("error: {error}"),
    }
}

/// Programs and environments are shared by the threads that serve requests.
#[test]
fn programs_are_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Program>();
    shared::<Environment>();
}

#[test]
fn authorizer() {
    let check = DeclType::simple(Type::object("kubernetes.authorization.ResourceCheck"));
    let environment = Environment::builder()
        .variable(
            "authorizer",
            DeclType::simple(Type::object("kubernetes.authorization.Authorizer")),
        )
        .variable("authorizer.requestResource", check)
        .build();
    for (expression, expected) in [
        ("authorizer.path('/healthz').check('get').allowed()", "true [350003]"),
        ("authorizer.path('')", "error: path must not be empty"),
        ("true || authorizer.path('/wait').check('get').allowed()", "true [0]"),
        ("authorizer.path('/wait').check('get').allowed() || true", "error: operation interrupted"),
        ("authorizer.group('').resource('pods').check('create').allowed()", "true [350004]"),
        (
            "authorizer.group('apps').resource('x').subresource('status').namespace('ns').name('n').check('get').reason()",
            r#""None get apps/x/status ns/n  " [350007]"#,
        ),
        (
            "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c').check('list').reason()",
            r#""None list /pods/ / a=b c" [350176]"#,
        ),
        (
            "authorizer.serviceAccount('ns', 'sa').group('').resource('broken').check('get').error()",
            r#""broken" [350005]"#,
        ),
        ("authorizer.serviceAccount('ns', 'A')", "error: Invalid service account name"),
        ("authorizer.requestResource.check('get').allowed()", "true [350002]"),
    ] {
        let program = environment.compile(expression).unwrap();
        assert_eq!(evaluate(&program), expected, "{expression}");
    }
}

#[test]
fn variables_are_evaluated_once_and_when_needed() {
    let declared = DeclType::object("kubernetes.variables", []);
    let environment = Environment::builder()
        .variable("object", DeclType::simple(Type::Dyn))
        .variable("variables", declared)
        .build();
    let mut variables = Variables::new("kubernetes.variables");
    for (name, expression) in
        [("name", "object.name"), ("broken", "1 / 0"), ("twice", "variables.name + variables.name")]
    {
        let program = environment.compile_with(expression, &variables).unwrap();
        variables.push(name, Ok(program));
    }
    variables.push("none", Err("why".to_owned()));
    let unknown = environment.compile_with("variables.later", &variables).unwrap_err();
    assert!(unknown.to_string().contains("undefined field 'later'"));
    let object = json(r#"{"name": "n"}"#);
    for (expression, expected, cost, composition_cost) in [
        ("variables.twice == 'nn'", "true", 3, 7),
        ("object.name", "\"n\"", 2, 0),
        ("variables.name == variables.name", "true", 5, 2),
        ("has(variables.name)", "true", 1, 2),
        (
            "has(variables.broken)",
            r#"composited variable "broken" fails to evaluate: division by zero"#,
            1,
            1,
        ),
        ("variables.none", r#"composited variable "none" fails to compile: why"#, 2, 0),
        ("variables.broken == 1 || true", "true", 3, 1),
    ] {
        let program = environment.compile_with(expression, &variables).unwrap();
        let mut activation = Activation::new();
        activation.bind("object", Value::from_tree(&object)).compose("variables", &variables);
        let evaluation = program.evaluate(&activation, Budget::default());
        let found = evaluation.result.as_ref().map_or_else(ToString::to_string, show);
        assert_eq!(found, expected, "{expression}");
        let costs = (evaluation.cost, activation.take_composition_cost());
        assert_eq!(costs, (cost, composition_cost), "{expression}");
    }
}

#[test]
fn objects_are_made() {
    let environment = Environment::builder().dynamic_object_types("Object").json_patch().build();
    for (expression, expected) in [
        ("Object{spec: Object.spec{replicas: 1 + 1}}", "Object{spec: Object.spec{replicas: 2}}"),
        ("Object{spec: Object.spec{?replicas: optional.none()}}.spec", "Object.spec{}"),
        ("has(Object{}.spec)", "false"),
        (
            "JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('x/y~z'), value: {'k': 1}}",
            r#"JSONPatch{op: "add", path: "/a/x~1y~0z", value: {"k": 1}}"#,
        ),
        ("Object{spec: 1}.spec", "1"),
        ("Object{}.nothing", "null"),
        ("Object", "reference to undefined type: Object"),
        ("JSONPatch{op: 1}", "expected type of field 'op' is 'string' but provided type is 'int'"),
        ("Objects{status: 1}", "undeclared reference to 'Objects'"),
    ] {
        let found = match environment.compile(expression) {
            Ok(program) => {
                show(&program.evaluate(&Activation::new(), Budget::default()).result.unwrap())
            }
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{expression}: {found}");
    }
    let program = environment.compile("Object{spec: Object.spec{replicas: 2}}").unwrap();
    let value = program.evaluate(&Activation::new(), Budget::default()).result.unwrap().to_tree();
    assert_eq!(value.unwrap(), json(r#"{"spec": {"replicas": 2}}"#));
}

#[test]
fn types_of_built_in_kinds() {
    let schema = kevel_api::builtin::schema("apps", "v1", "Deployment").unwrap();
    let declared = DeclType::from_schema("Deployment", schema);
    let environment = Environment::builder().variable("object", declared).build();
    for (expression, expected) in [
        ("object.spec.replicas > 1", "bool"),
        ("object.metadata.labels['a']", "string"),
        ("object.metadata.__namespace__", "string"),
        ("object.metadata.namespace", "string"),
        ("object.spec.template.spec.containers.map(c, c.image)", "list(string)"),
        ("object.spec.template.spec.containers[0].ports[0].containerPort", "int"),
        ("object.spec.strategy.rollingUpdate.maxSurge", "dyn"),
        ("object.spec.nothing", "undefined field 'nothing'"),
    ] {
        let found = match environment.compile(expression) {
            Ok(program) => program.output_type().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{expression}: {found}");
    }
}
