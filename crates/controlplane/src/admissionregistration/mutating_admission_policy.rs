//! Kind MutatingAdmissionPolicy: validation.

use kevel_admission::cel::{Compiler, OptionalVariableDeclarations, Returns};
use kevel_api::field_error::BadValue;

use super::REINVOCATION_POLICIES;
use super::expression::{compile, in_scope, match_conditions};
use super::policy::{match_conditions_changed, policy, variables};
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

/// `mutatingadmissionpolicies`
pub static KIND: Kind = Kind {
    storage_version: Some("v1beta1"),
    columns: columns::admissionregistration::MUTATING_ADMISSION_POLICY,
    ..super::kind("mutatingadmissionpolicies", RULES)
};

const RULES: Rules = Rules {
    validate_create: |new| {
        check(new.at("spec"), true);
        super::static_suffix(new);
    },
    validate_update: |new, old| check(new.at("spec"), match_conditions_changed(new, old)),
    ..Rules::NONE
};

/// Operations that can be mutated: all but DELETE.
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

/// A patch type: name, field, and type that its expression must return.
type PatchType = (&'static str, &'static str, Returns);

const PATCH_TYPES: [PatchType; 2] = [
    ("ApplyConfiguration", "applyConfiguration", Returns::Object),
    ("JSONPatch", "jsonPatch", Returns::JsonPatches),
];

fn check(spec: Field, conditions_changed: bool) {
    policy(spec);
    operations(spec.at("matchConstraints"));
    let has_params = spec.at("paramKind").is_set();
    if conditions_changed {
        match_conditions(spec.at("matchConditions"), has_params);
    }
    let mut compiler = Compiler::composited();
    variables(spec.at("variables"), has_params, &mut compiler);
    let mutations = spec.at("mutations");
    mutations.must("mutations must contain at least one item");
    mutations.items().for_each(|one| mutation(one, has_params, &compiler));
    spec.at("reinvocationPolicy").must_one_of("", REINVOCATION_POLICIES);
}

/// Checks the operations in the rules of a mutating policy or of its binding.
pub(super) fn operations(resources: Field) {
    for rule in resources.at("resourceRules").items() {
        for operation in rule.at("operations").strings() {
            if !OPERATIONS.contains(&operation) {
                let place = resources.down("resourceRules.operations");
                place.unsupported_as(BadValue::named_string(operation), OPERATIONS);
            }
        }
    }
}

fn mutation(mutation: Field, has_params: bool, compiler: &Compiler) {
    let patch_type = mutation.at("patchType");
    if !patch_type.must("") {
        return;
    }
    let known = PATCH_TYPES.iter().find(|(name, ..)| *name == patch_type.str());
    let Some((name, own, returns)) = known else {
        return patch_type.unsupported(&PATCH_TYPES.map(|(name, ..)| name));
    };
    let patch = mutation.at(own);
    match patch.is_set() {
        true => patch_expression(patch.at("expression"), *returns, has_params, compiler),
        false => patch.required(format!("must be specified when patchType is {name}")),
    }
    for (_, other, _) in PATCH_TYPES.iter().filter(|(_, other, _)| other != own) {
        if mutation.at(other).is_set() {
            let why = format!("must not be specified when patchType is {name}");
            mutation.at(other).invalid_as(format!("{{{other}}}"), why);
        }
    }
}

fn patch_expression(expression: Field, returns: Returns, has_params: bool, compiler: &Compiler) {
    let declarations =
        OptionalVariableDeclarations { has_patch_types: true, ..in_scope(has_params) };
    match expression.str().trim() {
        "" => expression.required(""),
        text => compile(expression, text, compiler, returns, declarations),
    }
}
