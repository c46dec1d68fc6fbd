//! Match conditions of webhook authorizers: CEL expressions over the SubjectAccessReview.

use std::sync::LazyLock;

use kevel_api::field_error::{FieldError, Path};
use kevel_api::value::{Map, Value};
use kevel_cel::{Activation, Budget, CompileError, DeclType, Environment, Program, Type};
use kevel_clock::Stopwatch;

use super::metrics::AuthorizationMetrics;

/// Maximum number of conditions.
const MAX_CONDITIONS: usize = 64;

/// Conditions that must all be true; an empty list is true.
#[derive(Clone, Debug, Default)]
pub struct MatchConditions {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug)]
struct Condition {
    expression: String,
    program: Program,
}

impl MatchConditions {
    /// Compiles expressions; all errors are reported below `path`.
    pub(super) fn compile(
        expressions: &[String],
        path: &Path<'_>,
    ) -> Result<Self, Vec<FieldError>> {
        let at = path.child("matchConditions");
        if expressions.len() > MAX_CONDITIONS {
            let error = FieldError::too_many(&at, Some(expressions.len()), MAX_CONDITIONS);
            return Err(vec![error]);
        }
        let (mut conditions, mut errors) = (Vec::new(), Vec::new());
        for (index, expression) in expressions.iter().enumerate() {
            let at = at.index(index);
            let at = at.child("expression");
            if expression.trim().is_empty() {
                errors.push(FieldError::required(&at, ""));
            } else if expressions.iter().take(index).any(|other| other == expression) {
                errors.push(FieldError::duplicate(&at, expression.as_str()));
            } else {
                match Condition::compile(expression) {
                    Ok(condition) => conditions.push(condition),
                    Err(error) => {
                        errors.push(FieldError::invalid(&at, expression.as_str(), error));
                    }
                }
            }
        }
        if errors.is_empty() { Ok(MatchConditions { conditions }) } else { Err(errors) }
    }

    /// True if all conditions are true for the `spec` of a review. A false condition takes precedence over errors of
    /// others.
    pub(super) fn matches(
        &self,
        spec: &Value,
        name: &str,
        metrics: &AuthorizationMetrics,
    ) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let labels = ["Webhook", name];
        let started = Stopwatch::start();
        let request = complete(spec);
        let mut errors = Vec::new();
        let mut all = true;
        for condition in &self.conditions {
            match condition.evaluate(&request) {
                Ok(true) => {}
                Ok(false) => {
                    all = false;
                    break;
                }
                Err(error) => errors.push(error),
            }
        }
        metrics.match_duration.with(&labels).observe(started.elapsed().as_secs_f64());
        if !errors.is_empty() {
            metrics.match_errors.with(&labels).increment();
        }
        if !all {
            metrics.match_exclusions.with(&labels).increment();
            return Ok(false);
        }
        crate::rbac::aggregate(errors.into_iter()).map_or(Ok(true), Err)
    }
}

impl Condition {
    fn compile(expression: &str) -> Result<Self, String> {
        let (program, output_type) = match ENVIRONMENT.compile(expression) {
            Ok(program) => (Ok(program.clone()), program.output_type()),
            Err(CompileError::Program { why, output_type }) => {
                (Err(format!("program instantiation failed: {why}")), output_type)
            }
            Err(CompileError::Issues(issues)) => {
                return Err(format!("compilation failed: {issues}"));
            }
        };
        match output_type {
            Type::Bool => Ok(Condition { expression: expression.to_owned(), program: program? }),
            other => Err(format!("must evaluate to bool but got {}", other.full_name())),
        }
    }

    fn evaluate(&self, request: &Value) -> Result<bool, String> {
        let expression = &self.expression;
        let mut activation = Activation::new();
        activation.bind(REQUEST, kevel_cel::Value::from_tree(request));
        let evaluation = self.program.evaluate(&activation, Budget::default());
        let result = evaluation.result.map_err(|error| {
            format!("cel evaluation error: expression '{expression}' resulted in error: {error}")
        })?;
        result.as_bool().ok_or_else(|| {
            format!(
                "cel evaluation error: expression '{expression}' eval result type should be bool"
            )
        })
    }
}

/// Variable of the expressions.
const REQUEST: &str = "request";
/// Text fields of `resourceAttributes`.
const RESOURCE: [&str; 7] =
    ["namespace", "verb", "group", "version", "resource", "subresource", "name"];

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let text = DeclType::string;
    let texts = || DeclType::list(DeclType::string());
    let path = [("path", text()), ("verb", text())];
    let selector = |of: &str| {
        let requirement = [("key", text()), ("operator", text()), ("values", texts())];
        let requirement = DeclType::object("kubernetes.SelectorRequirement", requirement);
        let parts = [("rawSelector", text()), ("requirements", DeclType::list(requirement))];
        DeclType::object(&format!("kubernetes.{of}Attributes"), parts)
    };
    let selectors = [
        ("fieldSelector", selector("FieldSelector")),
        ("labelSelector", selector("LabelSelector")),
    ];
    let resource = RESOURCE.map(|field| (field, text())).into_iter().chain(selectors);
    let request = [
        ("resourceAttributes", DeclType::object("kubernetes.ResourceAttributes", resource)),
        ("nonResourceAttributes", DeclType::object("kubernetes.NonResourceAttributes", path)),
        ("user", text()),
        ("groups", texts()),
        ("extra", DeclType::map(texts())),
        ("uid", text()),
    ];
    let request = DeclType::object("kubernetes.SubjectAccessReviewSpec", request);
    Environment::builder().variable(REQUEST, request).build()
});

