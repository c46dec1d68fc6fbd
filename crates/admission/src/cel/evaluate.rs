//! Evaluation of CEL expressions for a request.

use std::time::Duration;

use kevel_api::gvk::GroupVersionKind;
use kevel_api::schema::Schema;
use kevel_api::value::Value as Tree;
use kevel_cel::{Activation, Budget, MAX_NESTING, ResourceCheck, Value, Variables, with_stack};
use kevel_clock::Stopwatch;
use kevel_registry::admission::Attributes;
use tokio::runtime::Handle;

use super::environment::{
    AUTHORIZER, NAMESPACE, OBJECT, OLD_OBJECT, PARAMS, REQUEST, REQUEST_RESOURCE, VARIABLES,
};
use super::{CachingAuthorizer, Error, Expression};

/// Object as expressions see it: as clients see it, with its kind and with the zero values that JSON output includes.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    /// Stored fields.
    pub tree: &'a Tree,
    /// Schema of the kind.
    pub schema: Schema<'a>,
    /// Kind of the object.
    pub kind: &'a GroupVersionKind,
}

/// Values of the variables. Borrows everything, so that it is cheap to build again.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Attributes of the admission request.
    pub attributes: &'a Attributes<'a>,
    /// `request`: see [`admission_request`](super::admission_request). `None` if no expression mentions it.
    pub request: Option<&'a Tree>,
    /// `object`, null for deletions.
    pub object: Option<Object<'a>>,
    /// `oldObject`, null for creations.
    pub old_object: Option<Object<'a>>,
    /// `params`; `None` evaluates to null.
    pub params: Option<&'a Tree>,
    /// `namespaceObject`, null for cluster-scoped objects: see [`namespace_object`](super::namespace_object).
    pub namespace: Option<&'a Tree>,
    /// `authorizer`; `None` where expressions may not use it.
    pub authorizer: Option<&'a CachingAuthorizer<'a>>,
    /// `variables`: see [`Compiler::variables`](super::Compiler::variables).
    pub variables: Option<&'a Variables>,
}

/// Runs `evaluate` with enough stack for expressions of this nesting depth.
pub fn evaluate_nested<T: Send>(
    nesting: usize,
    evaluate: impl FnOnce() -> T + Send,
) -> Result<T, Error> {
    // The authorizer may need the runtime, and `evaluate` may run on another thread.
    let runtime = Handle::try_current().ok();
    let evaluated = with_stack(nesting, move || {
        let _entered = runtime.as_ref().map(Handle::enter);
        evaluate()
    });
    evaluated.ok_or_else(|| {
        Error::invalid(format!("expression recursion limit exceeded: {MAX_NESTING}"))
    })
}

/// Evaluates expressions over an input, one after the other, within a cost budget. Values of variables are kept for
/// later expressions.
#[derive(Debug)]
pub struct Evaluator<'a> {
    activation: Activation<'a>,
    remaining: u64,
    elapsed: Duration,
}

impl<'a> Evaluator<'a> {
    /// Evaluator over `input` whose expressions may cost `budget` at most in total.
    pub fn new(input: &Input<'a>, budget: u64) -> Self {
        let tree = |tree: Option<&'a Tree>| tree.map_or(Value::Null, Value::from_tree);
        let seen = |object: Option<Object<'a>>| match object {
            Some(Object { tree, schema, kind }) => Value::from_object(tree, schema, kind),
            None => Value::Null,
        };
        let mut activation = Activation::new();
        activation
            .bind(OBJECT, seen(input.object))
            .bind(OLD_OBJECT, seen(input.old_object))
            .bind(PARAMS, tree(input.params))
            .bind(REQUEST, tree(input.request))
            .bind(NAMESPACE, tree(input.namespace));
        if let Some(authorizer) = input.authorizer {
            let check = request_resource(input.attributes);
            activation
                .bind(AUTHORIZER, Value::authorizer(authorizer))
                .bind(REQUEST_RESOURCE, Value::resource_check(authorizer, check));
        }
        if let Some(variables) = input.variables {
            activation.compose(VARIABLES, variables);
        }
        Evaluator { activation, remaining: budget, elapsed: Duration::ZERO }
    }

    /// Remaining cost budget, for expressions that are evaluated over another input.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Duration of the last evaluation.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Evaluates an expression. The outer error ends all evaluation; the inner error is that of the expression.
    pub fn evaluate(&mut self, expression: &Expression) -> Result<Result<Value<'a>, Error>, Error> {
        self.elapsed = Duration::ZERO;
        let program = match &expression.program {
            Ok(program) => program,
            Err(error) => return Ok(Err(Error::invalid(format!("compilation error: {error}")))),
        };
        let started = Stopwatch::start();
        let budget = Budget { composition: Some(self.remaining), ..Budget::default() };
        let evaluation = program.evaluate(&self.activation, budget);
        self.charge(self.activation.take_composition_cost())?;
        self.elapsed = started.elapsed();
        self.charge(evaluation.cost)?;
        Ok(evaluation.result.map_err(|error| {
            let text = &expression.text;
            Error::invalid(format!("expression '{text}' resulted in error: {error}"))
        }))
    }

    fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.remaining = self.remaining.checked_sub(cost).ok_or_else(Error::out_of_budget)?;
        Ok(())
    }
}

/// Resource check of `authorizer.requestResource`.
fn request_resource(attributes: &Attributes<'_>) -> ResourceCheck {
    ResourceCheck {
        group: attributes.resource.kind.group.to_string(),
        resource: attributes.resource.plural.clone(),
        subresource: attributes.subresource.to_owned(),
        namespace: attributes.namespace.to_owned(),
        name: attributes.name.to_owned(),
        ..ResourceCheck::default()
    }
}
