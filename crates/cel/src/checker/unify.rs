//! Unification of types.

use crate::types::Type;

/// Limit on the parts of a type. A type that doubles again and again cannot be compared in time: it becomes `dyn`.
const MAX_TYPE_SIZE: usize = 1000;

/// Substitutions of type variables. Failed attempts are undone.
#[derive(Default)]
pub(super) struct Substitutions {
    types: Vec<Option<Type>>,
    /// Old substitutions to restore, newest last.
    trail: Vec<(u32, Option<Type>)>,
}

impl Substitutions {
    pub fn new_variable(&mut self) -> Type {
        self.types.push(None);
        Type::Var(self.types.len() as u32 - 1)
    }

    /// Whether every type of `from` is assignable to its counterpart in `to`.
    pub fn assignable(&mut self, from: &[Type], to: &[Type]) -> bool {
        let mark = self.trail.len();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(a, b)| self.fits(a, b));
        if !fits {
            for (variable, old) in self.trail.drain(mark..).rev() {
                self.types[variable as usize] = old;
            }
        }
        self.trail.clear();
        fits
    }

    /// Type with its variables replaced; with `decide`, unknown variables become `dyn`.
    pub fn substitute(&self, ty: &Type, decide: bool) -> Type {
        ty.rewrite(&mut |leaf| match leaf {
            Type::Var(variable) => match self.find(*variable) {
                Some(known) => Some(self.substitute(known, decide)),
                None => decide.then_some(Type::Dyn),
            },
            Type::Param(_) => decide.then_some(Type::Dyn),
            _ => None,
        })
    }

    fn find(&self, variable: u32) -> Option<&Type> {
        self.types.get(variable as usize)?.as_ref()
    }

    /// The type, or `dyn` if it exceeds the limit on parts.
    pub fn bounded(&self, ty: Type) -> Type {
        if self.count(&ty, MAX_TYPE_SIZE).is_some() { ty } else { Type::Dyn }
    }

    /// Number of parts left after those of a type are subtracted; `None` if they exceed `left`.
    fn count(&self, ty: &Type, left: usize) -> Option<usize> {
        let left = left.checked_sub(1)?;
        match ty {
            Type::Var(variable) => match self.find(*variable) {
                Some(known) => self.count(known, left),
                None => Some(left),
            },
            _ => ty.parameters().into_iter().try_fold(left, |left, part| self.count(part, left)),
        }
    }

    fn set(&mut self, variable: u32, ty: Type) {
        let ty = self.bounded(ty);
        if let Some(slot) = self.types.get_mut(variable as usize) {
            self.trail.push((variable, slot.replace(ty)));
        }
    }

    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Var(variable) = b {
            let (valid, known) = self.can_stand_for(a, *variable);
            if valid {
                return true;
            }
            if known {
                return false;
            }
        }
        if let Type::Var(variable) = a {
            return self.can_stand_for(b, *variable).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(_), Type::List(_)) | (Type::Map(_), Type::Map(_)) => {
                self.parameters_fit(a, b)
            }
            (Type::Opaque(x, _), Type::Opaque(y, _)) => x == y && self.parameters_fit(a, b),
            _ => a == b,
        }
    }

    fn parameters_fit(&mut self, a: &Type, b: &Type) -> bool {
        let (a, b) = (a.parameters(), b.parameters());
        a.len() == b.len() && a.into_iter().zip(b).all(|(a, b)| self.fits(a, b))
    }

    /// Whether a variable can be this type, and whether the variable had a type before.
    fn can_stand_for(&mut self, ty: &Type, variable: u32) -> (bool, bool) {
        if *ty == Type::Var(variable) {
            return (true, true);
        }
        if let Some(known) = self.find(variable).cloned() {
            if *ty == known {
                return (true, true);
            }
            if !self.fits(ty, &known) {
                return (false, true);
            }
            let general = most_general(ty, &known).clone();
            if !self.occurs(variable, &general) {
                self.set(variable, general);
            }
            return (true, true);
        }
        if self.occurs(variable, ty) {
            return (false, false);
        }
        self.set(variable, ty.clone());
        (true, false)
    }

    /// Whether a variable occurs in a type, which would make the type infinite.
    fn occurs(&self, variable: u32, within: &Type) -> bool {
        match within {
            Type::Var(other) if *other == variable => true,
            Type::Var(other) => self.find(*other).is_some_and(|known| self.occurs(variable, known)),
            _ => within.parameters().into_iter().any(|part| self.occurs(variable, part)),
        }
    }
}

fn is_nullable(ty: &Type) -> bool {
    matches!(ty, Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp)
}

/// The more general of two types of which one is assignable to the other.
pub(super) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if is_equal_or_more_general(a, b) { a } else { b }
}

fn is_equal_or_more_general(a: &Type, b: &Type) -> bool {
    let undecided = |ty: &Type| ty.is_dyn() || matches!(ty, Type::Var(_) | Type::Param(_));
    if undecided(a) || undecided(b) {
        return undecided(a);
    }
    match (a, b) {
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(_), Type::List(_))
        | (Type::Map(_), Type::Map(_))
        | (Type::Opaque(..), Type::Opaque(..)) => {
            let (x, y) = (a.parameters(), b.parameters());
            a.name() == b.name()
                && x.len() == y.len()
                && x.into_iter().zip(y).all(|(a, b)| is_equal_or_more_general(a, b))
        }
        _ => a == b,
    }
}