/// Spec with all fields that expressions may select, if only empty.
fn complete(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let fill = |map: &mut Map, fields: &[&str], empty: fn() -> Value| {
        for field in fields {
            map.entry_or_insert_with(field, empty);
        }
    };
    let text: fn() -> Value = || "".into();
    let list: fn() -> Value = || Value::List(Default::default());
    if let Some(map) = spec.as_map_mut() {
        fill(map, &["user", "uid"], text);
        fill(map, &["groups"], list);
        fill(map, &["extra"], || Map::new().into());
    }
    if let Some(resource) = spec.at_mut(&["resourceAttributes"]).and_then(Value::as_map_mut) {
        fill(resource, &RESOURCE, text);
    }
    let path = spec.at_mut(&["nonResourceAttributes"]).and_then(Value::as_map_mut);
    if let Some(path) = path {
        fill(path, &["path", "verb"], text);
    }
    for selector in ["fieldSelector", "labelSelector"] {
        let requirements = spec.at_mut(&["resourceAttributes", selector, "requirements"]);
        for requirement in requirements.and_then(Value::as_list_mut).into_iter().flatten() {
            if let Some(requirement) = requirement.as_map_mut() {
                fill(requirement, &["values"], list);
            }
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json::{Unknown, decode_any};
    use kevel_server::metrics::Metrics;

    fn compile(expressions: &[&str]) -> Result<MatchConditions, Vec<String>> {
        let expressions: Vec<String> = expressions.iter().map(|&text| text.to_owned()).collect();
        let compiled = MatchConditions::compile(&expressions, &Path::new("webhook"));
        compiled.map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn conditions_are_about_what_is_asked() {
        let metrics = Metrics::default();
        let own = AuthorizationMetrics::new(&metrics, "");
        let pods = r#"{"user":"jane","groups":["dev"],"resourceAttributes":{"namespace":"kube-system","verb":"list","resource":"pods","labelSelector":{"requirements":[{"key":"a","operator":"Exists"}]}}}"#;
        let path = r#"{"user":"jane","extra":{"k":["v"]},"nonResourceAttributes":{"path":"/x","verb":"get"}}"#;
        for (spec, expressions, expected) in [
            (pods, &["has(request.resourceAttributes)"][..], Ok(true)),
            (path, &["has(request.resourceAttributes)"], Ok(false)),
            (path, &["request.nonResourceAttributes.path == '/x'"], Ok(true)),
            (pods, &["request.resourceAttributes.namespace == 'kube-system'"], Ok(true)),
            (
                pods,
                &["request.resourceAttributes.subresource == ''", "'dev' in request.groups"],
                Ok(true),
            ),
            (pods, &["!('system:serviceaccounts:kube-system' in request.groups)"], Ok(true)),
            (
                path,
                &["'v' in request.extra['k']", "request.uid == ''", "size(request.groups) == 0"],
                Ok(true),
            ),
            (
                pods,
                &[
                    "request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'a' && r.values.size() == 0)",
                ],
                Ok(true),
            ),
            // A false condition takes precedence over an error.
            (
                path,
                &["request.resourceAttributes.verb == 'get'", "request.user == 'joe'"],
                Ok(false),
            ),
            (
                path,
                &["request.resourceAttributes.verb == 'get'", "request.user == 'jane'"],
                Err(
                    "cel evaluation error: expression 'request.resourceAttributes.verb == 'get'' resulted in error: no such key: resourceAttributes",
                ),
            ),
            (pods, &[], Ok(true)),
        ] {
            let spec = decode_any(spec.as_bytes(), Unknown::Ignore).unwrap().value;
            let conditions = compile(expressions).unwrap();
            let found = conditions.matches(&spec, "w", &own);
            assert_eq!(found, expected.map_err(str::to_owned), "{expressions:?}");
        }
        let shown = metrics.show();
        for line in [
            r#"match_condition_exclusions_total{name="w",type="Webhook"} 2"#,
            r#"match_condition_evaluation_errors_total{name="w",type="Webhook"} 2"#,
        ] {
            assert!(shown.contains(line), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_expression_is_said() {
        let at = "webhook.matchConditions[0].expression: ";
        for (expression, expected) in [
            (
                "request.user",
                r#"Invalid value: "request.user": must evaluate to bool but got string"#,
            ),
            (
                "user == 'x'",
                r#"Invalid value: "user == 'x'": compilation failed: ERROR: <input>:1:1: undeclared reference to 'user' (in container '')"#,
            ),
            (
                "request.foo == 'x'",
                r#"Invalid value: "request.foo == 'x'": compilation failed: ERROR: <input>:1:8: undefined field 'foo'"#,
            ),
            (
                "request.resourceAttributes.nope == 'x'",
                r#"Invalid value: "request.resourceAttributes.nope == 'x'": compilation failed: ERROR: <input>:1:27: undefined field 'nope'"#,
            ),
            (" ", "Required value"),
        ] {
            let errors = compile(&[expression]).unwrap_err();
            assert!(errors[0].starts_with(&format!("{at}{expected}")), "{errors:?}");
        }
        assert_eq!(
            compile(&["true", "true"]).unwrap_err(),
            [r#"webhook.matchConditions[1].expression: Duplicate value: "true""#]
        );
    }
}
