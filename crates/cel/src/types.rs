//! Types of the checker.

use std::fmt;
use std::sync::Arc;

/// Type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Known only at run time.
    Dyn,
    /// Like [`Type::Dyn`]; the type of claims' values.
    Any,
    /// `null_type`
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<(Type, Type)>),
    /// Type of a type.
    Type(Option<Arc<Type>>),
    /// Object with declared fields, by name.
    Object(Arc<str>),
    /// Type that only functions can inspect: `optional_type(string)`, `net.IP`.
    Opaque(Arc<str>, Arc<[Type]>),
    /// Type parameter of a signature.
    Param(char),
    /// Type variable, still to be inferred.
    Var(u32),
    /// Type of an expression with an issue.
    Error,
}

/// Name of the type of optional values.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    /// List type.
    pub fn list(element: Type) -> Self {
        Type::List(Arc::new(element))
    }

    /// Map type.
    pub fn map(key: Type, value: Type) -> Self {
        Type::Map(Arc::new((key, value)))
    }

    /// Object type by name.
    pub fn object(name: &str) -> Self {
        Type::Object(name.into())
    }

    /// Optional type.
    pub fn optional(of: Type) -> Self {
        Type::Opaque(OPTIONAL.into(), Arc::new([of]))
    }

    /// Name without parameters, as values have it at run time.
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Any => "google.protobuf.Any",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Type(_) => "type",
            Type::Object(name) | Type::Opaque(name, _) => name,
            Type::Param(_) => "param",
            Type::Var(_) => "var",
            Type::Error => "!error!",
        }
    }

    /// Name with parameters, for messages about a whole expression; the checker's issues use shorter names
    /// ([`Display`](fmt::Display)).
    ///
    /// ```
    /// use kevel_cel::Type;
    /// assert_eq!(Type::list(Type::Any).full_name(), "list(google.protobuf.Any)");
    /// assert_eq!(Type::list(Type::Any).to_string(), "list(any)");
    /// ```
    pub fn full_name(&self) -> String {
        let parameters: Vec<String> = self.parameters().into_iter().map(Type::full_name).collect();
        match parameters.is_empty() {
            true => self.name().to_owned(),
            false => format!("{}({})", self.name(), parameters.join(", ")),
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        self.is_dyn() || *self == Type::Error
    }

    /// Inner type of an optional type.
    pub(crate) fn optional_of(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, of) if &**name == OPTIONAL => of.first(),
            _ => None,
        }
    }

    /// Type parameters.
    pub(crate) fn parameters(&self) -> Vec<&Type> {
        match self {
            Type::List(element) => vec![element],
            Type::Map(entry) => vec![&entry.0, &entry.1],
            Type::Type(Some(of)) => vec![of],
            Type::Opaque(_, of) => of.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it is the same type, whatever the names of its type variables.
    pub(crate) fn is_equivalent(&self, other: &Type) -> bool {
        if let (Type::Var(_) | Type::Param(_), Type::Var(_) | Type::Param(_)) = (self, other) {
            return true;
        }
        let (mine, others) = (self.parameters(), other.parameters());
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.name() == other.name()
            && mine.len() == others.len()
            && mine.iter().zip(others).all(|(a, b)| a.is_equivalent(b))
    }

    /// Replaces leaves of the type.
    pub(crate) fn rewrite(&self, leaf: &mut dyn FnMut(&Type) -> Option<Type>) -> Type {
        if let Some(replaced) = leaf(self) {
            return replaced;
        }
        match self {
            Type::List(element) => Type::list(element.rewrite(leaf)),
            Type::Map(entry) => Type::map(entry.0.rewrite(leaf), entry.1.rewrite(leaf)),
            Type::Type(Some(of)) => Type::Type(Some(Arc::new(of.rewrite(leaf)))),
            Type::Opaque(name, of) if !of.is_empty() => {
                Type::Opaque(name.clone(), of.iter().map(|t| t.rewrite(leaf)).collect())
            }
            other => other.clone(),
        }
    }
}

/// Prints as in messages of the checker.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Any => return f.write_str("any"),
            Type::Null => return f.write_str("null"),
            Type::Duration => return f.write_str("duration"),
            Type::Timestamp => return f.write_str("timestamp"),
            Type::Param(name) => return write!(f, "{name}"),
            Type::Var(number) => return write!(f, "_var{number}"),
            _ => f.write_str(self.name())?,
        }
        let parameters = self.parameters();
        for (i, parameter) in parameters.iter().enumerate() {
            f.write_str(if i == 0 { "(" } else { ", " })?;
            write!(f, "{parameter}")?;
        }
        if parameters.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

