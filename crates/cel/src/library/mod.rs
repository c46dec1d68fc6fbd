//! Functions of expressions: CEL's standard library and Kubernetes' libraries.
//!
//! Each library is a table: the name of a function, the identifier of an overload (on which costs depend), its
//! signature and its implementation.

mod authorizer;
mod convert;
mod extension;
mod format_string;
mod formats;
mod includes;
mod json_patch;
mod list;
mod list_extension;
mod net;
mod operator;
mod optional;
mod quantity;
mod regex;
mod semver;
mod set;
mod string;
mod time;
mod url;
mod zone;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::error::Error;
use crate::types::Signature;
use crate::value::Value;

pub use authorizer::{Authorizer, Decision, ResourceCheck};
pub use extension::Extension;

pub(crate) use convert::convert;
pub(crate) use format_string::check_format;
pub(crate) use includes::MAX_VALUES as MAX_INCLUDES;
pub(crate) use operator::{add, append, contains};
pub(crate) use regex::RegexFunction;

/// Limit on the length of a list that a function returns. The cost of a longer list would be charged only afterwards.
pub(crate) const MAX_LENGTH: usize = 1 << 20;
/// Limit on the text that a function returns, in bytes: `replace` and `join` repeat their arguments, and the cost does
/// not depend on how often.
pub(crate) const MAX_TEXT: usize = 16 << 20;

/// Implementation of a function; the receiver is the first argument.
pub(crate) type Call = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, Error>;

/// Row of a library's table.
pub(crate) struct Row {
    pub function: &'static str,
    pub overload: &'static str,
    /// See [`Signature::parse`].
    pub signature: &'static str,
    pub binding: Binding,
}

/// Calling convention of an overload.
#[derive(Clone, Copy)]
pub(crate) enum Binding {
    /// Implemented by the planner or by the function's singleton.
    None,
    /// One or two arguments: all are evaluated even if one fails.
    Eager(Call),
    /// Any number of arguments: the first that fails is the result.
    Ordered(Call),
}

/// Row of an overload with one or two arguments.
const fn row(
    function: &'static str,
    overload: &'static str,
    signature: &'static str,
    call: Call,
) -> Row {
    Row { function, overload, signature, binding: Binding::Eager(call) }
}

/// Row of an overload with another number of arguments.
const fn ordered(
    function: &'static str,
    overload: &'static str,
    signature: &'static str,
    call: Call,
) -> Row {
    Row { function, overload, signature, binding: Binding::Ordered(call) }
}

/// Row of an overload that only the checker uses.
const fn declared(function: &'static str, overload: &'static str, signature: &'static str) -> Row {
    Row { function, overload, signature, binding: Binding::None }
}

/// A function with its overloads.
#[derive(Debug)]
pub(crate) struct Function {
    pub name: &'static str,
    pub overloads: Vec<Overload>,
    /// Implementation of all overloads, if it chooses by the values.
    pub singleton: Option<Singleton>,
    /// Whether arguments are checked against the overload's types before the call.
    pub guarded: bool,
}

/// One signature of a function.
pub(crate) struct Overload {
    pub id: &'static str,
    pub signature: Signature,
    pub parameters: Vec<char>,
    pub binding: Binding,
}

impl std::fmt::Debug for Overload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Overload({})", self.id)
    }
}

/// Implementation of a function for all argument types.
#[derive(Clone, Copy)]
pub(crate) struct Singleton {
    pub call: Call,
    /// Whether the first argument supports the function.
    pub takes: fn(&Value<'_>) -> bool,
}

impl std::fmt::Debug for Singleton {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Singleton")
    }
}

/// Functions by name.
pub(crate) type Functions = HashMap<&'static str, Function>;

/// Functions of every environment.
pub(crate) static BASE: LazyLock<Functions> = LazyLock::new(|| {
    functions(&[
        operator::ROWS,
        convert::ROWS,
        time::ROWS,
        optional::ROWS,
        string::ROWS,
        list::ROWS,
        list_extension::ROWS,
        regex::ROWS,
        set::ROWS,
        url::ROWS,
        quantity::ROWS,
        net::ROWS,
        formats::ROWS,
        semver::ROWS,
        authorizer::ROWS,
    ])
});

/// Additional functions of expressions that make JSON patches.
pub(crate) static JSON_PATCH: LazyLock<Functions> =
    LazyLock::new(|| functions(&[json_patch::ROWS]));

/// Additional functions of expressions about DRA devices.
pub(crate) static INCLUDES: LazyLock<Functions> = LazyLock::new(|| functions(&[includes::ROWS]));

fn functions(libraries: &[&[Row]]) -> Functions {
    let mut functions = Functions::new();
    for row in libraries.iter().copied().flatten() {
        let signature = Signature::parse(row.signature);
        debug_assert!(signature.is_some(), "{}", row.signature);
        let Some(signature) = signature else { continue };
        let function = functions.entry(row.function).or_insert_with(|| Function {
            name: row.function,
            overloads: Vec::new(),
            singleton: operator::singleton(row.function)
                .or_else(|| list_extension::singleton(row.function)),
            guarded: !UNGUARDED.contains(&row.function),
        });
        let parameters = signature.parameters();
        let binding = row.binding;
        function.overloads.push(Overload { id: row.overload, signature, parameters, binding });
    }
    functions
}

/// Functions that check their arguments themselves.
const UNGUARDED: &[&str] = &["contains", "endsWith", "startsWith", "flatten"];

impl Overload {
    pub fn call(&self) -> Option<Call> {
        match self.binding {
            Binding::None => None,
            Binding::Eager(call) | Binding::Ordered(call) => Some(call),
        }
    }

    pub fn takes(&self, args: &[Value<'_>]) -> bool {
        let types = &self.signature.args;
        types.len() == args.len() && args.iter().zip(types).all(|(arg, ty)| arg.fits(ty))
    }
}

/// Error of a call that no overload fits.
pub(crate) fn no_such_overload(function: &str, args: &[Value<'_>]) -> Error {
    let types: Vec<_> = args.iter().map(Value::type_name).collect();
    Error::new(format!("no such overload: {function}({})", types.join(", ")))
}
