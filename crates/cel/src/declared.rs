//! Declared types: what fields an object has, and how large values of a type can be.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::parser::RESERVED;
use crate::types::Type;

pub use escape::{escape, unescape};

mod escape;
mod json_schema;
mod schema;

/// The largest request that is served, which bounds the size of everything in it.
pub const MAX_REQUEST_SIZE: u64 = 3 * 1024 * 1024;

/// A type that variables and fields are declared with.
///
/// Besides the [`Type`] that the checker sees it says how values are read out of an object, and how
/// large they can be (which estimates of cost need).
#[derive(Clone, Debug)]
pub struct DeclType {
    pub(crate) kind: DeclKind,
    /// The most characters, bytes, elements or entries; none if that is not known.
    pub(crate) max_elements: Option<u64>,
    /// The least number of bytes that a value takes in JSON.
    pub(crate) min_size: u64,
    pub(crate) nullable: bool,
    /// Of a map: whether a value that is selected as a field is as large as values are declared.
    entries_by_name: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum DeclKind {
    /// A type without anything declared inside.
    Simple(Type),
    /// A date without time, read as the timestamp at which it begins.
    Date,
    IntOrString,
    List {
        element: Arc<DeclType>,
        list: ListKind,
    },
    Map {
        key: Arc<DeclType>,
        value: Arc<DeclType>,
    },
    Object(Arc<ObjectType>),
}

/// When two lists are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    /// Elements are told apart by these fields.
    Map(Vec<String>),
}

/// An object type: its name and the types of its fields by escaped name.
#[derive(Clone, Debug)]
pub struct ObjectType {
    /// What it is called in messages.
    pub name: Arc<str>,
    pub(crate) fields: BTreeMap<Arc<str>, Arc<DeclType>>,
    /// Whether there may be any others.
    pub(crate) open: bool,
}

/// What a field is of which nothing is declared.
static UNDECLARED: LazyLock<Arc<DeclType>> = LazyLock::new(|| DeclType::simple(Type::Dyn).into());

impl ObjectType {
    /// The type of a field by its escaped name; a keyword may also stand for itself.
    pub fn field(&self, name: &str) -> Option<&Arc<DeclType>> {
        let keyword = || RESERVED.contains(&name).then(|| self.fields.get(&*format!("__{name}__")));
        let undeclared = || self.open.then(|| &*UNDECLARED);
        self.fields.get(name).or_else(|| keyword().flatten()).or_else(undeclared)
    }
}

impl DeclType {
    fn of(kind: DeclKind, min_size: u64) -> Self {
        DeclType { kind, max_elements: None, min_size, nullable: false, entries_by_name: false }
    }

    /// A type without anything declared inside: `int`, `dyn`, `kubernetes.Quantity`.
    pub fn simple(ty: Type) -> Self {
        let min_size = match ty {
            Type::Bool => 4,
            Type::String | Type::Bytes | Type::List(_) | Type::Map(_) => 2,
            Type::Duration => 3,
            Type::Timestamp => 12,
            Type::Null => 4,
            _ => 1,
        };
        DeclType::of(DeclKind::Simple(ty), min_size)
    }

    /// A string of any length.
    pub fn string() -> Self {
        DeclType::simple(Type::String)
    }

    /// A list of any length.
    pub fn list(element: DeclType) -> Self {
        DeclType::of(DeclKind::List { element: element.into(), list: ListKind::Atomic }, 2)
    }

    /// A map from strings.
    pub fn map(value: DeclType) -> Self {
        let key = Arc::new(DeclType::string());
        DeclType::of(DeclKind::Map { key, value: value.into() }, 2)
    }

    /// An object; names of fields are escaped here.
    pub fn object<'n>(name: &str, fields: impl IntoIterator<Item = (&'n str, DeclType)>) -> Self {
        let fields = fields
            .into_iter()
            .filter_map(|(name, ty)| Some((escape(name)?.into(), Arc::new(ty))))
            .collect();
        let object = ObjectType { name: name.into(), fields, open: false };
        DeclType::of(DeclKind::Object(Arc::new(object)), 2)
    }

    /// The same type, with a bound on its characters, bytes, elements or entries.
    pub fn with_max_elements(mut self, max: u64) -> Self {
        self.max_elements = Some(max);
        self
    }

    /// The same map, with a type of its keys.
    pub fn with_key(mut self, of: DeclType) -> Self {
        if let DeclKind::Map { key, .. } = &mut self.kind {
            *key = of.into();
        }
        self
    }

    /// The same map, whose values are as large as they are declared also where they are selected as
    /// fields: of `m.x`, estimates know as much as of `m['x']`.
    pub fn with_entries_by_name(mut self) -> Self {
        self.entries_by_name = true;
        self
    }

    /// The least number of bytes that a value takes in JSON.
    pub fn min_size(&self) -> u64 {
        self.min_size
    }

    /// The type as the checker knows it.
    pub fn to_type(&self) -> Type {
        match &self.kind {
            DeclKind::Simple(ty) => ty.clone(),
            DeclKind::Date => Type::Timestamp,
            DeclKind::IntOrString => Type::Dyn,
            DeclKind::List { element, .. } => Type::list(element.to_type()),
            DeclKind::Map { value, .. } => Type::map(Type::String, value.to_type()),
            DeclKind::Object(object) => Type::Object(object.name.clone()),
        }
    }

    /// The type at a path of the estimator's: fields, `@items`, `@values`, `@keys`.
    pub(crate) fn at(&self, step: &str) -> Option<&Arc<DeclType>> {
        match &self.kind {
            DeclKind::List { element, .. } if step == "@items" => Some(element),
            DeclKind::Map { value, .. } if step == "@values" => Some(value),
            DeclKind::Map { key, .. } if step == "@keys" => Some(key),
            DeclKind::Map { value, .. } if self.entries_by_name => Some(value),
            DeclKind::Object(object) => object.fields.get(step),
            _ => None,
        }
    }

    /// Visits the object types in it.
    pub(crate) fn for_each_object(&self, visit: &mut dyn FnMut(&Arc<ObjectType>)) {
        match &self.kind {
            DeclKind::List { element: inner, .. } | DeclKind::Map { value: inner, .. } => {
                inner.for_each_object(visit);
            }
            DeclKind::Object(object) => {
                visit(object);
                object.fields.values().for_each(|field| field.for_each_object(visit));
            }
            _ => {}
        }
    }
}
