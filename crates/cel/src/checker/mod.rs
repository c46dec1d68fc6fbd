//! Type checker: the types of nodes, and the functions and overloads of calls.

mod unify;
mod validate;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Ast, Comprehension, Expr, ExprId, ExprKind, Literal, operator};
use crate::composition::Variables;
use crate::environment::Environment;
use crate::library::Function;
use crate::source::Issues;
use crate::types::Type;
use unify::{Substitutions, most_general};

/// Result of the checker, by node.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub types: HashMap<ExprId, Type>,
    pub references: HashMap<ExprId, Reference>,
}

/// Name or function that a node refers to.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A variable or type.
    Name(Arc<str>),
    /// A function by its full name, with the overloads that the arguments may fit. With `drops_target`, the receiver of
    /// the call is part of the function's name: `sets.contains(a, b)`.
    Function { name: &'static str, overloads: Vec<&'static str>, drops_target: bool },
}

/// Checks the types of an expression.
pub(crate) fn check(
    ast: &Ast,
    environment: &Environment,
    variables: Option<&Variables>,
) -> Result<Checked, Issues> {
    let mut checker = Checker {
        ast,
        environment,
        variables,
        issues: Issues::new(&ast.source),
        substitutions: Substitutions::default(),
        scopes: Vec::new(),
        checked: Checked::default(),
    };
    checker.check(&ast.root);
    let Checker { issues, substitutions, mut checked, .. } = checker;
    issues.or_else(())?;
    for ty in checked.types.values_mut() {
        *ty = substitutions.substitute(ty, true);
    }
    validate::validate(ast, &checked)?;
    Ok(checked)
}

struct Checker<'c> {
    ast: &'c Ast,
    environment: &'c Environment,
    variables: Option<&'c Variables>,
    issues: Issues,
    substitutions: Substitutions,
    /// Variables of the enclosing comprehensions, innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    checked: Checked,
}

