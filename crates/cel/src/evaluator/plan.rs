//! Planner: names and functions are resolved, constant parts are evaluated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kevel_regexp::Regexp;

use crate::ast::{Ast, Comprehension, Expr, ExprKind, Literal, operator};
use crate::checker::{Checked, Reference};
use crate::environment::Environment;
use crate::library::{Binding, Function, Overload, RegexFunction};
use crate::types::Type;
use crate::value::{Key, Text, Value};

/// Node of an executable plan.
#[derive(Debug)]
pub(crate) enum Plan {
    Constant(Value<'static>),
    Attribute(Attribute),
    And(Box<[Plan]>),
    Or(Box<[Plan]>),
    Equals {
        args: Box<[Plan; 2]>,
        negated: bool,
    },
    NotStrictlyFalse(Box<Plan>),
    Call(Box<CallPlan>),
    /// Membership in a set of constants.
    InSet {
        value: Box<Plan>,
        set: BTreeSet<Key<'static>>,
    },
    /// `or` of optionals: the first with a value; with `unwrap` (`orValue`), the value itself.
    OptionalOr {
        first: Box<Plan>,
        second: Box<Plan>,
        unwrap: bool,
    },
    List(Vec<ElementPlan>),
    Map(Vec<(Plan, ElementPlan)>),
    /// Construction of an object; an error if the type is not `known` to be constructible.
    Object {
        type_name: Arc<str>,
        fields: Vec<(Arc<str>, ElementPlan)>,
        known: bool,
    },
    Fold(Box<FoldPlan>),
}

#[derive(Debug)]
pub(crate) struct ElementPlan {
    pub value: Plan,
    /// Omitted if the value is an empty optional.
    pub optional: bool,
}

/// A variable or other value, with the fields and elements to select in turn. Attributes are resolved as a whole: only
/// the last value is charged.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub root: Root,
    pub qualifiers: Vec<Arc<Qualifier>>,
    /// Whether it is `has(…)`.
    pub test_only: bool,
}

#[derive(Debug)]
pub(crate) enum Root {
    Global(Arc<str>),
    Local(usize),
    Relative(Box<Plan>),
    Conditional(Box<Conditional>),
}

#[derive(Debug)]
pub(crate) struct Conditional {
    pub condition: Plan,
    pub truthy: Attribute,
    pub falsy: Attribute,
}

/// Selection of a field or element.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub key: QualifierKey,
    pub optional: bool,
    pub test_only: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Constant(Value<'static>),
    Attribute(Attribute),
}

