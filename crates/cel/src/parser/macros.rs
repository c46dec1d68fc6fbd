//! Macros: calls that expand to other expressions.

use std::sync::Arc;

use super::Parser;
use crate::ast::{Comprehension, Element, Expr, ExprId, ExprKind, Literal, operator};

/// Variable in which comprehensions accumulate their result. It is not a valid identifier.
pub(crate) const ACCUMULATOR: &str = "@result";
/// Former name of [`ACCUMULATOR`], a valid identifier; iteration variables may not use it.
const OLD_ACCUMULATOR: &str = "__result__";
/// Iteration variable of comprehensions that only bind a name to a value.
const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";
/// Limit on nodes: `optMap` doubles its receiver, so that a chain of them grows exponentially.
const MAX_NODES: usize = 500_000;

/// Expansion of a macro; `None` if the call is no macro after all.
type Expansion = Result<Option<Expr>, (ExprId, String)>;
type Expand = fn(&mut Build<'_, '_>, Option<Expr>, Vec<Expr>) -> Expansion;

/// Name, whether it has a receiver, number of arguments, expansion.
const MACROS: &[(&str, bool, usize, Expand)] = &[
    ("has", false, 1, has),
    ("all", true, 2, all),
    ("all", true, 3, all),
    ("exists", true, 2, exists),
    ("exists", true, 3, exists),
    ("exists_one", true, 2, exists_one),
    ("exists_one", true, 3, exists_one),
    ("existsOne", true, 3, exists_one),
    ("map", true, 2, map),
    ("map", true, 3, map),
    ("filter", true, 2, filter),
    ("transformList", true, 3, transform_list),
    ("transformList", true, 4, transform_list),
    ("transformMap", true, 3, transform_map),
    ("transformMap", true, 4, transform_map),
    ("transformMapEntry", true, 3, transform_map_entry),
    ("transformMapEntry", true, 4, transform_map_entry),
    ("optMap", true, 2, opt_map),
    ("optFlatMap", true, 2, opt_flat_map),
    ("sortBy", true, 2, sort_by),
    ("bind", true, 3, bind),
];

impl Parser<'_> {
    /// A call, or the expansion of a macro.
    pub(super) fn call_or_macro(
        &mut self,
        id: ExprId,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Expr {
        let found = MACROS.iter().find(|(name, receiver, count, _)| {
            *name == function && *receiver == target.is_some() && *count == args.len()
        });
        let Some((name, _, _, expand)) = found else { return call(id, function, target, args) };
        if *name == "bind" && !(self.bindings && target.as_ref().is_some_and(is_cel_namespace)) {
            return call(id, function, target, args);
        }
        let offset = self.offsets.get(id as usize).copied().unwrap_or(0);
        match expand(&mut Build { parser: self, offset }, target, args) {
            Ok(Some(expr)) => expr,
            Ok(None) => Expr { id, kind: ExprKind::Unspecified },
            Err((at, message)) => {
                let offset = self.offsets.get(at as usize).copied().unwrap_or(0);
                let location = self.source.location(offset);
                self.issues.report(location, message);
                Expr { id, kind: ExprKind::Unspecified }
            }
        }
    }
}

fn call(id: ExprId, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
    let target = target.map(Box::new);
    Expr { id, kind: ExprKind::Call { function: function.into(), target, args } }
}

fn is_cel_namespace(target: &Expr) -> bool {
    matches!(&target.kind, ExprKind::Ident(name) if &**name == "cel")
}

/// Builds the nodes of an expansion, all at the position of the call.
struct Build<'b, 's> {
    parser: &'b mut Parser<'s>,
    offset: u32,
}

impl Build<'_, '_> {
    fn expr(&mut self, kind: ExprKind) -> Expr {
        Expr { id: self.parser.id(self.offset), kind }
    }

