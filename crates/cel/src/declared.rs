//! Declared types: the fields of objects, and the largest sizes of values (upstream: DeclType).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::parser::RESERVED;
use crate::types::Type;

pub use escape::{escape, unescape};

mod escape;
mod json_schema;
mod schema;

/// Largest request that is served, which bounds the size of everything in it.
pub const MAX_REQUEST_SIZE: u64 = 3 * 1024 * 1024;

/// Type with which variables and fields are declared.
///
/// In addition to the [`Type`] of the checker it describes how values are read from an object, and how large they can
/// be, for cost estimates.
#[derive(Clone, Debug)]
pub struct DeclType {
    pub(crate) kind: DeclKind,
    /// Maximum number of characters, bytes, elements or entries; `None` if unknown.
    pub(crate) max_elements: Option<u64>,
    /// Minimum number of bytes of a value in JSON.
    pub(crate) min_size: u64,
    pub(crate) nullable: bool,
    /// For a map: whether a value selected as a field has the declared size of the map's values.
    entries_by_name: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum DeclKind {
    /// Type without inner declarations.
    Simple(Type),
    /// Date without time, read as the timestamp at which it begins.
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

/// Equality of lists (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    /// Elements are identified by these fields.
    Map(Vec<String>),
}

/// Object type: name, and types of the fields by escaped name.
#[derive(Clone, Debug)]
pub struct ObjectType {
    /// Name in messages.
    pub name: Arc<str>,
    pub(crate) fields: BTreeMap<Arc<str>, Arc<DeclType>>,
    /// Whether undeclared fields are allowed.
    pub(crate) open: bool,
}

/// Type of an undeclared field.
static UNDECLARED: LazyLock<Arc<DeclType>> = LazyLock::new(|| DeclType::simple(Type::Dyn).into());

impl ObjectType {
    /// Type of a field by its escaped name; a keyword may also be used unescaped.
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

    /// Type without inner declarations: `int`, `dyn`, `kubernetes.Quantity`.
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

    /// String of any length.
    pub fn string() -> Self {
        DeclType::simple(Type::String)
    }

    /// List of any length.
    pub fn list(element: DeclType) -> Self {
        DeclType::of(DeclKind::List { element: element.into(), list: ListKind::Atomic }, 2)
    }

    /// Map with string keys.
    pub fn map(value: DeclType) -> Self {
        let key = Arc::new(DeclType::string());
        DeclType::of(DeclKind::Map { key, value: value.into() }, 2)
    }

    /// Object type; escapes the names of fields.
    pub fn object<'n>(name: &str, fields: impl IntoIterator<Item = (&'n str, DeclType)>) -> Self {
        let fields = fields
            .into_iter()
            .filter_map(|(name, ty)| Some((escape(name)?.into(), Arc::new(ty))))
            .collect();
        let object = ObjectType { name: name.into(), fields, open: false };
        DeclType::of(DeclKind::Object(Arc::new(object)), 2)
    }

    /// Sets the maximum number of characters, bytes, elements or entries.
    pub fn with_max_elements(mut self, max: u64) -> Self {
        self.max_elements = Some(max);
        self
    }

    /// Sets the key type of a map.
    pub fn with_key(mut self, of: DeclType) -> Self {
        if let DeclKind::Map { key, .. } = &mut self.kind {
            *key = of.into();
        }
        self
    }

    /// Gives values of a map their declared size also when they are selected as fields: `m.x` is estimated like
    /// `m['x']`.
    pub fn with_entries_by_name(mut self) -> Self {
        self.entries_by_name = true;
        self
    }

    /// Minimum number of bytes of a value in JSON.
    pub fn min_size(&self) -> u64 {
        self.min_size
    }

    /// Type for the checker.
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

    /// Type at a step of an estimator's path: a field, `@items`, `@values`, `@keys`.
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

    /// Visits the object types inside the type.
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
