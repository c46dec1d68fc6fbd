//! Expressions of a `MutatingAdmissionPolicy`, and the patches that they return.

use std::sync::Arc;

use kevel_api::value::Value;
use kevel_cel::Variables;
use kevel_patch::json_patch::Patch;

use super::tree::{apply_configuration, json_patch};
use crate::cel::{
    Compiler, Evaluator as Evaluation, Expression, Input, MatchConditions, Matcher,
    OptionalVariableDeclarations, RUNTIME_COST_BUDGET, Returns, evaluate_nested,
};
use crate::policy::definition::{Evaluator, failure_policy, named};

/// Compiled expressions of a policy.
#[derive(Debug)]
pub(in crate::policy) struct Mutator {
    pub conditions: MatchConditions,
    pub mutations: Vec<Mutation>,
    /// Whether `reinvocationPolicy` is `IfNeeded`.
    pub if_needed: bool,
    variables: Option<Variables>,
}

/// One of the `mutations`: an expression that returns a patch.
#[derive(Debug)]
pub(in crate::policy) struct Mutation {
    patch_type: PatchType,
    expression: Expression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchType {
    ApplyConfiguration,
    JsonPatch,
}

/// Change that a mutation makes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// Apply configuration, merged as in server-side apply.
    Apply(Value),
    /// JSON patch.
    Patch(Patch),
}

impl Evaluator for Mutator {
    fn compile(name: &Arc<str>, spec: &Value) -> Self {
        let has_params = spec.at(&["paramKind"]).is_some();
        let declarations = OptionalVariableDeclarations {
            has_params,
            has_authorizer: true,
            has_patch_types: false,
        };
        let of_patches = OptionalVariableDeclarations { has_patch_types: true, ..declarations };
        let mut compiler = Compiler::composited();
        for (name, expression) in named(spec, "variables", "expression") {
            // A variable that does not compile fails the expressions that read it.
            let _ = compiler.variable(name, expression, declarations);
        }
        let matcher = Matcher { kind: "policy", step: "validate", name: name.clone() };
        let conditions = MatchConditions::compile(
            &compiler,
            named(spec, "matchConditions", "expression"),
            declarations,
            failure_policy(spec),
            matcher,
        );
        let mutation = |mutation: &Value| {
            let (patch_type, field, returns) = match mutation.str_at(&["patchType"]) {
                "JSONPatch" => (PatchType::JsonPatch, "jsonPatch", Returns::JsonPatches),
                _ => (PatchType::ApplyConfiguration, "applyConfiguration", Returns::Object),
            };
            let expression = mutation.str_at(&[field, "expression"]);
            Mutation { patch_type, expression: compiler.compile(expression, returns, of_patches) }
        };
        let mutations = spec.at(&["mutations"]).and_then(Value::as_list).unwrap_or_default();
        Mutator {
            conditions,
            mutations: mutations.iter().map(mutation).collect(),
            if_needed: spec.str_at(&["reinvocationPolicy"]) == "IfNeeded",
            variables: compiler.variables().cloned(),
        }
    }
}

impl Mutator {
    /// Compiled variables, for the input.
    pub fn variables(&self) -> Option<&Variables> {
        self.variables.as_ref()
    }
}

impl Mutation {
    /// Evaluates the expression to the change that it returns.
    pub fn evaluate(&self, input: &Input<'_>) -> Result<Change, String> {
        if let Err(error) = &self.expression.program {
            return Err(error.detail.clone());
        }
        let evaluated = evaluate_nested(self.expression.nesting, || self.evaluate_here(input));
        evaluated.map_err(|error| error.detail)?
    }

    fn evaluate_here(&self, input: &Input<'_>) -> Result<Change, String> {
        let mut evaluation = Evaluation::new(input, RUNTIME_COST_BUDGET);
        let outcome = evaluation.evaluate(&self.expression).and_then(|outcome| outcome);
        let value = outcome.map_err(|error| error.detail)?;
        match self.patch_type {
            PatchType::ApplyConfiguration => apply_configuration(&value).map(Change::Apply),
            PatchType::JsonPatch => json_patch(&value).map(Change::Patch),
        }
    }
}
