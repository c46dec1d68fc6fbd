//! Status of ValidatingAdmissionPolicies: warnings of type checking.

mod schema;

use std::collections::BTreeSet;
use std::sync::Arc;

use kevel_admission::cel::TypeChecker;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_cel::{DeclType, Type};
use kevel_controller_runtime::{Backoff, Client, run};
use kevel_registry::resource::Resources;

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;
use schema::declared_type;

const NAME: &str = "validatingadmissionpolicy-status-controller";
/// Name of the queue, and field manager of the status.
const MANAGER: &str = "validatingadmissionpolicy-status";
/// Workers (upstream: `ConcurrentPolicySyncs`).
const WORKERS: usize = 5;
/// Most types that a policy's expressions are checked for.
const MAX_TYPES: usize = 10;

struct PolicyStatus {
    client: Client,
    policies: CacheLister,
    tables: Vec<Arc<Resources>>,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let group = "admissionregistration.k8s.io";
    let this = Arc::new(PolicyStatus {
        client: context.client(NAME),
        policies: CacheLister::new(context.storage(group, "validatingadmissionpolicies")?),
        tables: context.tables().to_vec(),
    });
    let queue = context.queue(MANAGER, Backoff::default());
    let heard = queue.clone();
    let policies = this.policies.informer().for_each(move |policy| heard.add(policy.name()));
    let reconcile = move |name: String| {
        let this = this.clone();
        async move { this.reconcile(&name).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        tokio::join!(policies, run(queue, NAME, WORKERS, reconcile));
    }))
}

impl PolicyStatus {
    async fn reconcile(&self, name: &str) -> Result<(), StatusError> {
        let Some(policy) = self.policies.get("", name)? else { return Ok(()) };
        let number = |path: &[&str]| policy.at(path).and_then(Value::as_int).unwrap_or(0);
        let generation = number(&["metadata", "generation"]);
        if generation <= number(&["status", "observedGeneration"]) {
            return Ok(());
        }
        let warnings = self.check(&policy).await;
        let checked = if warnings.is_empty() {
            Map::new()
        } else {
            Map::from_iter([("expressionWarnings", Value::List(warnings.into_iter().collect()))])
        };
        let status = Map::from_iter([
            ("observedGeneration", Value::from(generation)),
            ("typeChecking", checked.into()),
        ]);
        let configuration = Map::from_iter([
            ("apiVersion", Value::from("admissionregistration.k8s.io/v1")),
            ("kind", "ValidatingAdmissionPolicy".into()),
            ("metadata", Map::from_iter([("name", Value::from(name))]).into()),
            ("status", status.into()),
        ]);
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}/status"
        );
        self.client.apply(&path, &configuration.into(), MANAGER).await.map(drop)
    }

    /// Warnings about the expressions of a policy.
    async fn check(&self, policy: &Value) -> Vec<Value> {
        let params = match params_kind(policy) {
            Some(kind) => {
                let known = declared_type(&self.client, &kind).await;
                Some(known.unwrap_or_else(|| DeclType::simple(Type::Dyn)))
            }
            None => None,
        };
        let mut checkers = Vec::new();
        for kind in self.kinds(policy) {
            let Some(object) = declared_type(&self.client, &kind).await else { continue };
            let mut checker = TypeChecker::new(object, params.clone());
            for variable in policy.list_at(&["spec", "variables"]) {
                checker.variable(variable.str_at(&["name"]), variable.str_at(&["expression"]));
            }
            checkers.push((kind, checker));
        }
        let mut warnings = Vec::new();
        for (at, validation) in policy.list_at(&["spec", "validations"]).iter().enumerate() {
            for field in ["expression", "messageExpression"] {
                let expression = validation.str_at(&[field]);
                if field == "messageExpression" && expression.is_empty() {
                    continue;
                }
                let issues = checkers.iter().filter_map(|(kind, checker)| {
                    Some(format!("{kind}: {}\n", checker.check(expression)?))
                });
                let issues: Vec<String> = issues.collect();
                if !issues.is_empty() {
                    let reference = format!("spec.validations[{at}].{field}");
                    let warning = Map::from_iter([
                        ("fieldRef", Value::from(reference.as_str())),
                        ("warning", issues.join("\n").as_str().into()),
                    ]);
                    warnings.push(warning.into());
                }
            }
        }
        warnings
    }

    /// Kinds that a policy names: without wildcards, the first [`MAX_TYPES`].
    fn kinds(&self, policy: &Value) -> BTreeSet<GroupVersionKind> {
        let mut kinds = BTreeSet::new();
        for rule in policy.list_at(&["spec", "matchConstraints", "resourceRules"]) {
            let named = |field| {
                let mut names: Vec<&str> =
                    rule.list_at(&[field]).iter().filter_map(Value::as_str).collect();
                names.sort_unstable();
                names
            };
            let (groups, versions) = (named("apiGroups"), named("apiVersions"));
            if groups.iter().chain(&versions).any(|name| name.contains('*')) {
                continue;
            }
            let mut found = 0;
            for group in &groups {
                for version in &versions {
                    for plural in named("resources") {
                        if let Some(kind) = self.kind(group, version, plural) {
                            kinds.insert(kind);
                            found += 1;
                        }
                        if found == MAX_TYPES {
                            return kinds;
                        }
                    }
                }
            }
        }
        kinds
    }

    /// Kind of a served resource.
    fn kind(&self, group: &str, version: &str, plural: &str) -> Option<GroupVersionKind> {
        self.tables.iter().find_map(|table| {
            let rows = table.current();
            let row = rows.all().find(|row| {
                kevel_compute::charge(1);
                (&*row.kind.group, &*row.kind.version) == (group, version) && row.plural == plural
            });
            row.map(|row| row.kind.clone())
        })
    }
}

/// Kind of a policy's parameters, if it has any.
fn params_kind(policy: &Value) -> Option<GroupVersionKind> {
    let kind = policy.at(&["spec", "paramKind"])?;
    let version = kind.str_at(&["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Some(GroupVersionKind::new(group, version, kind.str_at(&["kind"])))
}
