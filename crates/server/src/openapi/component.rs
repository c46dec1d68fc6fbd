//! OpenAPI schemas of types, below `components/schemas`.

use std::collections::BTreeMap;

use kevel_api::builtin;
use kevel_api::schema::{Constant, Field, List, Scalar, Schema, StructFlags, Table, Type};
use kevel_api::value::{Map, Value};
use kevel_openapi_text::Texts;

use super::descriptions::with_values;
use super::naming::{RENAMED, defined_name, full_name, is_built_in, scalar_name};
use super::tree::{bare, group_version_kind, list, object, strings};
use super::{descriptions, facts};
use kevel_registry::resource::Resource;
use kevel_registry::type_ref::TypeRef;

/// Prefix of references to schemas.
pub(super) const PREFIX: &str = "#/components/schemas/";

/// A schema with a name of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Component<'r> {
    BuiltIn(Schema<'static>),
    Scalar(Scalar),
    /// Kind of a custom resource.
    Defined(&'r Resource),
    /// List of a custom resource.
    DefinedList(&'r Resource),
    /// A patch of any type.
    Patch,
    /// Response of `/version`.
    Version,
}

impl<'r> Component<'r> {
    /// Kind of a resource.
    pub fn of(resource: &'r Resource) -> Self {
        match &resource.ty {
            TypeRef::BuiltIn(schema) => Component::BuiltIn(*schema),
            TypeRef::Custom(..) => Component::Defined(resource),
        }
    }

    /// List kind of a resource.
    pub fn list_of(resource: &'r Resource) -> Option<Self> {
        let Resource { kind, list_kind, .. } = resource;
        match &resource.ty {
            TypeRef::Custom(..) => Some(Component::DefinedList(resource)),
            TypeRef::BuiltIn(_) => {
                builtin::schema(&kind.group, &kind.version, list_kind).map(Component::BuiltIn)
            }
        }
    }

    /// `io.k8s.api.core.v1.Pod`
    pub fn name(self) -> String {
        match self {
            Component::BuiltIn(schema) => full_name(builtin::type_name(schema.id())),
            Component::Scalar(scalar) => scalar_name(scalar).unwrap_or_default().to_owned(),
            Component::Defined(row) => defined_name(row, &row.kind.kind),
            Component::DefinedList(row) => defined_name(row, &row.list_kind),
            Component::Patch => full_name("meta.v1.Patch"),
            Component::Version => "io.k8s.apimachinery.pkg.version.Info".to_owned(),
        }
    }
}

/// Converts components into schemas and collects the components that they refer to.
pub(super) struct Components<'r> {
    texts: &'r Texts,
    /// Group and version of the document; `None` for the OpenAPI 2 document of all groups.
    home: Option<(&'r str, &'r str)>,
    /// Leaves out the values of enumerations.
    without_enums: bool,
    found: BTreeMap<String, Component<'r>>,
    /// Components not written yet.
    waiting: Vec<Component<'r>>,
}

impl<'r> Components<'r> {
    pub fn new(texts: &'r Texts, home: Option<(&'r str, &'r str)>, without_enums: bool) -> Self {
        Components { texts, home, without_enums, found: BTreeMap::new(), waiting: Vec::new() }
    }

    /// Whether the document is OpenAPI 2, which covers all groups.
    pub fn is_v2(&self) -> bool {
        self.home.is_none()
    }

    /// Sets the description of a built-in type's field.
    pub fn describe_as(&self, schema: &mut Map, ty: &str, field: &str) {
        describe(schema, self.texts.of_field(ty, field));
    }

    /// Sets the description of a type, ours if it has none.
    fn describe_type(&self, schema: &mut Map, name: &str) {
        match self.texts.of_type(name) {
            Some(text) => describe(schema, Some(text)),
            None => describe(schema, descriptions::of_type(name).as_deref()),
        }
    }

    /// A reference to a component, which is thereby added to the document.
    pub fn reference(&mut self, component: Component<'r>) -> Value {
        let name = self.name(component);
        let reference = format!("{PREFIX}{name}");
        if let std::collections::btree_map::Entry::Vacant(entry) = self.found.entry(name) {
            entry.insert(component);
            self.waiting.push(component);
        }
        object([("$ref", reference.as_str().into())])
    }

    /// Name of a component in the document. In the document of all groups a custom kind leaves its name to a built-in
    /// type that has the same one.
    fn name(&self, component: Component<'r>) -> String {
        let name = component.name();
        let custom = matches!(component, Component::Defined(_) | Component::DefinedList(_));
        if custom && self.is_v2() && is_built_in(&name) { name + RENAMED } else { name }
    }

    /// Writes all components that were referred to, sorted by name.
    pub fn write(mut self, mut write: impl FnMut(&str, Value)) {
        // The set is complete only after all have been visited.
        while let Some(component) = self.waiting.pop() {
            self.schema(component);
        }
        for (name, component) in self.found.clone() {
            write(&name, self.schema(component));
        }
    }

    fn schema(&mut self, component: Component<'r>) -> Value {
        match component {
            Component::BuiltIn(schema) => self.built_in(schema),
            Component::Scalar(scalar) => {
                let mut schema = named_scalar(scalar);
                let name = component.name();
                describe(&mut schema, self.texts.of_type(&name));
                Value::Map(schema)
            }
            Component::Defined(row) => self.defined(row),
            Component::DefinedList(row) => self.defined_list(row),
            Component::Patch => {
                let mut schema = Map::from_iter([("type", "object".into())]);
                self.describe_type(&mut schema, &component.name());
                Value::Map(schema)
            }
            Component::Version => {
                let mut info = facts::version_info();
                let name = component.name();
                let fields = info.at_mut(&["properties"]).and_then(Value::as_map_mut);
                for (field, schema) in fields.into_iter().flat_map(Map::iter_mut) {
                    if let Some(schema) = schema.as_map_mut() {
                        describe(schema, self.texts.of_field(&name, field));
                    }
                }
                info
            }
        }
    }

    fn built_in(&mut self, schema: Schema<'static>) -> Value {
        let name = builtin::type_name(schema.id());
        // The type as defined, without the changes of a field.
        let schema = builtin::defined(name);
        let name = full_name(name);
        let mut out = Map::new();
        self.describe_type(&mut out, &name);
        // A union's JSON form cannot be expressed by such a schema.
        let Some(fields) = schema.as_struct() else { return Value::Map(out) };
        out.insert("type", "object".into());
        let is_list = fields.field("items").is_some()
            && fields
                .field("metadata")
                .is_some_and(|field| builtin::type_name(field.schema().id()) == "meta.v1.ListMeta");
        let mut properties = Map::new();
        for field in fields.fields() {
            let mut property = self.property(&name, field, is_list);
            let told = self.texts.of_field(&name, field.name());
            let own =
                descriptions::of_type(&name).and_then(|_| descriptions::of_field(field.name()));
            let text = with_values(told.or(own).unwrap_or_default(), &property);
            describe(&mut property, Some(&*text).filter(|text| !text.is_empty()));
            properties.insert(field.key(), Value::Map(bare(property)));
        }
        let mut required: Vec<Field<'_>> = fields.fields().filter(|f| f.required()).collect();
        required.sort_by_key(|field| field.rank());
        put(&mut out, "properties", Value::Map(properties));
        put(&mut out, "required", strings(required.iter().map(|field| field.name())));
        if fields.flags().has(StructFlags::ATOMIC) && base(schema) {
            out.insert("x-kubernetes-map-type", "atomic".into());
        }
        if let Some(union) = facts::union(builtin::type_name(schema.id())) {
            out.insert("x-kubernetes-unions", union);
        }
        put(&mut out, "x-kubernetes-group-version-kind", self.kinds(schema));
        Value::Map(out)
    }

    /// Schema of a field, without its description.
    fn property(&mut self, of: &str, field: Field<'static>, of_list: bool) -> Map {
        let schema = field.schema();
        let name = (of, field.name());
        let mut default = match zero(schema) {
            Some(zero) if matches!(zero, Value::Map(_)) && !field.pointer() => Some(zero),
            Some(zero) if field.always() && !field.pointer() => Some(zero),
            _ => None,
        };
        if facts::declares_default(name) {
            let declared = field.default().map(|entry| constant(schema.table(), entry.value));
            default = declared.or_else(|| zero(schema));
        }
        let mut out = self.typed(schema, default);
        if let Type::List { list: List::Atomic, .. } = schema.ty()
            && of_list
            && field.name() == "items"
        {
            out.remove("x-kubernetes-list-type");
        }
        if facts::atomic_bytes(name) {
            out.insert("x-kubernetes-list-type", "atomic".into());
        }
        if schema.as_struct().is_some_and(|s| s.flags().has(StructFlags::ATOMIC)) && !base(schema) {
            out.insert("x-kubernetes-map-type", "atomic".into());
        }
        if facts::granular(name) {
            out.insert("x-kubernetes-map-type", "granular".into());
        }
        if let Some(merge) = field.merge() {
            let strategies = [(merge.merge, "merge"), (merge.retain_keys, "retainKeys")];
            let strategies: Vec<&str> =
                strategies.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
            let strategies = strategies.join(",");
            let strategy = if strategies.is_empty() { "replace" } else { &strategies };
            put(&mut out, "x-kubernetes-patch-strategy", strategy.into());
            let key = schema.table().str(merge.key);
            put(&mut out, "x-kubernetes-patch-merge-key", key.into());
        }
        if self.without_enums {
            return out;
        }
        let mut values: Vec<&str> = field.values().collect();
        values.sort_unstable();
        let of_text = |schema: Schema<'_>| schema.scalar() == Some(Scalar::String);
        if of_text(schema) {
            put(&mut out, "enum", strings(values));
        } else if schema.item().is_some_and(of_text)
            && let Some(items) = out.get_mut("items").and_then(Value::as_map_mut)
        {
            put(items, "enum", strings(values));
        }
        out
    }

    /// Schema of a type where it is used.
    fn typed(&mut self, schema: Schema<'static>, default: Option<Value>) -> Map {
        let mut out = match schema.ty() {
            Type::Struct(_) | Type::Union { .. } => {
                return referring(self.reference(Component::BuiltIn(schema)), default);
            }
            Type::Scalar(scalar) if scalar_name(*scalar).is_some() => {
                return referring(self.reference(Component::Scalar(*scalar)), default);
            }
            Type::Scalar(scalar) => plain_scalar(*scalar),
            Type::List { item, list, message } => {
                let item = schema.other(*item);
                let mut out = Map::from_iter([
                    ("type", "array".into()),
                    ("items", Value::Map(bare(self.typed(item, zero(item))))),
                ]);
                if !message {
                    list_type(&mut out, schema, *list);
                }
                out
            }
            Type::Map { value, atomic } => {
                let value = schema.other(*value);
                let mut out = Map::from_iter([
                    ("type", "object".into()),
                    ("additionalProperties", Value::Map(bare(self.typed(value, zero(value))))),
                ]);
                if *atomic {
                    out.insert("x-kubernetes-map-type", "atomic".into());
                }
                out
            }
            Type::Any => Map::new(),
        };
        if let Some(default) = default {
            out.insert("default", default);
        }
        out
    }

    /// `x-kubernetes-group-version-kind` of a type. Options kinds exist in all groups and versions: a document of a
    /// built-in group names the core one and its own.
    fn kinds(&self, schema: Schema<'static>) -> Value {
        if let Some(kind) = facts::cross_registered(builtin::type_name(schema.id()))
            && let Some(versions) = self.all_versions()
        {
            return list(versions.map(|(group, version)| group_version_kind(group, version, kind)));
        }
        let all = builtin::kinds().iter().filter(|kind| kind.schema() == schema);
        let spoken: Vec<_> = all.filter(|kind| facts::speaks(kind.group)).collect();
        let alone = spoken.len() == 1;
        let named = spoken.into_iter().filter(|kind| {
            let at = (kind.group, kind.version);
            alone || at == ("", "v1") || self.home.is_none_or(|home| home == at)
        });
        list(named.map(|kind| group_version_kind(kind.group, kind.version, kind.name)))
    }

    /// All groups and versions, for documents that list them: the one of all groups, and those of custom resources,
    /// which the reference builds from the client's scheme.
    fn all_versions(&self) -> Option<impl Iterator<Item = (&'static str, &'static str)>> {
        let custom = match self.home {
            None => false,
            Some((group, _)) if builtin::kinds().iter().any(|kind| kind.group == group) => {
                return None;
            }
            Some(_) => true,
        };
        Some(facts::versions().filter(move |(group, _)| !custom || facts::clients_know(group)))
    }
}

/// A reference in `allOf`, since a bare reference allows no other keywords.
pub(super) fn referring(reference: Value, default: Option<Value>) -> Map {
    let mut out = Map::from_iter([("allOf", list([reference]))]);
    if let Some(default) = default {
        out.insert("default", default);
    }
    out
}

pub(super) fn list_type(out: &mut Map, schema: Schema<'_>, list: List) {
    let name = match list {
        List::Atomic => "atomic",
        List::Set => "set",
        List::Map(_) => "map",
    };
    out.insert("x-kubernetes-list-type", name.into());
    if let Some(keys) = schema.list_keys() {
        out.insert("x-kubernetes-list-map-keys", strings(keys));
    }
}

/// Zero value of a type: the default of elements, and of fields that are always present.
fn zero(schema: Schema<'_>) -> Option<Value> {
    match schema.ty() {
        Type::Struct(_) => Some(Value::Map(Map::new())),
        Type::Scalar(Scalar::String | Scalar::Duration) => Some("".into()),
        Type::Scalar(Scalar::Bool) => Some(false.into()),
        Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Double) => Some(0.into()),
        _ => None,
    }
}

