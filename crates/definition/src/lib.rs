//! Format of the files in `api/`: one file per group and version, one line per fact.
//!
//! ```text
//! group apps/v1
//!
//! resource deployments Deployment namespaced singular=deployment short=deploy categories=all verbs=create,get
//! sub deployments/scale autoscaling.v1.Scale verbs=get,patch,update
//!
//! kind Deployment
//!   metadata  1  meta.v1.ObjectMeta
//!   spec      2  DeploymentSpec
//!
//! type DeploymentSpec
//!   replicas  1  *int32                   default=1
//!   selector  2  *meta.v1.LabelSelector   required
//! ```
//!
//! A field is its JSON name, its protobuf tag (`-` for none) and its type, then facts about it. Types are written as in
//! Go: `*` is a pointer (absent and zero differ), `[]` a list, `map[string]` a map; a type of another file has that
//! file's name before it. `kind` is a type with `kind` and `apiVersion` of its own. A field named `-` is inlined: its
//! fields are among its struct's own. The README in `api/` lists the facts.

mod parse;
mod print;

pub use parse::{ParseError, parse, parse_overlay};
pub use print::print;

/// A group and version: one file of `api/`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// File name without its extension: `apps.v1`.
    pub stem: String,
    /// API group; empty for the core group.
    pub group: String,
    /// The version in the group.
    pub version: String,
    /// Facts: `stage=alpha|beta`, `off` (served only on request), `spoken` (never served).
    pub facts: Facts,
    /// Served resources, in order.
    pub resources: Vec<Resource>,
    /// The types, in order.
    pub types: Vec<TypeDef>,
}

/// A served resource, or a subresource of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// Path, such as `deployments` or `deployments/scale`.
    pub path: String,
    /// Kind of the body, as a type name.
    pub kind: String,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// Facts about the struct.
    pub facts: Facts,
}

/// A struct type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeDef {
    /// Name of the type.
    pub name: String,
    /// Whether it is a top-level kind.
    pub kind: bool,
    /// Facts about it.
    pub facts: Facts,
    /// Fields, in order.
    pub fields: Vec<FieldDef>,
}

/// A field of a struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldDef {
    /// JSON name; `-` for an inlined struct.
    pub name: String,
    /// Protobuf tag; 0 for none.
    pub tag: u16,
    /// Type of the field.
    pub ty: TypeExpr,
    /// Facts about it.
    pub facts: Facts,
}

/// Type expression of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TypeExpr {
    /// `*T`: absent and zero differ.
    Pointer(Box<TypeExpr>),
    /// `[]T`
    List(Box<TypeExpr>),
    /// `map[string]T`
    Map(Box<TypeExpr>),
    /// A scalar, or a type by its name.
    Name(String),
}

impl Default for TypeExpr {
    fn default() -> Self {
        TypeExpr::Name(String::new())
    }
}

impl std::fmt::Display for TypeExpr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TypeExpr::Pointer(to) => write!(f, "*{to}"),
            TypeExpr::List(of) => write!(f, "[]{of}"),
            TypeExpr::Map(of) => write!(f, "map[string]{of}"),
            TypeExpr::Name(name) => f.write_str(name),
        }
    }
}

impl std::str::FromStr for TypeExpr {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let inner = |s: &str| Ok::<_, String>(Box::new(s.parse::<TypeExpr>()?));
        if let Some(rest) = s.strip_prefix('*') {
            Ok(TypeExpr::Pointer(inner(rest)?))
        } else if let Some(rest) = s.strip_prefix("[]") {
            Ok(TypeExpr::List(inner(rest)?))
        } else if let Some(rest) = s.strip_prefix("map[string]") {
            Ok(TypeExpr::Map(inner(rest)?))
        } else if !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '.') {
            Ok(TypeExpr::Name(s.to_owned()))
        } else {
            Err(format!("{s:?} is not a type"))
        }
    }
}

/// Facts after a definition: bare words, and `key=value` where the value is a word or JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(pub Vec<(String, Option<String>)>);

impl Facts {
    /// Whether a fact is present.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    /// The value of a fact.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key)?.1.as_deref()
    }

    /// The comma-separated words of a fact.
    pub fn list(&self, key: &str) -> impl Iterator<Item = &str> {
        self.get(key).into_iter().flat_map(|value| value.split(','))
    }

    /// Sets a fact, replacing an earlier value.
    pub fn set(&mut self, key: &str, value: Option<&str>) {
        self.remove(key);
        self.0.push((key.to_owned(), value.map(str::to_owned)));
    }

    /// Removes a fact.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(k, _)| k != key);
    }
}
