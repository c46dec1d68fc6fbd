//! Expressions that select devices, compiled when they are written.

use std::sync::OnceLock;

use kevel_api::field_error::FieldError;
use kevel_cel::{CompileError, DeclType, Environment, Type};
use kevel_features::{Feature, FeatureSet};

use super::device::{MAX_ATTRIBUTE_VALUE, MAX_ATTRIBUTES, MAX_VALUES};
use super::each;
use super::names::{MAX_DOMAIN, MAX_ID};
use crate::validation::Field;

/// The most selectors of one request or class.
const MAX_SELECTORS: usize = 32;
/// The longest expression.
const MAX_LENGTH: usize = 10 << 10;
/// The most that an expression may cost.
const MAX_COST: u64 = 1_000_000;

/// Checks a list of selectors.
pub(super) fn check(selectors: Field) {
    each(selectors, MAX_SELECTORS, |selector| {
        let cel = selector.at("cel");
        match cel.is_set() {
            true => expression(cel.at("expression")),
            false => cel.required(""),
        }
    });
}

fn expression(expression: Field) {
    if expression.len() > MAX_LENGTH {
        return expression.too_long(MAX_LENGTH);
    }
    let features = &expression.capabilities().features;
    let program = match environment(features).compile(expression.str()) {
        Ok(program) => program,
        Err(CompileError::Issues(issues)) => {
            return expression
                .invalid_as(expression.str(), format!("compilation failed: {issues}"));
        }
        Err(CompileError::Program { why, .. }) => {
            let why = format!("program instantiation failed: {why}");
            return expression.push(FieldError::internal(&expression.path(), why));
        }
    };
    match program.output_type() {
        Type::Bool | Type::Any => {}
        Type::Dyn if features.has(Feature::DRAListTypeAttributes) => {}
        other => {
            let other = other.full_name();
            let why = format!("must evaluate to bool or the unknown type, not {other}");
            return expression.invalid_as(expression.str(), why);
        }
    }
    if program.estimate_cost().max > MAX_COST {
        expression.forbidden("too complex, exceeds cost limit");
    }
}

/// CEL environment of device selectors, by the device fields of the enabled features.
fn environment(features: &FeatureSet) -> &'static Environment {
    static ENVIRONMENTS: [OnceLock<Environment>; 4] = [const { OnceLock::new() }; 4];
    let (shared, lists) = (
        features.has(Feature::DRAConsumableCapacity),
        features.has(Feature::DRAListTypeAttributes),
    );
    let index = usize::from(shared) + 2 * usize::from(lists);
    ENVIRONMENTS[index].get_or_init(|| {
        let environment = Environment::builder().variable("device", device(shared, lists));
        let environment = environment.bindings();
        if lists { environment.includes() } else { environment }.build()
    })
}

/// The type of a device, with sizes: the reference counts what has none for nothing.
fn device(shared: bool, lists: bool) -> DeclType {
    let text = |max: usize| DeclType::string().with_max_elements(max as u64);
    let attribute = match lists {
        true => DeclType::simple(Type::Dyn)
            .with_max_elements(MAX_ATTRIBUTE_VALUE.max(MAX_VALUES) as u64),
        false => DeclType::simple(Type::Any).with_max_elements(MAX_ATTRIBUTE_VALUE as u64),
    };
    let quantity = DeclType::simple(Type::object("kubernetes.Quantity")).with_max_elements(0);
    let map = |key: DeclType, value: DeclType| {
        DeclType::map(value).with_key(key).with_max_elements(MAX_ATTRIBUTES as u64)
    };
    let attributes = map(text(MAX_ID), attribute).with_entries_by_name();
    let mut fields = vec![
        ("driver", text(MAX_DOMAIN)),
        ("attributes", map(text(MAX_DOMAIN), attributes)),
        ("capacity", map(text(MAX_DOMAIN), map(text(MAX_ID), quantity))),
    ];
    if shared {
        let allowed = DeclType::simple(Type::Bool).with_max_elements(1);
        fields.push(("allowMultipleAllocations", allowed));
    }
    DeclType::object("kubernetes.DRADevice", fields).with_max_elements(0)
}