pub(super) fn plain_scalar(scalar: Scalar) -> Map {
    let (name, format) = match scalar {
        Scalar::Bool => ("boolean", ""),
        Scalar::Int32 => ("integer", "int32"),
        Scalar::Int64 => ("integer", "int64"),
        Scalar::Integer => ("integer", ""),
        Scalar::Double => ("number", "double"),
        Scalar::Number => ("number", ""),
        Scalar::Bytes => ("string", "byte"),
        _ => ("string", ""),
    };
    let mut out = Map::from_iter([("type", name.into())]);
    put(&mut out, "format", format.into());
    out
}

fn named_scalar(scalar: Scalar) -> Map {
    let ty = |name: &str| object([("type", name.into())]);
    match scalar {
        Scalar::Time | Scalar::MicroTime => {
            Map::from_iter([("type", "string".into()), ("format", "date-time".into())])
        }
        Scalar::Quantity => Map::from_iter([("oneOf", list([ty("string"), ty("number")]))]),
        Scalar::IntOrString => Map::from_iter([
            ("format", "int-or-string".into()),
            ("oneOf", list([ty("integer"), ty("string")])),
        ]),
        Scalar::Json => Map::new(),
        _ => Map::from_iter([("type", "object".into())]),
    }
}

pub(super) fn constant(table: &Table, value: Constant) -> Value {
    match value {
        Constant::Bool(value) => value.into(),
        Constant::Int(value) => value.into(),
        Constant::Str(text) => table.str(text).into(),
        Constant::EmptyMap => Value::Map(Map::new()),
        Constant::EmptyList => list([]),
        Constant::Json(text) => Value::Raw(table.str(text).into()),
        Constant::Value(index) => table.values.get(index as usize).cloned().unwrap_or_default(),
        Constant::Sibling(_) | Constant::Rule(_) => Value::Null,
    }
}

/// Whether this is the type as defined, not a field's variant of it.
fn base(schema: Schema<'static>) -> bool {
    let name = builtin::type_name(schema.id());
    // Types are numbered in the order of definitions, before the variants of fields.
    !(0..schema.id()).rev().any(|id| builtin::type_name(id) == name)
}

fn describe(schema: &mut Map, text: Option<&str>) {
    if let Some(text) = text {
        schema.insert("description", text.into());
    }
}

pub(super) fn put(map: &mut Map, key: &'static str, value: Value) {
    if !value.is_empty() {
        map.insert(key, value);
    }
}