#[derive(Debug)]
pub(crate) struct CallPlan {
    pub function: &'static Function,
    /// Overload chosen by the checker, if it is only one.
    pub overload: Option<&'static Overload>,
    pub args: Vec<Plan>,
    /// Whether the first argument that fails ends the call.
    pub ordered: bool,
    pub regex: Option<(RegexFunction, Regexp)>,
    /// Slot of the accumulator, if it is the first argument and has no other reference.
    pub gathers: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct FoldPlan {
    pub range: Plan,
    pub init: Plan,
    pub condition: Plan,
    pub step: Plan,
    pub result: Plan,
    /// Slot of the accumulator among local variables; the iteration variables follow.
    pub accumulator: usize,
    pub two_variables: bool,
}

/// Plans a checked expression; an error if a constant part has no value.
pub(crate) fn plan(
    ast: &Ast,
    checked: &Checked,
    environment: &Environment,
) -> Result<Plan, String> {
    Planner { checked, environment, locals: Vec::new() }.plan(&ast.root)
}

struct Planner<'p> {
    checked: &'p Checked,
    environment: &'p Environment,
    /// Local variables, by slot.
    locals: Vec<Arc<str>>,
}

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Result<Plan, String> {
        if let Some(Reference::Name(name)) = self.checked.references.get(&expr.id)
            && !matches!(expr.kind, ExprKind::Struct { .. })
        {
            return self.name(expr, name);
        }
        match &expr.kind {
            ExprKind::Literal(value) => Ok(Plan::Constant(constant(value))),
            ExprKind::Select { operand, field, test_only } => {
                let mut attribute = self.attribute(operand)?;
                let key = QualifierKey::Constant(Value::String(Text::Shared(field.clone())));
                let qualifier = Qualifier { key, optional: false, test_only: *test_only };
                attribute.qualify(&Arc::new(qualifier));
                attribute.test_only = *test_only;
                Ok(Plan::Attribute(attribute))
            }
            ExprKind::Call { target, args, .. } => self.call(expr, target.as_deref(), args),
            ExprKind::List { elements } => {
                let elements = elements
                    .iter()
                    .map(|e| Ok(ElementPlan { value: self.plan(&e.value)?, optional: e.optional }))
                    .collect::<Result<Vec<_>, String>>()?;
                Ok(fold_list(elements))
            }
            ExprKind::Map { entries } => {
                let entries = entries
                    .iter()
                    .map(|e| {
                        let key = self.plan(&e.key)?;
                        Ok((key, ElementPlan { value: self.plan(&e.value)?, optional: e.optional }))
                    })
                    .collect::<Result<Vec<_>, String>>()?;
                Ok(fold_map(entries))
            }
            ExprKind::Struct { name, fields } => {
                let fields = fields
                    .iter()
                    .map(|f| {
                        let value = self.plan(&f.value)?;
                        Ok((f.name.clone(), ElementPlan { value, optional: f.optional }))
                    })
                    .collect::<Result<Vec<_>, String>>()?;
                let type_name: Arc<str> = name.strip_prefix('.').unwrap_or(name).into();
                let known = self.environment.can_make(&type_name);
                Ok(Plan::Object { type_name, fields, known })
            }
            ExprKind::Comprehension(comprehension) => self.fold(comprehension),
            ExprKind::Ident(_) | ExprKind::Unspecified => Err("unsupported expr".to_owned()),
        }
    }

    fn name(&self, expr: &Expr, name: &Arc<str>) -> Result<Plan, String> {
        let is_ident = matches!(expr.kind, ExprKind::Ident(_));
        let local = self.locals.iter().rposition(|local| local == name).filter(|_| is_ident);
        let root = match local {
            Some(index) => Root::Local(index),
            None if self.environment.variable(name).is_some() => Root::Global(name.clone()),
            None => {
                return match (&**name, self.environment.named_type(name)) {
                    // Names that only declarations may use.
                    ("duration" | "timestamp", _) | (_, None) => {
                        Err(format!("reference to undefined type: {name}"))
                    }
                    _ if self.environment.is_dynamic(name) => {
                        Err(format!("reference to undefined type: {name}"))
                    }
                    (_, Some(ty)) => Ok(Plan::Constant(Value::Type(ty))),
                };
            }
        };
        Ok(Plan::Attribute(Attribute { root, qualifiers: Vec::new(), test_only: false }))
    }

    /// Plans the operand of a selection.
    fn attribute(&mut self, operand: &Expr) -> Result<Attribute, String> {
        Ok(into_attribute(self.plan(operand)?))
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, args: &[Expr]) -> Result<Plan, String> {
        let Some(Reference::Function { name, overloads, drops_target }) =
            self.checked.references.get(&expr.id)
        else {
            return Err("unresolved call".to_owned());
        };
        let (name, overloads) = (*name, overloads.clone());
        let target = target.filter(|_| !drops_target);
        let mut plans = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            plans.push(self.plan(arg)?);
        }
        match (name, plans.len()) {
            (operator::AND, _) => return Ok(Plan::And(plans.into())),
            (operator::OR, _) => return Ok(Plan::Or(plans.into())),
            (operator::CONDITIONAL, 3) => return Ok(conditional(plans)),
            (operator::EQUALS | operator::NOT_EQUALS, 2) => {
                let negated = name == operator::NOT_EQUALS;
                let args: Box<[Plan; 2]> = plans.try_into().map_err(|_| "bad equality")?;
                return Ok(Plan::Equals { args, negated });
            }
            (operator::INDEX, 2) => return index(plans, false),
            (operator::OPT_INDEX | operator::OPT_SELECT, 2) => return index(plans, true),
            (operator::NOT_STRICTLY_FALSE, 1) => {
                let plan = plans.pop().ok_or("bad call")?;
                return Ok(Plan::NotStrictlyFalse(Box::new(plan)));
            }
            ("or" | "orValue", 2) => {
                let (Some(second), Some(first)) = (plans.pop(), plans.pop()) else {
                    return Err("bad call".to_owned());
                };
                let (first, second) = (Box::new(first), Box::new(second));
                return Ok(Plan::OptionalOr { first, second, unwrap: name == "orValue" });
            }
            _ => {}
        }
        let function = self.environment.function(name).ok_or("unknown function")?;
        let overload = match overloads.as_slice() {
            [one] => function.overloads.iter().find(|overload| overload.id == *one),
            _ => None,
        };
        self.function_call(function, overload, plans)
    }

    fn function_call(
        &self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        mut args: Vec<Plan>,
    ) -> Result<Plan, String> {
        if overload.is_some_and(|overload| overload.id == "in_list")
            && let [value, Plan::Constant(Value::List(list))] = args.as_mut_slice()
        {
            if list.is_empty() {
                return Ok(Plan::Constant(Value::Bool(false)));
            }
            let elements: Option<Vec<_>> = list.iter().map(|e| Key::of(&e.ok()?)).collect();
            if let Some(keys) = elements {
                let value = std::mem::replace(value, Plan::Constant(Value::Null));
                let set = keys.iter().flat_map(equal_keys).collect();
                return Ok(Plan::InSet { value: Box::new(value), set });
            }
        }
        let bound =
            function.overloads.iter().filter(|o| !matches!(o.binding, Binding::None)).count();
        let ordered = match (overload, function.singleton) {
            (_, Some(_)) => false,
            (Some(overload), _) if !matches!(overload.binding, Binding::None) => {
                matches!(overload.binding, Binding::Ordered(_))
            }
            // The overload is known only after all arguments are evaluated.
            _ => bound != 1,
        };
        let mut plan = CallPlan { function, overload, args, ordered, regex: None, gathers: None };
        if let Some(kind) = RegexFunction::named(function.name)
            && let Some(Plan::Constant(Value::String(pattern))) = plan.args.get(1)
        {
            let regexp = Regexp::new(pattern).map_err(|error| error.to_string())?;
            plan.regex = Some((kind, regexp));
            plan.ordered = true;
        }
        if let Some(Plan::Attribute(Attribute { root: Root::Local(index), qualifiers, .. })) =
            plan.args.first()
            && qualifiers.is_empty()
            && matches!(function.name, operator::ADD | operator::MAP_INSERT)
            && self.locals.get(*index).is_some_and(|name| &**name == crate::parser::ACCUMULATOR)
        {
            plan.gathers = Some(*index);
        }
        let plan = Plan::Call(Box::new(plan));
        if CONVERSIONS.contains(&function.name)
            && let Plan::Call(call) = &plan
            && let [Plan::Constant(_)] = call.args.as_slice()
        {
            return super::evaluate::evaluate_constant(&plan).map(Plan::Constant);
        }
        Ok(plan)
    }

    fn fold(&mut self, comprehension: &Comprehension) -> Result<Plan, String> {
        let range = self.plan(&comprehension.range)?;
        let init = self.plan(&comprehension.init)?;
        let accumulator = self.locals.len();
        self.locals.push(comprehension.accumulator.clone());
        self.locals.push(comprehension.variable.clone());
        let second = comprehension.second_variable.clone();
        self.locals.push(second.unwrap_or_else(|| "#second".into()));
        let condition = self.plan(&comprehension.condition)?;
        let step = self.plan(&comprehension.step)?;
        // The iteration variables keep their slots, but are not visible in the result.
        for place in self.locals.iter_mut().skip(accumulator + 1) {
            *place = "#hidden".into();
        }
        let result = self.plan(&comprehension.result)?;
        self.locals.truncate(accumulator);
        let two_variables = comprehension.second_variable.is_some();
        let fold = FoldPlan { range, init, condition, step, result, accumulator, two_variables };
        Ok(Plan::Fold(Box::new(fold)))
    }
}

