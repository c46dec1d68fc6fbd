//! Type checking of a policy's expressions against the types of the objects that it matches.

use kevel_cel::{CompileError, DeclType, Environment, Variables};

use super::environment::{VARIABLES_TYPE, typed_environment};

/// Checks the expressions of a policy for one type of objects (upstream: TypeChecker). Policies themselves are compiled
/// without types, since they match objects of many.
#[derive(Debug)]
pub struct TypeChecker {
    environment: Environment,
    variables: Variables,
}

impl TypeChecker {
    /// Checker for objects of a type, with parameters of a type if the policy has any. A type that is not known is
    /// dynamic.
    pub fn new(object: DeclType, params: Option<DeclType>) -> Self {
        let environment = typed_environment(&object, params);
        TypeChecker { environment, variables: Variables::new(VARIABLES_TYPE) }
    }

    /// Adds a variable of the policy, for later expressions.
    pub fn variable(&mut self, name: &str, expression: &str) {
        let compiled = self.environment.compile_with(expression, &self.variables);
        let compiled = compiled.map_err(|_| "the variable does not compile".to_owned());
        self.variables.push(name, compiled);
    }

    /// Issues of an expression, if it has any.
    pub fn check(&self, expression: &str) -> Option<String> {
        match self.environment.compile_with(expression, &self.variables) {
            Err(CompileError::Issues(issues)) => Some(issues.to_string()),
            // A wrong constant is no matter of types.
            Ok(_) | Err(CompileError::Program { .. }) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_fields_and_types_are_issues() {
        let spec =
            DeclType::object("T.spec", [("replicas", DeclType::simple(kevel_cel::Type::Int))]);
        let mut checker = TypeChecker::new(DeclType::object("T", [("spec", spec)]), None);
        checker.variable("replicas", "object.spec.replicas");
        for (expression, issue) in [
            ("object.spec.replicas > 1", None),
            ("variables.replicas > 1", None),
            ("object.spec.replica > 1", Some("undefined field 'replica'")),
            ("oldObject.spec.replicas > 'a'", Some("found no matching overload for '_>_'")),
            (
                "variables.replicas.startsWith('a')",
                Some("found no matching overload for 'startsWith'"),
            ),
            ("params.x", Some("undeclared reference to 'params'")),
        ] {
            let found = checker.check(expression);
            let fits = match (&found, issue) {
                (Some(found), Some(issue)) => found.contains(issue),
                (found, issue) => found.is_none() && issue.is_none(),
            };
            assert!(fits, "{expression}: {found:?}");
        }
    }
}
