//! Cost estimate of an expression: minimum and maximum.
//!
//! Sizes come from literals and from declared types: a node is identified by its path from a variable,
//! `object.spec.containers.@items.name`.

use std::collections::HashMap;
use std::sync::Arc;

use super::call::{Estimate, Operand, call_estimate};
use super::size::{CostEstimate, SizeEstimate};
use super::{LIST_COST, MAP_COST, OBJECT_COST};
use crate::ast::{Ast, Comprehension, Expr, ExprId, ExprKind, Literal};
use crate::checker::{Checked, Reference};
use crate::environment::Environment;
use crate::parser::ACCUMULATOR;
use crate::types::Type;

/// Estimates a checked expression.
pub(crate) fn estimate(ast: &Ast, checked: &Checked, environment: &Environment) -> CostEstimate {
    let mut estimator = Estimator {
        checked,
        environment,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: HashMap::new(),
    };
    estimator.cost(&ast.root)
}

/// Names from a variable down; `None` if a value does not come from a variable.
type Path = Option<Arc<[Arc<str>]>>;

/// Sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
struct EntrySizes {
    is_list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

impl EntrySizes {
    fn union(self, other: EntrySizes) -> EntrySizes {
        let (key, value) = (self.key.union(other.key), self.value.union(other.value));
        EntrySizes { key, value, ..self }
    }
}

/// A variable of a comprehension.
#[derive(Clone, Debug)]
struct Local {
    path: Path,
    size: Option<SizeEstimate>,
    entries: Option<EntrySizes>,
}

struct Estimator<'e> {
    checked: &'e Checked,
    environment: &'e Environment,
    paths: HashMap<ExprId, Path>,
    sizes: HashMap<ExprId, SizeEstimate>,
    entries: HashMap<ExprId, EntrySizes>,
    locals: HashMap<Arc<str>, Vec<Local>>,
}

