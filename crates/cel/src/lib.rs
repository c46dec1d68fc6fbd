//! The Common Expression Language as Kubernetes uses it: admission policies, validation rules of
//! custom resources, match conditions, authentication and authorization configuration.
//!
//! An [`Environment`] declares variables and their types; CEL's standard library and Kubernetes' libraries are always
//! available. Compiling an expression checks its types (issues print as in the reference) and gives a [`Program`],
//! which can be evaluated any number of times. Values borrow from the objects that they represent.
//!
//! ```
//! use kevel_api::value::{Map, Value as Tree};
//! use kevel_cel::{Activation, Budget, DeclType, Environment, Type, Value};
//!
//! let environment = Environment::builder()
//!     .variable("claims", DeclType::map(DeclType::simple(Type::Any)))
//!     .build();
//! let program = environment.compile("'oidc:' + claims.sub")?;
//! assert_eq!(program.output_type(), Type::String);
//!
//! let claims = Tree::Map(Map::from_iter([("sub", Tree::from("alice"))]));
//! let mut activation = Activation::new();
//! activation.bind("claims", Value::from_tree(&claims));
//! let evaluation = program.evaluate(&activation, Budget::default());
//! assert_eq!(evaluation.result?.as_str(), Some("oidc:alice"));
//! assert_eq!(evaluation.cost, 3);
//!
//! let issues = environment.compile("claim.sub").unwrap_err();
//! assert_eq!(
//!     issues.to_string(),
//!     "ERROR: <input>:1:1: undeclared reference to 'claim' (in container '')\n | claim.sub\n | ^"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ast;
mod checker;
mod composition;
mod cost;
mod declared;
mod environment;
mod error;
mod evaluator;
mod library;
pub mod metrics;
mod parser;
mod program;
mod shard_selector;
mod source;
mod stack;
mod types;
mod value;

pub use composition::Variables;
pub use cost::CostEstimate;
pub use declared::{DeclType, MAX_REQUEST_SIZE, ObjectType, escape, unescape};
pub use environment::{Builder, Environment};
pub use error::Error;
pub use library::{Authorizer, Decision, Extension, ResourceCheck};
pub use parser::{MAX_EXPRESSION_SIZE, MAX_RECURSION};
pub use program::{
    Activation, Budget, CHECK_FREQUENCY, CompileError, Evaluation, PER_CALL_LIMIT, Program,
};
pub use shard_selector::{ShardSelectorError, parse_shard_selector};
pub use source::{Issue, Issues, Location, MAX_ISSUES};
pub use stack::{MAX_NESTING, with_stack};
pub use types::Type;
pub use value::{Key, List, Map, ObjectValue, Text, Timestamp, Value};
