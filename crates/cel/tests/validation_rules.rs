//! Tests of validation rules of custom resources: values have the types of the schema, and estimates its bounds. The
//! table is `cases/rules.txt`; schema and object are beside it.

#![allow(clippy::unwrap_used)]

mod common;

use common::{json, lines, show};
use kevel_cel::{Activation, Budget, DeclType, Environment, Value};

#[test]
fn results_costs_and_estimates() {
    let schema = json(include_str!("cases/rules_schema.json"));
    let object = json(include_str!("cases/rules_object.json"));
    let declared = DeclType::from_json_schema("selfType", &schema, true).unwrap();
    let environment = Environment::builder().variable("self", declared.clone()).build();
    let mut activation = Activation::new();
    activation.bind("self", Value::from_declared(&object, &declared).unwrap());

    let mut wrong = Vec::new();
    for line in lines(include_str!("cases/rules.txt")) {
        let (rule, expected) = line.split_once("  =>  ").expect(line);
        let found = match environment.compile(rule) {
            Err(error) => error.to_string().lines().next().unwrap().to_owned(),
            Ok(program) => {
                let evaluation = program.evaluate(&activation, Budget::default());
                let outcome = match evaluation.result {
                    Ok(value) => show(&value),
                    Err(error) => format!("error: {error}"),
                };
                let estimate = program.estimate_cost();
                format!("{outcome}  [{} of {}..{}]", evaluation.cost, estimate.min, estimate.max)
            }
        };
        if found != expected {
            wrong.push(format!("{rule}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
