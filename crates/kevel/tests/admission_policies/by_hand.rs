//! A policy's decision is what its expressions come to, evaluated by hand.

use kevel_api::value::Value as Tree;
use kevel_cel::{Activation, Budget, DeclType, Environment, Type, Value as Cel};
use kevel_codec::json::{Unknown, decode_any};
use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::{in_force, map, only, try_out, validating};

/// Number of random policies, and of objects that each judges.
const POLICIES: usize = 60;
const OBJECTS: usize = 6;

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn of<'s>(&mut self, texts: &[&'s str]) -> &'s str {
        texts[self.below(texts.len())]
    }

    /// A condition on `object.data`, some of which fail on some objects.
    fn condition(&mut self, depth: usize) -> String {
        let (key, other) = (self.of(&["a", "b", "c"]), self.of(&["a", "b", "c"]));
        let value = self.of(&["1", "2", "x", ""]);
        match self.below(if depth == 0 { 7 } else { 11 }) {
            0 => format!("object.data.{key} == '{value}'"),
            1 => format!("object.data.{key} != object.data.{other}"),
            2 => format!("has(object.data.{key})"),
            3 => format!("int(object.data.{key}) < 2"),
            4 => format!("size(object.data) > {}", self.below(4)),
            5 => format!("object.data.all(k, object.data[k] != '{value}')"),
            6 => format!("'{key}' in object.data"),
            7 => format!("!({})", self.condition(depth - 1)),
            8 => format!("({} || {})", self.condition(depth - 1), self.condition(depth - 1)),
            9 => format!("({} && {})", self.condition(depth - 1), self.condition(depth - 1)),
            _ => format!(
                "({} ? {} : {})",
                self.condition(depth - 1),
                self.condition(depth - 1),
                self.condition(depth - 1)
            ),
        }
    }

    fn data(&mut self) -> Value {
        let mut data = json!({});
        for key in ["a", "b", "c"] {
            if self.below(3) > 0 {
                data[key] = self.of(&["1", "2", "x", ""]).into();
            }
        }
        data
    }
}

/// A policy, and what is expected of it.
struct Policy {
    conditions: Vec<String>,
    validations: Vec<(String, String)>,
    ignore: bool,
}

impl Policy {
    fn random(random: &mut Random) -> Self {
        let conditions = (0..random.below(3)).map(|_| random.condition(1)).collect();
        let validation = |i: usize| format!("message {i}");
        let count = 1 + random.below(4);
        let validations = (0..count).map(|i| (random.condition(2), validation(i))).collect();
        Policy { conditions, validations, ignore: random.below(2) == 0 }
    }

    fn spec(&self, case: &str) -> Value {
        let conditions = self.conditions.iter().enumerate();
        let conditions: Vec<Value> = conditions
            .map(|(i, expression)| json!({"name": format!("c{i}"), "expression": expression}))
            .collect();
        let validations = self.validations.iter();
        let validations: Vec<Value> = validations
            .map(|(expression, message)| json!({"expression": expression, "message": message}))
            .collect();
        json!({
            "matchConstraints": only(case),
            "matchConditions": conditions,
            "validations": validations,
            "failurePolicy": if self.ignore { "Ignore" } else { "Fail" },
        })
    }

    /// Message for an object: that of the first validation that fails.
    fn expected(&self, object: &Tree) -> Option<String> {
        let conditions: Vec<_> =
            self.conditions.iter().map(|text| evaluate(text, object)).collect();
        if conditions.contains(&Ok(false)) {
            return None;
        }
        let mut errors: Vec<String> = conditions.into_iter().filter_map(Result::err).collect();
        errors.dedup();
        match (&errors[..], self.ignore) {
            ([], _) => {}
            (_, true) => return None,
            ([only], false) => return Some(only.clone()),
            (all, false) => return Some(format!("[{}]", all.join(", "))),
        }
        self.validations.iter().find_map(|(text, message)| match evaluate(text, object) {
            Ok(true) => None,
            Ok(false) => Some(message.clone()),
            Err(_) if self.ignore => None,
            Err(error) => Some(error),
        })
    }
}

/// Result of an expression.
fn evaluate(text: &str, object: &Tree) -> Result<bool, String> {
    let environment =
        Environment::builder().variable("object", DeclType::simple(Type::Dyn)).build();
    let program = environment.compile(text).unwrap();
    let mut activation = Activation::new();
    activation.bind("object", Cel::from_tree(object));
    let outcome = program.evaluate(&activation, Budget::default()).result;
    match outcome {
        Ok(value) => Ok(value.as_bool() == Some(true)),
        Err(error) => Err(format!("expression '{text}' resulted in error: {error}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_what_expressions_come_to() {
    let cluster = Cluster::alone().await;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let policies: Vec<Policy> = (0..POLICIES).map(|_| Policy::random(&mut random)).collect();
    for (i, policy) in policies.iter().enumerate() {
        let name = format!("random-{i}");
        validating(&cluster, &name, policy.spec(&name)).await;
    }
    in_force(&cluster).await;
    let (mut allowed, mut denied) = (0, 0);
    for (i, policy) in policies.iter().enumerate() {
        let name = format!("random-{i}");
        for _ in 0..OBJECTS {
            let mut object = map(&name, random.data());
            // What is empty is not there.
            if object["data"] == json!({}) {
                object.as_object_mut().unwrap().remove("data");
            }
            let tree = decode_any(object.to_string().as_bytes(), Unknown::Ignore).unwrap().value;
            let expected = policy.expected(&tree).map(|message| {
                format!(
                    "configmaps \"{name}\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' \
                     denied request: {message}"
                )
            });
            let (code, answer) = try_out(&cluster, &object).await;
            let found = (code != 201).then(|| answer["message"].as_str().unwrap().to_owned());
            assert_eq!(found, expected, "{} of {object}", policy.spec(&name));
            *(if expected.is_none() { &mut allowed } else { &mut denied }) += 1;
        }
    }
    // Neither is the rule, or this would prove little.
    assert!(allowed > 50 && denied > 50, "{allowed} allowed, {denied} denied");
}
