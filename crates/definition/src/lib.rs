//! The format of `api/`: one file per group and version, one line per fact.
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
//! A field is its JSON name, its protobuf tag (`-` for none) and its type, then facts about it.
//! Types read as in Go: `*` is a pointer (absent and zero differ), `[]` a list, `map[string]` a map;
//! a type of another file has that file's name before it. `kind` is a type with `kind` and
//! `apiVersion` of its own. A field named `-` is inlined: its fields stand among its struct's own.
//! The README in `api/` lists the facts.

mod parse;
mod print;

pub use parse::{ParseError, parse, parse_overlay};
pub use print::print;

/// A group and version: one file of `api/`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// The file's name without its ending: `apps.v1`.
    pub stem: String,
    /// Empty for the core group.
    pub group: String,
    /// The version in the group.
    pub version: String,
    /// `stage=alpha|beta`, `off` (served only when asked for), `spoken` (never served).
    pub facts: Facts,
    /// What is served, in order.
    pub resources: Vec<Resource>,
    /// The types, in order.
    pub types: Vec<TypeDef>,
}

/// A served resource, or a subresource of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// `deployments`, `deployments/scale`.
    pub path: String,
    /// The kind it speaks, as a type name.
    pub kind: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What else is said about it.
    pub facts: Facts,
}

/// A struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeDef {
    /// The name of the type.
    pub name: String,
    /// Whether it stands at the top of a document, with a kind of its own.
    pub kind: bool,
    /// What else is said about it.
    pub facts: Facts,
    /// Its fields, in order.
    pub fields: Vec<FieldDef>,
}

/// A field of a struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldDef {
    /// `-` for an inlined struct.
    pub name: String,
    /// 0 for none.
    pub tag: u16,
    /// What it holds.
    pub ty: TypeExpr,
    /// What else is said about it.
    pub facts: Facts,
}

/// A type as a field names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TypeExpr {
    /// `*T`: absent and zero differ.
    Pointer(Box<TypeExpr>),
    /// `[]T`
    List(Box<TypeExpr>),
    /// `map[string]T`
    Map(Box<TypeExpr>),
    /// A leaf, or a type by its name.
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
    /// Whether a fact is there.
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

    /// Sets a fact, in the place that it has already.
    pub fn set(&mut self, key: &str, value: Option<&str>) {
        self.remove(key);
        self.0.push((key.to_owned(), value.map(str::to_owned)));
    }

    /// Takes a fact out.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(k, _)| k != key);
    }
}