/// Types of a function's receiver, arguments and result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    pub member: bool,
    pub args: Vec<Type>,
    pub result: Type,
}

impl Signature {
    /// Parses a signature of a library's table: `string.(int) -> string`, `(list(A)) -> A`.
    pub fn parse(text: &str) -> Option<Signature> {
        let (args, result) = text.split_once(" -> ")?;
        let open = if args.starts_with('(') { 0 } else { args.find(".(")? };
        let (receiver, rest) = args.split_at(open);
        let list = rest.trim_start_matches('.').strip_prefix('(')?.strip_suffix(')')?;
        let mut types = Vec::new();
        if !receiver.is_empty() {
            types.push(parse_type(receiver)?);
        }
        for arg in split_arguments(list) {
            types.push(parse_type(arg)?);
        }
        Some(Signature { member: !receiver.is_empty(), args: types, result: parse_type(result)? })
    }

    /// Type parameters in order of first appearance.
    pub fn parameters(&self) -> Vec<char> {
        let mut found = Vec::new();
        for ty in self.args.iter().chain([&self.result]) {
            ty.rewrite(&mut |leaf| {
                if let Type::Param(name) = leaf
                    && !found.contains(name)
                {
                    found.push(*name);
                }
                None
            });
        }
        found
    }
}

fn parse_type(text: &str) -> Option<Type> {
    let text = text.trim();
    if let Some((name, args)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut args = split_arguments(args).map(parse_type);
        return match name {
            "list" => Some(Type::list(args.next()??)),
            "map" => Some(Type::map(args.next()??, args.next()??)),
            "type" => Some(Type::Type(Some(Arc::new(args.next()??)))),
            "optional" => Some(Type::optional(args.next()??)),
            _ => None,
        };
    }
    let simple = [
        Type::Dyn,
        Type::Any,
        Type::Null,
        Type::Bool,
        Type::Int,
        Type::Uint,
        Type::Double,
        Type::String,
        Type::Bytes,
        Type::Duration,
        Type::Timestamp,
    ];
    if let Some(known) = simple.into_iter().find(|ty| ty.to_string() == text) {
        return Some(known);
    }
    match text.as_bytes() {
        [letter @ b'A'..=b'Z'] => Some(Type::Param(char::from(*letter))),
        _ if text.starts_with("net.") => Some(Type::Opaque(text.into(), Arc::new([]))),
        _ if text.starts_with("kubernetes.") => Some(Type::object(text)),
        _ => None,
    }
}

/// Splits at commas outside of parentheses.
fn split_arguments(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
    .filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_print_as_they_are_written() {
        for text in [
            "string.(int) -> string",
            "(list(A), map(A, list(B))) -> type(B)",
            "() -> kubernetes.NamedFormat",
            "net.CIDR.(net.IP) -> bool",
        ] {
            let Signature { member, args, result } = Signature::parse(text).expect(text);
            let mut args: Vec<_> = args.iter().map(Type::to_string).collect();
            let receiver = if member { args.remove(0) + "." } else { String::new() };
            assert_eq!(format!("{receiver}({}) -> {result}", args.join(", ")), text);
        }
    }
}
