//! Validation of constants: literal arguments that a function does not accept, mixed lists, format strings.

use kevel_regexp::Regexp;

use crate::ast::{Ast, Expr, ExprId, ExprKind, Literal};
use crate::checker::{Checked, Reference};
use crate::library::{check_format, convert};
use crate::source::Issues;
use crate::types::Type;
use crate::value::Value;

pub(super) fn validate(ast: &Ast, checked: &Checked) -> Result<(), Issues> {
    let mut validator = Validator { ast, checked, issues: Issues::new(&ast.source) };
    let mut nodes = Vec::new();
    ast.root.visit(&mut |node| nodes.push(node));
    for name in ["duration", "timestamp", "matches"] {
        nodes.iter().for_each(|node| validator.literal_argument(node, name));
    }
    validator.homogeneous(&ast.root, false);
    nodes.iter().for_each(|node| validator.format(node));
    validator.issues.or_else(())
}

struct Validator<'v> {
    ast: &'v Ast,
    checked: &'v Checked,
    issues: Issues,
}

impl Validator<'_> {
    fn report(&mut self, id: ExprId, message: String) {
        self.issues.report(self.ast.location(id), message);
    }

    fn type_of(&self, id: ExprId) -> Type {
        self.checked.types.get(&id).cloned().unwrap_or(Type::Dyn)
    }

    /// Checks the first argument of a function if it is a literal.
    fn literal_argument(&mut self, node: &Expr, name: &str) {
        let ExprKind::Call { function, args, .. } = &node.kind else { return };
        let Some(Expr { id, kind: ExprKind::Literal(literal) }) = args.first() else { return };
        if &**function != name {
            return;
        }
        let value = match literal {
            Literal::String(text) => Value::String(crate::value::Text::Borrowed(text)),
            Literal::Int(value) => Value::Int(*value),
            _ => return,
        };
        let valid = match (name, literal) {
            ("matches", Literal::String(pattern)) => Regexp::new(pattern).is_ok(),
            ("duration", _) => convert(&value, &Type::Duration).is_ok(),
            ("timestamp", _) => convert(&value, &Type::Timestamp).is_ok(),
            _ => true,
        };
        if !valid {
            self.report(*id, format!("invalid {name} argument"));
        }
    }

    /// Checks that elements of a list, and entries of a map, have one type, except in arguments of `format`.
    fn homogeneous(&mut self, node: &Expr, exempt: bool) {
        let exempt = exempt
            || matches!(&node.kind, ExprKind::Call { function, .. } if &**function == "format");
        if !exempt {
            match &node.kind {
                ExprKind::List { elements } => {
                    let types: Vec<_> = elements
                        .iter()
                        .map(|e| (e.value.id, self.element_type(e.value.id, e.optional)))
                        .collect();
                    let odd = types.iter().find(|(_, ty)| !types[0].1.is_equivalent(ty));
                    if let Some((id, ty)) = odd {
                        let message = mismatch(&types[0].1, ty);
                        self.report(*id, message);
                    }
                }
                ExprKind::Map { entries } => {
                    let mut first: Option<(Type, Type)> = None;
                    for entry in entries {
                        let key = self.type_of(entry.key.id);
                        let value = self.element_type(entry.value.id, entry.optional);
                        let Some((first_key, first_value)) = &first else {
                            first = Some((key, value));
                            continue;
                        };
                        let wrong_key =
                            (!first_key.is_equivalent(&key)).then(|| mismatch(first_key, &key));
                        let wrong_value = (!first_value.is_equivalent(&value))
                            .then(|| mismatch(first_value, &value));
                        if let Some(message) = wrong_key {
                            self.report(entry.key.id, message);
                        }
                        if let Some(message) = wrong_value {
                            self.report(entry.value.id, message);
                        }
                    }
                }
                _ => {}
            }
        }
        let mut children = Vec::new();
        node.for_each_child(&mut |child| children.push(child));
        children.into_iter().for_each(|child| self.homogeneous(child, exempt));
    }

    fn element_type(&self, id: ExprId, optional: bool) -> Type {
        let ty = self.type_of(id);
        match ty.optional_of().filter(|_| optional) {
            Some(of) => of.clone(),
            None => ty,
        }
    }

    fn format(&mut self, node: &Expr) {
        let ExprKind::Call { function, target: Some(target), args } = &node.kind else { return };
        let (
            ExprKind::Literal(Literal::String(text)),
            [Expr { kind: ExprKind::List { elements }, .. }],
        ) = (&target.kind, args.as_slice())
        else {
            return;
        };
        let resolved = match self.checked.references.get(&node.id) {
            Some(Reference::Function { overloads, .. }) => overloads.contains(&"string_format"),
            _ => false,
        };
        if &**function != "format" || !resolved {
            return;
        }
        let elements = elements.iter().map(|element| &element.value);
        let found = check_format(text, node, elements, &|id| self.type_of(id));
        if let Err((id, message)) = found {
            self.report(id, message);
        }
    }
}

fn mismatch(expected: &Type, found: &Type) -> String {
    format!("expected type '{expected}' but found '{found}'")
}