impl Checker<'_> {
    fn check(&mut self, expr: &Expr) -> Type {
        kevel_compute::charge(2);
        let ty = match &expr.kind {
            ExprKind::Unspecified => Type::Error,
            ExprKind::Literal(value) => literal_type(value),
            ExprKind::Ident(name) => self.check_ident(expr.id, name),
            ExprKind::Select { operand, field, test_only } => {
                self.check_select(expr, operand, field, *test_only)
            }
            ExprKind::Call { function, target, args } => {
                self.check_call(expr.id, function, target.as_deref(), args)
            }
            ExprKind::List { elements } => {
                let mut element_type = None;
                for element in elements {
                    let mut ty = self.check(&element.value);
                    if element.optional {
                        ty = self.unwrap_optional(&element.value, ty);
                    }
                    element_type = Some(self.join(element_type, ty));
                }
                Type::list(element_type.unwrap_or_else(|| self.substitutions.new_variable()))
            }
            ExprKind::Map { entries } => {
                let (mut key_type, mut value_type) = (None, None);
                for entry in entries {
                    let ty = self.check(&entry.key);
                    key_type = Some(self.join(key_type, ty));
                    let mut ty = self.check(&entry.value);
                    if entry.optional {
                        ty = self.unwrap_optional(&entry.value, ty);
                    }
                    value_type = Some(self.join(value_type, ty));
                }
                let key = key_type.unwrap_or_else(|| self.substitutions.new_variable());
                Type::map(key, value_type.unwrap_or_else(|| self.substitutions.new_variable()))
            }
            ExprKind::Struct { name, fields } => self.check_struct(expr.id, name, fields),
            ExprKind::Comprehension(comprehension) => self.check_comprehension(comprehension),
        };
        let ty = self.substitutions.bounded(ty);
        self.checked.types.insert(expr.id, ty.clone());
        ty
    }

    fn report(&mut self, id: ExprId, message: String) {
        self.issues.report(self.ast.location(id), message);
    }

    fn undeclared(&mut self, id: ExprId, name: &str) -> Type {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn mismatch(&mut self, id: ExprId, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    /// Type of a name; a leading dot makes no difference, as there is no container.
    fn lookup(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let local = self.scopes.iter().rev().find(|(known, _)| &**known == name);
        local.map(|(_, ty)| ty.clone()).or_else(|| self.environment.variable_type(name))
    }

    fn name(&mut self, id: ExprId, name: &str, ty: Type) -> Type {
        let name = name.strip_prefix('.').unwrap_or(name).into();
        self.checked.references.insert(id, Reference::Name(name));
        ty
    }

    fn check_ident(&mut self, id: ExprId, name: &str) -> Type {
        match self.lookup(name) {
            Some(ty) => self.name(id, name, ty),
            None => self.undeclared(id, name),
        }
    }

    fn check_select(&mut self, expr: &Expr, operand: &Expr, field: &str, test_only: bool) -> Type {
        // A chain of selections may be the name of a variable or type.
        if let Some(name) = expr.qualified_name()
            && let Some(ty) = self.lookup(&name)
        {
            return self.name(expr.id, &name, ty);
        }
        let ty = self.check_field(expr.id, operand, field, false);
        if test_only { Type::Bool } else { self.substitutions.substitute(&ty, false) }
    }

    fn check_field(&mut self, id: ExprId, operand: &Expr, field: &str, optional: bool) -> Type {
        let operand_type = self.check(operand);
        let operand_type = self.substitutions.substitute(&operand_type, false);
        let unwrapped = operand_type.optional_of();
        let ty = match unwrapped.unwrap_or(&operand_type) {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(name) => self.field_type(id, name, field),
            variable @ Type::Var(_) => {
                self.substitutions.assignable(&[Type::Dyn], std::slice::from_ref(variable));
                Type::Dyn
            }
            ty => {
                if !ty.is_dyn_or_error() {
                    self.report(id, format!("type '{ty}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if unwrapped.is_some() || optional { Type::optional(ty) } else { ty }
    }

    fn field_type(&mut self, id: ExprId, object: &str, field: &str) -> Type {
        let variable = self.variables.and_then(|variables| variables.field_type(object, field));
        if let Some(ty) = variable {
            return ty;
        }
        match self.environment.object(object).map(|object| object.field(field)) {
            Some(Some(field)) => return field.to_type(),
            Some(None) => self.report(id, format!("undefined field '{field}'")),
            None => self.report(id, format!("unexpected failed resolution of '{object}'")),
        }
        Type::Error
    }

    fn check_call(
        &mut self,
        id: ExprId,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Type {
        if function == operator::OPT_SELECT {
            return self.check_optional_select(id, args);
        }
        for arg in args {
            self.check(arg);
        }
        let Some(target) = target else {
            let name = function.strip_prefix('.').unwrap_or(function);
            return match self.environment.function(name) {
                Some(found) => self.resolve(id, found, None, args, false),
                None => self.undeclared(id, function),
            };
        };
        if let Some(prefix) = target.qualified_name() {
            let name = format!("{prefix}.{function}");
            let name = name.strip_prefix('.').unwrap_or(&name);
            if let Some(found) = self.environment.function(name) {
                return self.resolve(id, found, None, args, true);
            }
        }
        self.check(target);
        match self.environment.function(function) {
            Some(found) => self.resolve(id, found, Some(target), args, false),
            None => self.undeclared(id, function),
        }
    }

    fn check_optional_select(&mut self, id: ExprId, args: &[Expr]) -> Type {
        let [operand, Expr { kind: ExprKind::Literal(Literal::String(field)), id: field_id }] =
            args
        else {
            self.report(
                id,
                format!(
                    "unsupported optional field selection: incorrect signature. argument count: {}",
                    args.len()
                ),
            );
            return Type::Error;
        };
        self.checked.types.insert(*field_id, Type::String);
        let ty = self.check_field(id, operand, field, true);
        let overloads = vec!["select_optional_field"];
        let reference =
            Reference::Function { name: operator::OPT_SELECT, overloads, drops_target: false };
        self.checked.references.insert(id, reference);
        self.substitutions.substitute(&ty, false)
    }

    /// Finds the overloads that the arguments fit.
    fn resolve(
        &mut self,
        id: ExprId,
        function: &'static Function,
        target: Option<&Expr>,
        args: &[Expr],
        drops_target: bool,
    ) -> Type {
        let operands = target.into_iter().chain(args);
        let arg_types: Vec<Type> = operands
            .map(|arg| self.checked.types.get(&arg.id).cloned().unwrap_or(Type::Error))
            .collect();
        let (mut overloads, mut result) = (Vec::new(), None);
        if matches!(function.name, operator::AND | operator::OR) {
            return self.resolve_logical(id, function, args, &arg_types);
        }
        for overload in &function.overloads {
            if overload.signature.member != target.is_some() {
                continue;
            }
            let (params, overload_result) = self.instantiate(overload);
            if !self.substitutions.assignable(&arg_types, &params) {
                continue;
            }
            overloads.push(overload.id);
            let ty = self.substitutions.substitute(&overload_result, false);
            result = Some(match result {
                None => ty,
                Some(Type::Dyn) => Type::Dyn,
                Some(known) if known == ty || known.is_dyn() => known,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let types: Vec<String> = arg_types
                .iter()
                .map(|ty| self.substitutions.substitute(ty, true).to_string())
                .collect();
            let (receiver, rest) = types.split_at(usize::from(target.is_some()));
            let receiver = receiver.iter().map(|r| format!("{r}.")).collect::<String>();
            let name = function.name;
            let signature = format!("{receiver}({})", rest.join(", "));
            self.report(
                id,
                format!("found no matching overload for '{name}' applied to '{signature}'"),
            );
            return Type::Error;
        };
        let reference = Reference::Function { name: function.name, overloads, drops_target };
        self.checked.references.insert(id, reference);
        result
    }

    fn resolve_logical(
        &mut self,
        id: ExprId,
        function: &'static Function,
        args: &[Expr],
        arg_types: &[Type],
    ) -> Type {
        let mut fits = true;
        for (arg, ty) in args.iter().zip(arg_types) {
            if !self.substitutions.assignable(std::slice::from_ref(ty), &[Type::Bool]) {
                self.mismatch(arg.id, &Type::Bool, ty);
                fits = false;
            }
        }
        if !fits {
            return Type::Error;
        }
        let overloads = function.overloads.iter().map(|overload| overload.id).collect();
        let reference = Reference::Function { name: function.name, overloads, drops_target: false };
        self.checked.references.insert(id, reference);
        Type::Bool
    }

    /// Argument and result types of an overload, with fresh type variables.
    fn instantiate(&mut self, overload: &crate::library::Overload) -> (Vec<Type>, Type) {
        let signature = &overload.signature;
        let variables: Vec<(char, Type)> = overload
            .parameters
            .iter()
            .map(|parameter| (*parameter, self.substitutions.new_variable()))
            .collect();
        let mut fresh = |leaf: &Type| match leaf {
            Type::Param(name) => {
                variables.iter().find(|(known, _)| known == name).map(|(_, ty)| ty.clone())
            }
            _ => None,
        };
        let params = signature.args.iter().map(|arg| arg.rewrite(&mut fresh)).collect();
        (params, signature.result.rewrite(&mut fresh))
    }

    fn unwrap_optional(&mut self, expr: &Expr, ty: Type) -> Type {
        if let Some(inner) = ty.optional_of() {
            return inner.clone();
        }
        if !ty.is_dyn() {
            self.mismatch(expr.id, &Type::optional(ty.clone()), &ty);
        }
        ty
    }

    /// Common type of a list's elements so far and one more. Mixed types are reported later: see [`validate`].
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        let (a, b) = (std::slice::from_ref(&previous), std::slice::from_ref(&current));
        match self.substitutions.assignable(a, b) {
            true => most_general(&previous, &current).clone(),
            false => Type::Dyn,
        }
    }

    fn check_struct(
        &mut self,
        id: ExprId,
        name: &Arc<str>,
        fields: &[crate::ast::StructField],
    ) -> Type {
        let Some(ty) = self.lookup(name) else {
            return self.undeclared(id, name);
        };
        let full_name: Arc<str> = name.strip_prefix('.').unwrap_or(name).into();
        self.checked.references.insert(id, Reference::Name(full_name));
        let result = match ty {
            Type::Type(Some(of)) if matches!(*of, Type::Object(_)) => (*of).clone(),
            Type::Type(Some(of)) => {
                self.report(id, format!("'{}' is not a message type", of.name()));
                Type::Error
            }
            Type::Error => Type::Error,
            other => {
                self.report(id, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        for field in fields {
            let mut value = self.check(&field.value);
            let expected = match &result {
                Type::Object(object) => self.field_type(field.id, object, &field.name),
                _ => Type::Error,
            };
            if field.optional {
                value = self.unwrap_optional(&field.value, value);
            }
            let fits = self
                .substitutions
                .assignable(std::slice::from_ref(&expected), std::slice::from_ref(&value));
            if !fits {
                let name = &field.name;
                self.report(field.id, format!(
                    "expected type of field '{name}' is '{expected}' but provided type is '{value}'"
                ));
            }
        }
        result
    }

    fn check_comprehension(&mut self, comprehension: &Comprehension) -> Type {
        let range = self.check(&comprehension.range);
        let accumulator = self.check(&comprehension.init);
        let range = self.substitutions.substitute(&range, false);
        let two = comprehension.second_variable.is_some();
        let (first, second) = match &range {
            Type::List(element) if two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.substitutions.assignable(&[Type::Dyn], std::slice::from_ref(&range));
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                self.report(comprehension.range.id, format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                ));
                (Type::Error, Type::Error)
            }
        };
        let outer = self.scopes.len();
        self.scopes.push((comprehension.accumulator.clone(), accumulator.clone()));
        self.scopes.push((comprehension.variable.clone(), first));
        if let Some(name) = &comprehension.second_variable {
            self.scopes.push((name.clone(), second));
        }
        let condition = self.check(&comprehension.condition);
        self.assert_type(&comprehension.condition, &Type::Bool, &condition);
        let step = self.check(&comprehension.step);
        self.assert_type(&comprehension.step, &accumulator, &step);
        self.scopes.truncate(outer + 1);
        let result = self.check(&comprehension.result);
        self.scopes.truncate(outer);
        self.substitutions.substitute(&result, false)
    }

    fn assert_type(&mut self, expr: &Expr, expected: &Type, found: &Type) {
        let (a, b) = (std::slice::from_ref(expected), std::slice::from_ref(found));
        if !self.substitutions.assignable(a, b) {
            self.mismatch(expr.id, expected, found);
        }
    }
}

fn literal_type(value: &Literal) -> Type {
    match value {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