/// Conversions that are evaluated at planning time if their argument is constant.
const CONVERSIONS: &[&str] =
    &["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

impl Attribute {
    fn qualify(&mut self, qualifier: &Arc<Qualifier>) {
        match &mut self.root {
            Root::Conditional(conditional) => {
                conditional.truthy.qualify(qualifier);
                conditional.falsy.qualify(qualifier);
            }
            _ => self.qualifiers.push(qualifier.clone()),
        }
    }
}

fn into_attribute(plan: Plan) -> Attribute {
    match plan {
        Plan::Attribute(attribute) => attribute,
        other => {
            let root = Root::Relative(Box::new(other));
            Attribute { root, qualifiers: Vec::new(), test_only: false }
        }
    }
}

fn conditional(mut plans: Vec<Plan>) -> Plan {
    let falsy = plans.pop().unwrap_or(Plan::Constant(Value::Null));
    let truthy = plans.pop().unwrap_or(Plan::Constant(Value::Null));
    let condition = plans.pop().unwrap_or(Plan::Constant(Value::Null));
    let (truthy, falsy) = (into_attribute(truthy), into_attribute(falsy));
    let root = Root::Conditional(Box::new(Conditional { condition, truthy, falsy }));
    Plan::Attribute(Attribute { root, qualifiers: Vec::new(), test_only: false })
}

fn index(mut plans: Vec<Plan>, optional: bool) -> Result<Plan, String> {
    let key = plans.pop().unwrap_or(Plan::Constant(Value::Null));
    let key = match key {
        Plan::Constant(value) if Key::of(&value).is_none() => {
            return Err(format!("invalid qualifier type: {}", value.go_type()));
        }
        Plan::Constant(value) => QualifierKey::Constant(value),
        other => QualifierKey::Attribute(into_attribute(other)),
    };
    let mut attribute = into_attribute(plans.pop().unwrap_or(Plan::Constant(Value::Null)));
    attribute.qualify(&Arc::new(Qualifier { key, optional, test_only: false }));
    attribute.test_only = false;
    Ok(Plan::Attribute(attribute))
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Shared(text.clone())),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

fn fold_list(elements: Vec<ElementPlan>) -> Plan {
    let constant = |e: &ElementPlan| match &e.value {
        Plan::Constant(value) if !e.optional => Some(value.clone()),
        _ => None,
    };
    match elements.iter().map(constant).collect::<Option<Vec<_>>>() {
        Some(values) => Plan::Constant(Value::list(values)),
        None => Plan::List(elements),
    }
}

fn fold_map(entries: Vec<(Plan, ElementPlan)>) -> Plan {
    let constant = |(key, element): &(Plan, ElementPlan)| match (key, &element.value) {
        (Plan::Constant(key), Plan::Constant(value)) if !element.optional => {
            Some((Key::of(key)?, value.clone()))
        }
        _ => None,
    };
    match entries.iter().map(constant).collect::<Option<BTreeMap<_, _>>>() {
        Some(values) => Plan::Constant(Value::Map(values.into())),
        None => Plan::Map(entries),
    }
}

/// A key, and the equal keys of other number types.
fn equal_keys(key: &Key<'static>) -> Vec<Key<'static>> {
    let value = key.to_value();
    let others = [Type::Int, Type::Uint, Type::Double].into_iter().filter_map(|ty| {
        let number = matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
        let other = number.then(|| crate::library::convert(&value, &ty).ok()).flatten()?;
        other.equals(&value).unwrap_or(false).then(|| Key::of(&other)).flatten()
    });
    others.chain([key.clone()]).collect()
}