const ONE: CostEstimate = CostEstimate::fixed(1);
/// Identity of [`CostEstimate::union`].
const EMPTY: CostEstimate = CostEstimate { min: u64::MAX, max: 0 };

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> CostEstimate {
        match &expr.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) => CostEstimate::default(),
            ExprKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => Some(Arc::from([self.full_name(expr, name)])),
                };
                self.paths.insert(expr.id, path);
                ONE
            }
            ExprKind::Select { operand, field, test_only } => {
                self.select(expr, operand, field, *test_only)
            }
            ExprKind::Call { function, target, args } => {
                self.call(expr, function, target.as_deref(), args)
            }
            ExprKind::List { elements } => {
                let mut sum = CostEstimate::fixed(LIST_COST);
                let mut sizes = if elements.is_empty() { CostEstimate::default() } else { EMPTY };
                for element in elements {
                    sum = sum.add(self.cost(&element.value));
                    sizes = sizes.union(self.size_or_unknown(&element.value));
                }
                self.entries.insert(expr.id, EntrySizes { is_list: true, key: ONE, value: sizes });
                sum
            }
            ExprKind::Map { entries } => {
                let mut sum = CostEstimate::fixed(MAP_COST);
                let empty = if entries.is_empty() { CostEstimate::default() } else { EMPTY };
                let mut sizes = EntrySizes { is_list: false, key: empty, value: empty };
                for entry in entries {
                    sum = sum.add(self.cost(&entry.key)).add(self.cost(&entry.value));
                    sizes.key = sizes.key.union(self.size_or_unknown(&entry.key));
                    sizes.value = sizes.value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, sizes);
                sum
            }
            ExprKind::Struct { fields, .. } => {
                let sum = CostEstimate::fixed(OBJECT_COST);
                fields.iter().fold(sum, |sum, field| sum.add(self.cost(&field.value)))
            }
            ExprKind::Comprehension(comprehension) if comprehension.is_binding() => {
                self.binding(expr, comprehension)
            }
            ExprKind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
        }
    }

    /// Name of a variable, without a leading dot.
    fn full_name(&self, expr: &Expr, name: &Arc<str>) -> Arc<str> {
        match self.checked.references.get(&expr.id) {
            Some(Reference::Name(full)) => full.clone(),
            _ => name.clone(),
        }
    }

    fn select(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        field: &Arc<str>,
        test_only: bool,
    ) -> CostEstimate {
        // A chain of selections that is the name of a variable.
        if let Some(Reference::Name(name)) = self.checked.references.get(&expr.id) {
            self.paths.insert(expr.id, Some(Arc::from([name.clone()])));
            return ONE;
        }
        let cost = self.cost(operand);
        if test_only {
            return cost;
        }
        let step = matches!(self.type_of(operand), Type::Map(_) | Type::Object(_));
        let path = self.path_below(operand, field);
        self.paths.insert(expr.id, path);
        if step { cost.add(ONE) } else { cost }
    }

    fn call(
        &mut self,
        expr: &Expr,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> CostEstimate {
        let Some(Reference::Function { name, overloads, drops_target }) =
            self.checked.references.get(&expr.id)
        else {
            return CostEstimate::default();
        };
        let target = target.filter(|_| !drops_target);
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(arg);
            self.copy_sizes(expr, arg);
            return cost.add(ONE);
        }
        let arg_costs: Vec<CostEstimate> = args.iter().map(|arg| self.cost(arg)).collect();
        let operands: Vec<Operand> = args.iter().map(|arg| self.operand(arg)).collect();
        let target_cost = target.map_or(CostEstimate::default(), |target| self.cost(target));
        let receiver = target.map(|target| self.operand(target));
        let (mut cost, mut result_size) = (EMPTY, None::<SizeEstimate>);
        for overload in overloads {
            let mut estimate = call_estimate(name, overload, receiver.as_ref(), &operands);
            if let Estimate::Conditional = estimate.kind {
                if let [_, truthy, falsy] = args {
                    self.join_entries(expr, truthy, falsy);
                }
            } else if matches!(*overload, "add_string" | "add_bytes" | "add_list")
                && let [left, right] = args
            {
                self.join_entries(expr, left, right);
            }
            let overload_cost = estimate.with_arguments(&arg_costs);
            cost = cost.union(overload_cost);
            if let Some(size) = estimate.result_size.take() {
                result_size = Some(result_size.map_or(size, |known| known.union(size)));
            }
            let element = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(container)) = (element, args.first()) {
                result_size = self.entry_sizes(container).map(|entries| entries.value);
                let path = self.path_below(container, &step.into());
                self.paths.insert(expr.id, path);
            }
            if result_size.is_none() {
                result_size = self.size(expr);
            }
        }
        if let Some(size) = result_size {
            self.sizes.insert(expr.id, size);
        }
        target_cost.add(cost)
    }

    fn join_entries(&mut self, expr: &Expr, a: &Expr, b: &Expr) {
        if let (Some(a), Some(b)) = (self.entry_sizes(a), self.entry_sizes(b)) {
            self.entries.insert(expr.id, a.union(b));
        }
    }

    fn comprehension(&mut self, expr: &Expr, comprehension: &Comprehension) -> CostEstimate {
        let range = &comprehension.range;
        let mut sum = self.cost(range).add(self.cost(&comprehension.init));
        self.push_value(&comprehension.accumulator, &comprehension.init);
        let two = comprehension.second_variable.as_ref();
        self.push_iteration(&comprehension.variable, range, two.is_some(), false);
        if let Some(second) = two {
            self.push_iteration(second, range, true, true);
        }
        let round = self.cost(&comprehension.condition);
        let step = self.cost(&comprehension.step);
        let round = step.add(round);
        self.pop(&comprehension.variable);
        if let Some(second) = two {
            self.pop(second);
        }
        sum = sum.add(self.cost(&comprehension.result));
        self.pop(&comprehension.accumulator);
        let count = self.size_or_unknown(range);
        sum = sum.add(count.multiply(round));
        match &comprehension.init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&comprehension.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            ExprKind::List { .. } | ExprKind::Map { .. } => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = self.entry_sizes(&comprehension.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    fn binding(&mut self, expr: &Expr, comprehension: &Comprehension) -> CostEstimate {
        let sum = self.cost(&comprehension.range).add(self.cost(&comprehension.init));
        self.push_value(&comprehension.accumulator, &comprehension.init);
        let sum = sum.add(self.cost(&comprehension.result));
        self.pop(&comprehension.accumulator);
        self.copy_sizes(expr, &comprehension.result);
        sum
    }

    fn push_value(&mut self, name: &Arc<str>, value: &Expr) {
        let local = Local {
            path: self.path(value),
            size: self.size(value),
            entries: self.entry_sizes(value),
        };
        self.locals.entry(name.clone()).or_default().push(local);
    }

    /// Declares an iteration variable. A single variable has a list's elements or a map's keys; of two, the first has
    /// the indexes or keys and the second the values.
    fn push_iteration(&mut self, name: &Arc<str>, range: &Expr, two: bool, second: bool) {
        let entries = self.entry_sizes(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.type_of(range), Type::List(_)),
        };
        let is_value = if two { second } else { is_list };
        let step = match (is_value, is_list) {
            (true, true) => "@items",
            (true, false) => "@values",
            (false, true) => "@indices",
            (false, false) => "@keys",
        };
        let size = entries.map(|entries| if is_value { entries.value } else { entries.key });
        let path = self.path_below(range, &step.into());
        self.locals.entry(name.clone()).or_default().push(Local { path, size, entries: None });
    }

    fn pop(&mut self, name: &Arc<str>) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn type_of(&self, expr: &Expr) -> Type {
        self.checked.types.get(&expr.id).cloned().unwrap_or(Type::Dyn)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().flatten()
    }

    fn path_below(&self, expr: &Expr, step: &Arc<str>) -> Path {
        let path = self.path(expr);
        Some(path.iter().flat_map(|path| path.iter()).chain([step]).cloned().collect())
    }

    /// Facts about an operand for the estimate of a call.
    fn operand(&self, expr: &Expr) -> Operand {
        let of_variable =
            |path: &Arc<[Arc<str>]>| path.first().is_some_and(|name| &**name != ACCUMULATOR);
        let elements = self
            .path(expr)
            .filter(of_variable)
            .map(|path| path.iter().cloned().chain(["@items".into()]).collect::<Vec<Arc<str>>>());
        let ty = self.type_of(expr);
        Operand {
            size: self.size(expr),
            element_size: elements.and_then(|path| self.declared_size(&path)),
            literal: match &expr.kind {
                ExprKind::Literal(Literal::Int(value)) => Some(*value),
                _ => None,
            },
            ty,
        }
    }

    /// Size from the declared type at a path.
    fn declared_size(&self, path: &[Arc<str>]) -> Option<SizeEstimate> {
        let (variable, steps) = path.split_first()?;
        // In a validation rule, paths that do not start at a variable are taken as paths from `self`.
        let mut declared =
            self.environment.variable(variable).or_else(|| self.environment.variable("self"))?;
        for step in steps {
            declared = match (&**step, declared.at(step)) {
                (_, Some(next)) => next,
                _ => return None,
            };
        }
        declared.max_elements.map(|max| SizeEstimate { min: 0, max })
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> SizeEstimate {
        self.size(expr).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn size(&self, expr: &Expr) -> Option<SizeEstimate> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(SizeEstimate::fixed(size));
        }
        let declared = self.path(expr).and_then(|path| self.declared_size(&path));
        if declared.is_some() {
            return declared;
        }
        if is_scalar(&self.type_of(expr)) {
            return Some(ONE);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<EntrySizes> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entry_sizes(from) {
            self.entries.insert(to.id, entries);
        }
    }
}

fn literal_size(expr: &Expr) -> Option<u64> {
    Some(match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count() as u64,
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        ExprKind::Literal(_) => 1,
        ExprKind::List { elements } => elements.len() as u64,
        ExprKind::Map { entries } => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        _ => ty.optional_of().is_some_and(is_scalar),
    }
}