    fn literal(&mut self, value: Literal) -> Expr {
        self.expr(ExprKind::Literal(value))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.expr(ExprKind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.expr(ExprKind::Call { function: function.into(), target: None, args })
    }

    fn member_call(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let target = Some(Box::new(target));
        self.expr(ExprKind::Call { function: function.into(), target, args })
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        let elements = elements.into_iter().map(|value| Element { value, optional: false });
        self.expr(ExprKind::List { elements: elements.collect() })
    }

    fn empty_map(&mut self) -> Expr {
        self.expr(ExprKind::Map { entries: Vec::new() })
    }

    fn comprehension(&mut self, range: Expr, variables: Variables, parts: Parts) -> Expr {
        let Variables { first, second } = variables;
        let Parts { init, condition, step, result } = parts;
        self.expr(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable: first,
            second_variable: second,
            accumulator: ACCUMULATOR.into(),
            init,
            condition,
            step,
            result,
        })))
    }

    /// Binds `value` to a name within `result`.
    fn binding(&mut self, name: &str, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name);
        self.expr(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            second_variable: None,
            accumulator: name.into(),
            init: value,
            condition,
            step,
            result,
        })))
    }

    /// Copy of an expression with new nodes at the same positions.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        let offset = self.parser.offsets.get(expr.id as usize).copied().unwrap_or(self.offset);
        expr.id = self.parser.id(offset);
        match &mut expr.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => self.renumber(operand),
            ExprKind::Call { target, args, .. } => {
                target.as_deref_mut().into_iter().chain(args).for_each(|e| self.renumber(e));
            }
            ExprKind::List { elements } => {
                elements.iter_mut().for_each(|e| self.renumber(&mut e.value));
            }
            ExprKind::Map { entries } => entries.iter_mut().for_each(|e| {
                self.renumber(&mut e.key);
                self.renumber(&mut e.value);
            }),
            ExprKind::Struct { fields, .. } => {
                fields.iter_mut().for_each(|f| self.renumber(&mut f.value));
            }
            ExprKind::Comprehension(c) => {
                let Comprehension { range, init, condition, step, result, .. } = &mut **c;
                [range, init, condition, step, result].into_iter().for_each(|e| self.renumber(e));
            }
        }
    }
}

struct Variables {
    first: Arc<str>,
    second: Option<Arc<str>>,
}

