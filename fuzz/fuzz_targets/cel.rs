//! Any text as an expression: no panic, and what is evaluated keeps to its budget.
#![no_main]

use kevel_api::value::{Map, Value as Tree};
use kevel_cel::{Activation, Budget, DeclType, Environment, Type, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let environment = Environment::builder()
        .variable("x", DeclType::simple(Type::Dyn))
        .variable("l", DeclType::simple(Type::list(Type::Int)))
        .variable("s", DeclType::string())
        .bindings()
        .build();
    let Ok(program) = environment.compile(text) else { return };
    program.estimate_cost();
    let object = Tree::Map(Map::from_iter([("a", Tree::Int(1)), ("b", Tree::from("c"))]));
    let mut activation = Activation::new();
    activation
        .bind("x", Value::from_tree(&object))
        .bind("l", Value::List(vec![Value::Int(1), Value::Int(2)].into()))
        .bind("s", Value::from("text"));
    let budget = Budget { cost: Some(10_000), ..Budget::default() };
    let evaluation = program.evaluate(&activation, budget);
    if let Ok(value) = evaluation.result {
        assert!(evaluation.cost <= 10_000);
        let _ = value.to_tree();
    }
});
