//! CEL expressions over claims and users.

use std::sync::LazyLock;

use kevel_api::value::{Map, Value};
use kevel_cel::{Activation, Budget, DeclType, Environment, Program, Type};
use kevel_registry::user::User;

/// Input and result type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::authentication) enum Over {
    /// Over claims, with any result.
    Claims,
    /// Over claims, with a boolean result.
    ClaimsRule,
    /// Over a user, with a boolean result.
    User,
}

const CLAIMS: &str = "claims";
const USER: &str = "user";

static CLAIMS_ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let claims = DeclType::map(DeclType::simple(Type::Any));
    Environment::builder().variable(CLAIMS, claims).build()
});
static USER_TYPE: LazyLock<DeclType> = LazyLock::new(|| {
    let strings = || DeclType::list(DeclType::string());
    let fields = [
        ("username", DeclType::string()),
        ("uid", DeclType::string()),
        ("groups", strings()),
        ("extra", DeclType::map(strings())),
    ];
    DeclType::object("kubernetes.UserInfo", fields)
});
static USER_ENVIRONMENT: LazyLock<Environment> =
    LazyLock::new(|| Environment::builder().variable(USER, USER_TYPE.clone()).build());

/// Compiles an expression.
pub(in crate::authentication) fn compile(over: Over, text: &str) -> Result<Program, String> {
    let environment = match over {
        Over::Claims | Over::ClaimsRule => &*CLAIMS_ENVIRONMENT,
        Over::User => &*USER_ENVIRONMENT,
    };
    let program = environment.compile(text);
    let program = program.map_err(|issues| format!("compilation failed: {issues}"))?;
    if over != Over::Claims && program.output_type() != Type::Bool {
        return Err("must evaluate to bool".to_owned());
    }
    Ok(program)
}

/// Compiled expression with its text.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    text: String,
    program: Program,
}

impl Expression {
    pub fn new(over: Over, text: &str) -> Result<Self, String> {
        Ok(Expression { text: text.to_owned(), program: compile(over, text)? })
    }

    /// Result for claims, whose numbers are doubles as in JSON.
    pub fn of_claims(&self, claims: &Value) -> Result<Value, String> {
        let mut activation = Activation::new();
        activation.bind(CLAIMS, kevel_cel::Value::from_tree(claims));
        self.evaluate(&activation)
    }

    /// Checks that the expression is true for claims.
    pub fn holds_for_claims(&self, claims: &Value, message: &str) -> Result<(), String> {
        self.holds(self.of_claims(claims)?, message)
    }

    /// Checks that the expression is true for a user.
    pub fn holds_for_user(&self, user: &User, message: &str) -> Result<(), String> {
        let tree = user_tree(user);
        let value = kevel_cel::Value::from_declared(&tree, &USER_TYPE);
        let mut activation = Activation::new();
        activation.bind(USER, value.map_err(|error| error.to_string())?);
        self.holds(self.evaluate(&activation)?, message)
    }

    fn evaluate<'a>(&'a self, activation: &Activation<'a>) -> Result<Value, String> {
        let result = self.program.evaluate(activation, Budget::default()).result;
        result
            .and_then(|value| value.to_tree())
            .map_err(|error| format!("expression '{}' resulted in error: {error}", self.text))
    }

    fn holds(&self, result: Value, message: &str) -> Result<(), String> {
        match result.as_bool() {
            Some(true) => Ok(()),
            Some(false) => Err(format!("validation expression '{}' failed: {message}", self.text)),
            None => Err("validation expression must return a boolean".to_owned()),
        }
    }
}

fn user_tree(user: &User) -> Value {
    let strings = |all: &[String]| Value::List(all.iter().map(|one| one.as_str().into()).collect());
    let extra = user.extra.iter().map(|(key, values)| (key.as_str(), strings(values)));
    Map::from_iter([
        ("username", user.name.as_str().into()),
        ("uid", user.uid.as_str().into()),
        ("groups", strings(&user.groups)),
        ("extra", Map::from_iter(extra).into()),
    ])
    .into()
}