struct Parts {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

/// Takes the iteration variables, which come before the other arguments.
fn variables(
    args: &mut Vec<Expr>,
    two: bool,
    complaint: &str,
) -> Result<Variables, (ExprId, String)> {
    let mut names = Vec::with_capacity(2);
    for expr in args.drain(..1 + usize::from(two)) {
        match expr.kind {
            ExprKind::Ident(name) => names.push((expr.id, name)),
            _ => return Err((expr.id, complaint.to_owned())),
        }
    }
    if let [(_, a), (id, b)] = names.as_slice()
        && a == b
    {
        return Err((*id, format!("duplicate variable name: {a}")));
    }
    if let Some((id, _)) = names.iter().find(|(_, n)| matches!(&**n, ACCUMULATOR | OLD_ACCUMULATOR))
    {
        return Err((*id, "iteration variable overwrites accumulator variable".to_owned()));
    }
    let mut names = names.into_iter().map(|(_, name)| name);
    let first = names.next().unwrap_or_else(|| UNUSED.into());
    Ok(Variables { first, second: names.next() })
}

const SIMPLE_NAME: &str = "argument must be a simple name";
const IDENTIFIER: &str = "argument is not an identifier";

fn has(build: &mut Build<'_, '_>, _: Option<Expr>, mut args: Vec<Expr>) -> Expansion {
    let Some(arg) = args.pop() else { return Ok(None) };
    match arg.kind {
        ExprKind::Select { operand, field, .. } => {
            Ok(Some(build.expr(ExprKind::Select { operand, field, test_only: true })))
        }
        _ => Err((arg.id, "invalid argument to has() macro".to_owned())),
    }
}

fn all(build: &mut Build<'_, '_>, target: Option<Expr>, mut args: Vec<Expr>) -> Expansion {
    let two = args.len() == 3;
    let variables = variables(&mut args, two, SIMPLE_NAME)?;
    let (Some(range), Some(predicate)) = (target, args.pop()) else { return Ok(None) };
    let init = build.literal(Literal::Bool(true));
    let accumulator = build.accumulator();
    let condition = build.call(operator::NOT_STRICTLY_FALSE, vec![accumulator]);
    let accumulator = build.accumulator();
    let step = build.call(operator::AND, vec![accumulator, predicate]);
    let result = build.accumulator();
    Ok(Some(build.comprehension(range, variables, Parts { init, condition, step, result })))
}

fn exists(build: &mut Build<'_, '_>, target: Option<Expr>, mut args: Vec<Expr>) -> Expansion {
    let two = args.len() == 3;
    let variables = variables(&mut args, two, SIMPLE_NAME)?;
    let (Some(range), Some(predicate)) = (target, args.pop()) else { return Ok(None) };
    let init = build.literal(Literal::Bool(false));
    let accumulator = build.accumulator();
    let negated = build.call(operator::NOT, vec![accumulator]);
    let condition = build.call(operator::NOT_STRICTLY_FALSE, vec![negated]);
    let accumulator = build.accumulator();
    let step = build.call(operator::OR, vec![accumulator, predicate]);
    let result = build.accumulator();
    Ok(Some(build.comprehension(range, variables, Parts { init, condition, step, result })))
}

fn exists_one(build: &mut Build<'_, '_>, target: Option<Expr>, mut args: Vec<Expr>) -> Expansion {
    let two = args.len() == 3;
    let variables = variables(&mut args, two, SIMPLE_NAME)?;
    let (Some(range), Some(predicate)) = (target, args.pop()) else { return Ok(None) };
    let init = build.literal(Literal::Int(0));
    let condition = build.literal(Literal::Bool(true));
    let (accumulator, one) = (build.accumulator(), build.literal(Literal::Int(1)));
    let more = build.call(operator::ADD, vec![accumulator, one]);
    let same = build.accumulator();
    let step = build.call(operator::CONDITIONAL, vec![predicate, more, same]);
    let (accumulator, one) = (build.accumulator(), build.literal(Literal::Int(1)));
    let result = build.call(operator::EQUALS, vec![accumulator, one]);
    Ok(Some(build.comprehension(range, variables, Parts { init, condition, step, result })))
}

fn map(build: &mut Build<'_, '_>, target: Option<Expr>, mut args: Vec<Expr>) -> Expansion {
    let variables = variables(&mut args, false, IDENTIFIER)?;
    transformed_list(build, target, variables, args)
}

fn transform_list(
    build: &mut Build<'_, '_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
) -> Expansion {
    let variables = variables(&mut args, true, SIMPLE_NAME)?;
    transformed_list(build, target, variables, args)
}

fn transformed_list(
    build: &mut Build<'_, '_>,
    target: Option<Expr>,
    variables: Variables,
    mut args: Vec<Expr>,
) -> Expansion {
    let (Some(range), Some(transform)) = (target, args.pop()) else { return Ok(None) };
    let init = build.list(Vec::new());
    let (accumulator, element) = (build.accumulator(), build.list(vec![transform]));
    let step = build.call(operator::ADD, vec![accumulator, element]);
    Ok(Some(gather(build, range, variables, init, step, args.pop())))
}

fn filter(build: &mut Build<'_, '_>, target: Option<Expr>, mut args: Vec<Expr>) -> Expansion {
    let element = args.first().cloned();
    let variables = variables(&mut args, false, IDENTIFIER)?;
    let (Some(range), Some(element)) = (target, element) else { return Ok(None) };
    let init = build.list(Vec::new());
    let (accumulator, element) = (build.accumulator(), build.list(vec![element]));
    let step = build.call(operator::ADD, vec![accumulator, element]);
    Ok(Some(gather(build, range, variables, init, step, args.pop())))
}

fn transform_map(
    build: &mut Build<'_, '_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
) -> Expansion {
    let variables = variables(&mut args, true, SIMPLE_NAME)?;
    let (Some(range), Some(transform)) = (target, args.pop()) else { return Ok(None) };
    let init = build.empty_map();
    let (accumulator, key) = (build.accumulator(), build.ident(&variables.first));
    let step = build.call(operator::MAP_INSERT, vec![accumulator, key, transform]);
    Ok(Some(gather(build, range, variables, init, step, args.pop())))
}

fn transform_map_entry(
    build: &mut Build<'_, '_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
) -> Expansion {
    let variables = variables(&mut args, true, SIMPLE_NAME)?;
    let (Some(range), Some(transform)) = (target, args.pop()) else { return Ok(None) };
    let init = build.empty_map();
    let accumulator = build.accumulator();
    let step = build.call(operator::MAP_INSERT, vec![accumulator, transform]);
    Ok(Some(gather(build, range, variables, init, step, args.pop())))
}

/// Loop over the whole range that applies the step where the filter, if any, holds.
fn gather(
    build: &mut Build<'_, '_>,
    range: Expr,
    variables: Variables,
    init: Expr,
    step: Expr,
    filter: Option<Expr>,
) -> Expr {
    let condition = build.literal(Literal::Bool(true));
    let step = match filter {
        None => step,
        Some(filter) => {
            let same = build.accumulator();
            build.call(operator::CONDITIONAL, vec![filter, step, same])
        }
    };
    let result = build.accumulator();
    build.comprehension(range, variables, Parts { init, condition, step, result })
}

fn opt_map(build: &mut Build<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    mapped_optional(build, target, args, "optMap", true)
}

fn opt_flat_map(build: &mut Build<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    mapped_optional(build, target, args, "optFlatMap", false)
}

fn mapped_optional(
    build: &mut Build<'_, '_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
    name: &str,
    wrap: bool,
) -> Expansion {
    let (Some(target), Some(mapped), Some(variable)) = (target, args.pop(), args.pop()) else {
        return Ok(None);
    };
    let ExprKind::Ident(variable_name) = variable.kind else {
        return Err((variable.id, format!("{name}() variable name must be a simple identifier")));
    };
    if build.parser.offsets.len() > MAX_NODES {
        return Err((target.id, format!("too many nested {name}() calls")));
    }
    let again = build.copy(&target);
    let value = build.member_call("value", again, Vec::new());
    let mut mapped = build.binding(&variable_name, value, mapped);
    if wrap {
        mapped = build.call("optional.of", vec![mapped]);
    }
    let has_value = build.member_call("hasValue", target, Vec::new());
    let none = build.call("optional.none", Vec::new());
    Ok(Some(build.call(operator::CONDITIONAL, vec![has_value, mapped, none])))
}

fn sort_by(build: &mut Build<'_, '_>, target: Option<Expr>, mut args: Vec<Expr>) -> Expansion {
    let Some(target) = target else { return Ok(None) };
    if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map { .. } | ExprKind::Struct { .. })
    {
        let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err((target.id, message.to_owned()));
    }
    let variables = variables(&mut args, false, IDENTIFIER)?;
    let input = build.ident(SORT_INPUT);
    let Some(keys) = transformed_list(build, Some(input), variables, args)? else {
        return Ok(None);
    };
    let input = build.ident(SORT_INPUT);
    let sorted = build.member_call("@sortByAssociatedKeys", input, vec![keys]);
    Ok(Some(build.binding(SORT_INPUT, target, sorted)))
}

fn bind(build: &mut Build<'_, '_>, _: Option<Expr>, mut args: Vec<Expr>) -> Expansion {
    let (Some(result), Some(value), Some(variable)) = (args.pop(), args.pop(), args.pop()) else {
        return Ok(None);
    };
    let ExprKind::Ident(name) = variable.kind else {
        return Err((
            variable.id,
            "cel.bind() variable names must be simple identifiers".to_owned(),
        ));
    };
    Ok(Some(build.binding(&name, value, result)))
}
