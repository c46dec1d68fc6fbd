//! Tests of expressions: results, actual and estimated costs, with variables of all types. The tables are
//! `cases/expressions.txt` and `cases/issues.txt`.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{json, lines, show};
use kevel_cel::{Activation, Budget, CompileError, DeclType, Environment, Timestamp, Type, Value};

const OBJECTS: &str = include_str!("cases/objects.json");

fn environment() -> Environment {
    let simple = DeclType::simple;
    let inner = || {
        DeclType::object("test.Inner", [("name", DeclType::string()), ("count", simple(Type::Int))])
    };
    let strings = || DeclType::list(DeclType::string());
    let user = DeclType::object(
        "kubernetes.UserInfo",
        [
            ("username", DeclType::string()),
            ("uid", DeclType::string()),
            ("groups", strings()),
            ("extra", DeclType::map(strings())),
            ("inner", inner()),
            ("items", DeclType::list(inner())),
            ("any", simple(Type::Dyn)),
        ],
    );
    Environment::builder()
        .variable("claims", DeclType::map(simple(Type::Any)))
        .variable("user", user)
        .variable("object", simple(Type::Dyn))
        .variable("missing", simple(Type::Dyn))
        .variable("i", simple(Type::Int))
        .variable("u", simple(Type::Uint))
        .variable("d", simple(Type::Double))
        .variable("s", simple(Type::String))
        .variable("b", simple(Type::Bool))
        .variable("by", simple(Type::Bytes))
        .variable("li", simple(Type::list(Type::Int)))
        .variable("ls", simple(Type::list(Type::String)))
        .variable("m", simple(Type::map(Type::String, Type::Int)))
        .variable("ts", simple(Type::Timestamp))
        .variable("dur", simple(Type::Duration))
        .variable("os", simple(Type::optional(Type::String)))
        .build()
}

#[test]
fn results_and_costs() {
    let environment = environment();
    let objects = json(OBJECTS);
    let part = |name: &str| Value::from_tree(objects.at(&[name]).unwrap());
    let mut activation = Activation::new();
    for name in ["claims", "user", "object", "li", "ls", "m"] {
        activation.bind(name, part(name));
    }
    activation
        .bind("i", Value::Int(5))
        .bind("u", Value::Uint(7))
        .bind("d", Value::Double(2.5))
        .bind("s", Value::from("h\u{e9}llo"))
        .bind("b", Value::Bool(true))
        .bind("by", Value::Bytes(b"abc".as_slice().into()))
        .bind("ts", Value::Timestamp(Timestamp::parse("2024-02-29T12:34:56.789Z").unwrap()))
        .bind("dur", Value::Duration(90_000_000_000))
        .bind("os", Value::Optional(Some(Arc::new(Value::from("opt")))));

    let mut wrong = Vec::new();
    for line in lines(include_str!("cases/expressions.txt")) {
        let (expression, expected) = line.split_once("  =>  ").expect(line);
        let found = match environment.compile(expression) {
            Err(CompileError::Issues(issues)) => format!("issues: {issues}"),
            Err(CompileError::Program { why, .. }) => format!("no program: {why}"),
            Ok(program) => {
                let evaluation = program.evaluate(&activation, Budget::default());
                let outcome = match evaluation.result {
                    Ok(value) => show(&value),
                    Err(error) => format!("error: {error}"),
                };
                let estimate = program.estimate_cost();
                let max = match estimate.max {
                    u64::MAX => "unbounded".to_owned(),
                    max => max.to_string(),
                };
                format!("{outcome}  [{} of {}..{max}]", evaluation.cost, estimate.min)
            }
        };
        if found != expected {
            wrong.push(format!("{expression}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn issues() {
    let environment = environment();
    let mut wrong = Vec::new();
    for case in include_str!("cases/issues.txt").trim_end().split("\n\n") {
        let (expression, expected) = case.split_once('\n').expect(case);
        let found = match environment.compile(expression) {
            Ok(_) => "none".to_owned(),
            Err(error) => error.to_string(),
        };
        if found != expected {
            wrong.push(format!("{expression}\nexpected\n{expected}\nfound\n{found}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
