//! Schemas: types as data, for all code that decodes, validates, defaults, merges or encodes objects.
//!
//! A [`Table`] is an arena of types that refer to each other by index. The built-in kinds are one table, generated at
//! build time from `api/` and placed in read-only memory: no pointers (so nothing to relocate), no parsing, no
//! allocation at start. A custom resource's OpenAPI schema becomes a table of its own. A [`Schema`] is a copyable
//! handle on one type of a table; all generic code takes it.

use std::borrow::Cow;
use std::cmp::Ordering;

use compact_str::CompactString;

use crate::value::Value;

pub use field_name::FieldName;
pub use internal::InternalField;
pub use place::Place;

mod equality;
mod field_name;
mod internal;
mod place;
mod written;

/// Index into [`Table::types`]. With [`BUILTIN`] set it is an index into the built-in table, by which custom resources
/// refer to `ObjectMeta`.
pub type TypeId = u32;

/// See [`TypeId`].
pub const BUILTIN: TypeId = 1 << 31;

/// An arena of types.
#[derive(Debug)]
pub struct Table {
    /// All types, indexed by [`TypeId`].
    pub types: Cow<'static, [Type]>,
    /// Fields of all structs, one struct after the other.
    pub fields: Cow<'static, [FieldEntry]>,
    /// Protobuf members of all structs, one struct after the other.
    pub members: Cow<'static, [Member]>,
    /// Defaults of fields.
    pub defaults: Cow<'static, [DefaultEntry]>,
    /// Strategic merge facts of fields.
    pub merges: Cow<'static, [MergeEntry]>,
    /// Lists of strings: enum values, list map keys.
    pub names: Cow<'static, [Str]>,
    /// Facts about elements of a custom resource's lists and maps, sorted by type.
    pub elements: Cow<'static, [ElementEntry]>,
    /// Declared types of embedded resources' metadata, sorted by the resources' types.
    pub metadata: Cow<'static, [MetadataEntry]>,
    /// Defaults of a custom resource: see [`Constant::Value`].
    pub values: Cow<'static, [Value]>,
    /// Names of built-in fields, as map keys.
    pub keys: Cow<'static, [CompactString]>,
    /// All strings. Names of built-in fields stand in it as in JSON, `,"name":`.
    pub text: Cow<'static, str>,
}

/// A string: offset and length in [`Table::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Str(pub u32, pub u16);

/// A range of entries in one of a table's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub u32, pub u16);

impl Span {
    fn of<T>(self, all: &[T]) -> &[T] {
        let start = self.0 as usize;
        all.get(start..start + self.1 as usize).unwrap_or_default()
    }
}

/// One type of a table.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// An object with known fields.
    Struct(Struct),
    /// A list. With `message`, its protobuf form is a message that holds the items as member 1 (`ExtraValue`).
    List {
        /// Type of the items.
        item: TypeId,
        /// Merge and ownership of the list.
        list: List,
        /// Whether protobuf has a message around it.
        message: bool,
    },
    /// An object with any keys.
    Map {
        /// Type of the values.
        value: TypeId,
        /// Whether it is owned as one value.
        atomic: bool,
    },
    /// A scalar.
    Scalar(Scalar),
    /// An object or another value, distinguished by the JSON form, such as `JSONSchemaPropsOrBool`. In protobuf a
    /// message with one member for each.
    Union {
        /// Type if it is an object.
        object: Choice,
        /// Type if it is not.
        other: Choice,
    },
    /// Any value, kept as a tree: `x-kubernetes-preserve-unknown-fields` without a type.
    Any,
}

/// One form of a union: its protobuf tag and its type.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Protobuf tag.
    pub tag: u16,
    /// Type.
    pub ty: TypeId,
}

/// An object with named fields.
#[derive(Clone, Copy, Debug)]
pub struct Struct {
    /// Name, such as `DeploymentSpec`; empty for inner objects of a custom resource.
    pub name: Str,
    /// Name of the Go package as Go's errors print it: `v1`.
    pub package: Str,
    /// JSON fields, with those of inlined structs, sorted by name. A built-in struct has [`MAX_FIELDS`] at most.
    pub fields: Span,
    /// Protobuf members, sorted by tag.
    pub members: Span,
    /// Fields of the internal form, if they are not the fields in order: see [`StructSchema::internal_fields`].
    pub internal: Span,
    /// Further facts.
    pub flags: StructFlags,
}

/// Limit on the fields of a built-in struct, so that a set of them is one number.
pub const MAX_FIELDS: usize = u64::BITS as usize;

/// Set of facts about a struct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StructFlags(pub u8);

impl StructFlags {
    /// Applied and owned as one value.
    pub const ATOMIC: u8 = 1;
    /// Fields that the schema does not name are kept.
    pub const PRESERVE_UNKNOWN: u8 = 2;
    /// The struct is an object with apiVersion, kind and metadata of its own.
    pub const EMBEDDED: u8 = 4;
    /// A default is in it or below it.
    pub const DEFAULTS: u8 = 8;
    /// The struct has no internal form: the reference has one struct for all versions.
    pub const EXTERNAL: u8 = 16;
    /// A raw document ([`Scalar::Raw`]) is in it or below it.
    pub const DOCUMENTS: u8 = 32;

    /// Whether a flag is set.
    pub fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
}

/// Merge and ownership of a list (`x-kubernetes-list-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Owned and replaced as a whole.
    Atomic,
    /// Unique values, each owned by itself.
    Set,
    /// Elements are identified by these fields.
    Map(Span),
}

/// Scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// String.
    String,
    /// Boolean.
    Bool,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// A floating point number.
    Double,
    /// Base64 in JSON.
    Bytes,
    /// RFC 3339 to the second.
    Time,
    /// RFC 3339 to the microsecond.
    MicroTime,
    /// Go's duration syntax.
    Duration,
    /// An amount, such as `100m` or `1Gi`.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// An embedded document, kept as text: `runtime.RawExtension`.
    Raw,
    /// An embedded document of the type `apiextensions.JSON` (`null` is a value).
    Json,
    /// An embedded document of the type `FieldsV1`, in `managedFields`.
    FieldsV1,
    /// A number or integer without a format in a custom resource.
    Number,
    /// An integer without a size in a custom resource.
    Integer,
}

impl Scalar {
    /// Whether it is a struct in Go, which is never "empty" there.
    pub fn is_go_struct(self) -> bool {
        matches!(
            self,
            Scalar::Time
                | Scalar::MicroTime
                | Scalar::Duration
                | Scalar::Quantity
                | Scalar::IntOrString
                | Scalar::Raw
                | Scalar::Json
                | Scalar::FieldsV1
        )
    }
}

/// Table entry of a JSON field.
#[derive(Clone, Copy, Debug)]
pub struct FieldEntry {
    /// First bytes of the name: see [`FieldName::head`].
    pub head: u64,
    /// The name in JSON.
    pub name: Str,
    /// Go type as Go's errors print it, if it does not follow from the type.
    pub go: Str,
    /// Type.
    pub ty: TypeId,
    /// Position in the JSON that the reference writes.
    pub rank: u16,
    /// Further facts.
    pub flags: FieldFlags,
    /// Defaults: index plus one, 0 for none.
    pub default: u16,
    /// Merge facts: index plus one, 0 for none.
    pub merge: u16,
    /// Allowed values.
    pub values: Span,
    /// Index of the name in [`Table::keys`].
    pub key: u16,
    /// Go name, if it does not follow from the JSON name: index in [`Table::names`] plus one, 0 for none.
    pub go_name: u16,
}

/// Set of facts about a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldFlags(pub u16);

impl FieldFlags {
    /// A Go pointer: absent and zero differ.
    pub const POINTER: u16 = 1;
    /// Written even when empty (no `omitempty`).
    pub const ALWAYS: u16 = 2;
    /// The field is required.
    pub const REQUIRED: u16 = 4;
    /// The field is deprecated.
    pub const DEPRECATED: u16 = 8;
    /// `null` is an allowed value.
    pub const NULLABLE: u16 = 16;
    /// A struct that is left out when zero (`omitzero`).
    pub const OMIT_ZERO: u16 = 32;
    /// `kind` and `apiVersion` of a top-level object: not part of its protobuf message.
    pub const TYPE_META: u16 = 64;
    /// A default is below it.
    pub const DEFAULTS_BELOW: u16 = 256;
    /// A built-in field that is written although it is absent: where its tag says so, and if it is a struct in Go,
    /// which is never "empty" there.
    pub const WRITTEN_EMPTY: u16 = 512;
    /// A pointer here, but not in the internal form.
    pub const DIRECT: u16 = 1024;

    /// Whether a flag is set.
    pub fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

/// A protobuf member of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Protobuf tag.
    pub tag: u16,
    /// Content of the member.
    pub role: Role,
}

/// Content of a protobuf member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The JSON field at this position of the struct's fields.
    Field(u16),
    /// A struct whose JSON fields are inlined.
    Inline(TypeId),
}

/// Default of a field.
#[derive(Clone, Copy, Debug)]
pub struct DefaultEntry {
    /// Default value.
    pub value: Constant,
    /// Condition: a sibling field has this value.
    pub when: Option<(Str, Str)>,
}

/// A value in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// Boolean.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// String.
    Str(Str),
    /// `{}`
    EmptyMap,
    /// `[]`
    EmptyList,
    /// A JSON document.
    Json(Str),
    /// A tree: an index into [`Table::values`].
    Value(u32),
    /// The value of a sibling field.
    Sibling(Str),
    /// A rule of the kind's own, by name.
    Rule(Str),
}

/// Facts about the elements of a list or map of a custom resource.
#[derive(Clone, Copy, Debug)]
pub struct ElementEntry {
    /// The list or map.
    pub of: TypeId,
    /// Whether elements may be `null`.
    pub nullable: bool,
    /// Default that replaces `null`: index plus one, 0 for none.
    pub default: u16,
}

/// Defaults that a custom resource declares inside of an embedded resource's metadata, whose type is built-in.
#[derive(Clone, Copy, Debug)]
pub struct MetadataEntry {
    /// The embedded resource.
    pub of: TypeId,
    /// Declared type of its metadata, by which the metadata is defaulted.
    pub ty: TypeId,
}

/// Strategic merge facts of a field.
#[derive(Clone, Copy, Debug)]
pub struct MergeEntry {
    /// Whether lists and maps are merged, not replaced.
    pub merge: bool,
    /// Whether keys that a patch does not name are dropped (`retainKeys`).
    pub retain_keys: bool,
    /// Merge key of a list.
    pub key: Str,
}

/// A handle on one type.
#[derive(Clone, Copy)]
pub struct Schema<'t> {
    table: &'t Table,
    id: TypeId,
}

impl std::fmt::Debug for Schema<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Schema({}, {:?})", self.id, self.ty())
    }
}

impl PartialEq for Schema<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && std::ptr::eq(self.table, other.table)
    }
}

static ANY: Type = Type::Any;

impl<'t> Schema<'t> {
    /// Type by its index in a table.
    pub const fn new(table: &'t Table, id: TypeId) -> Self {
        if id & BUILTIN != 0 {
            Schema { table: crate::builtin::table(), id: id & !BUILTIN }
        } else {
            Schema { table, id }
        }
    }

    /// Index in the table.
    pub fn id(self) -> TypeId {
        self.id
    }

    /// Table of the type.
    pub fn table(self) -> &'t Table {
        self.table
    }

    /// The type itself.
    pub fn ty(self) -> &'t Type {
        self.table.types.get(self.id as usize).unwrap_or(&ANY)
    }

    /// Whether it is a type of a custom resource, built at run time.
    #[inline]
    pub fn is_custom(self) -> bool {
        matches!(self.table.text, Cow::Owned(_))
    }

    /// Another type of the same table.
    pub fn other(self, id: TypeId) -> Schema<'t> {
        Schema::new(self.table, id)
    }

    /// Struct, if the type is one.
    pub fn as_struct(self) -> Option<StructSchema<'t>> {
        match self.ty() {
            Type::Struct(entry) => Some(StructSchema { table: self.table, entry }),
            _ => None,
        }
    }

    /// The element type of a list.
    pub fn item(self) -> Option<Schema<'t>> {
        if let Type::List { item, .. } = self.ty() { Some(self.other(*item)) } else { None }
    }

    /// The value type of a map.
    pub fn value(self) -> Option<Schema<'t>> {
        if let Type::Map { value, .. } = self.ty() { Some(self.other(*value)) } else { None }
    }

    /// Scalar, if the type is one.
    pub fn scalar(self) -> Option<Scalar> {
        if let Type::Scalar(scalar) = self.ty() { Some(*scalar) } else { None }
    }

    /// Key fields of a list's elements, if it is a list of type map.
    pub fn list_keys(self) -> Option<impl Iterator<Item = &'t str>> {
        match self.ty() {
            Type::List { list: List::Map(keys), .. } => Some(self.table.list(*keys)),
            _ => None,
        }
    }

    /// Type by which a field of this struct is defaulted.
    pub(crate) fn defaults_of(self, field: Field<'t>) -> Schema<'t> {
        let entries = &self.table.metadata;
        let declared = || entries.binary_search_by_key(&self.id, |entry| entry.of).ok();
        let declared = (field.name() == "metadata").then(declared).flatten();
        match declared.and_then(|index| entries.get(index)) {
            Some(entry) => self.other(entry.ty),
            None => field.schema(),
        }
    }

    /// A struct's field by its JSON name.
    pub fn field(self, name: &str) -> Option<Field<'t>> {
        self.as_struct()?.field(name)
    }
}

/// A handle on a struct.
#[derive(Clone, Copy, Debug)]
pub struct StructSchema<'t> {
    table: &'t Table,
    entry: &'t Struct,
}

impl<'t> StructSchema<'t> {
    /// The name of the type.
    pub fn name(self) -> &'t str {
        self.table.str(self.entry.name)
    }

    /// Name of the Go package as Go's errors print it.
    pub fn package(self) -> &'t str {
        self.table.str(self.entry.package)
    }

    /// Further facts.
    pub fn flags(self) -> StructFlags {
        self.entry.flags
    }

    /// The JSON fields, sorted by name.
    pub fn entries(self) -> &'t [FieldEntry] {
        self.entry.fields.of(&self.table.fields)
    }

    /// Fields, sorted by name.
    pub fn fields(self) -> impl ExactSizeIterator<Item = Field<'t>> {
        let table = self.table;
        self.entries().iter().map(move |entry| Field { table, entry })
    }

    /// The field at a position of [`StructSchema::entries`].
    pub fn field_at(self, index: usize) -> Option<Field<'t>> {
        Some(Field { table: self.table, entry: self.entries().get(index)? })
    }

    /// Sets a map key to the name of the field at a position.
    #[inline]
    pub fn set_key(self, index: usize, key: &mut CompactString) {
        let Some(entry) = self.entries().get(index) else { return };
        match self.table.keys.get(usize::from(entry.key)) {
            Some(known) => key.clone_from(known),
            None => *key = CompactString::new(self.table.str(entry.name)),
        }
    }

    /// Position of the field of this name in [`StructSchema::entries`].
    pub fn position(self, name: &str) -> Option<usize> {
        let name = FieldName::new(name.as_bytes());
        let order = |entry: &FieldEntry| match name.is(self.table, entry) {
            true => Ordering::Equal,
            false => name.order(self.table, entry).reverse(),
        };
        self.entries().binary_search_by(order).ok()
    }

    /// Visits each field with its position and that of its entry in an object, whose entries are sorted by key.
    #[inline]
    pub fn for_each_field(
        self,
        entries: &[(CompactString, Value)],
        visit: impl FnMut(usize, &'t FieldEntry, Option<usize>),
    ) {
        field_name::for_each_field(self.table, self.entries(), entries, visit);
    }

    /// The field of a name.
    pub fn field(self, name: &str) -> Option<Field<'t>> {
        self.field_at(self.position(name)?)
    }

    /// The protobuf members, sorted by tag.
    pub fn members(self) -> &'t [Member] {
        self.entry.members.of(&self.table.members)
    }

    /// Another type of the same table, such as the struct of an inlined member.
    pub fn other(self, id: TypeId) -> Schema<'t> {
        Schema::new(self.table, id)
    }
}

/// A handle on a struct's field.
#[derive(Clone, Copy, Debug)]
pub struct Field<'t> {
    table: &'t Table,
    entry: &'t FieldEntry,
}

impl<'t> Field<'t> {
    /// The name in JSON.
    pub fn name(self) -> &'t str {
        self.table.str(self.entry.name)
    }

    /// The name as a map key.
    #[inline]
    pub fn key(self) -> CompactString {
        match self.table.keys.get(usize::from(self.entry.key)) {
            Some(key) => key.clone(),
            None => self.new_key(),
        }
    }

    #[cold]
    fn new_key(self) -> CompactString {
        CompactString::new(self.name())
    }

    /// Order of a key relative to the name.
    #[inline]
    pub(crate) fn order(self, key: &str) -> Ordering {
        let key = FieldName::new(key.as_bytes());
        if key.is(self.table, self.entry) {
            return Ordering::Equal;
        }
        key.order(self.table, self.entry)
    }

    /// Name as in JSON after other fields, `,"name":`; only for built-in kinds.
    #[inline]
    pub fn json_name(self) -> Option<&'t [u8]> {
        let Str(start, len) = self.entry.name;
        let (start, end) = ((start as usize).checked_sub(2)?, start as usize + len as usize + 2);
        let text = self.table.text.as_bytes().get(start..end)?;
        (text.starts_with(b",\"") && text.ends_with(b"\":")).then_some(text)
    }

    /// Type of the field.
    pub fn schema(self) -> Schema<'t> {
        Schema::new(self.table, self.entry.ty)
    }

    /// Go type as Go's errors print it, if it does not follow from the type.
    pub fn go(self) -> Option<&'t str> {
        Some(self.table.str(self.entry.go)).filter(|go| !go.is_empty())
    }

    /// Position among the fields in JSON.
    pub fn rank(self) -> usize {
        self.entry.rank as usize
    }

    /// Further facts.
    pub fn flags(self) -> FieldFlags {
        self.entry.flags
    }

    /// Whether absent and zero differ.
    pub fn pointer(self) -> bool {
        self.entry.flags.has(FieldFlags::POINTER)
    }

    /// Whether the field is written even if it is empty.
    pub fn always(self) -> bool {
        self.entry.flags.has(FieldFlags::ALWAYS)
    }

    /// Whether a struct is omitted if it is zero.
    pub fn omit_zero(self) -> bool {
        self.entry.flags.has(FieldFlags::OMIT_ZERO)
    }

    /// Whether the field is required.
    pub fn required(self) -> bool {
        self.entry.flags.has(FieldFlags::REQUIRED)
    }

    /// Default, if there is one.
    pub fn default(self) -> Option<&'t DefaultEntry> {
        self.table.defaults.get((self.entry.default as usize).checked_sub(1)?)
    }

    /// Strategic merge facts, if there are any.
    pub fn merge(self) -> Option<&'t MergeEntry> {
        self.table.merges.get((self.entry.merge as usize).checked_sub(1)?)
    }

    /// Allowed values; none if any is allowed.
    pub fn values(self) -> impl ExactSizeIterator<Item = &'t str> {
        self.table.list(self.entry.values)
    }
}

/// Element type `down` lists and maps deep in a Go type: `*[]v1.Foo` at 1 is `v1.Foo`.
pub fn go_element_type(go: &str, down: usize) -> Option<&str> {
    let go = go.trim_start_matches('*');
    match down {
        0 => Some(go),
        _ => {
            let element = go.strip_prefix("[]").or_else(|| {
                let (_, value) = go.strip_prefix("map[")?.split_once(']')?;
                Some(value)
            })?;
            go_element_type(element, down - 1)
        }
    }
}

impl Table {
    /// A string of the table.
    pub fn str(&self, s: Str) -> &str {
        str_in(&self.text, s)
    }

    /// Strings of the table.
    pub fn list(&self, span: Span) -> impl ExactSizeIterator<Item = &str> {
        span.of(&self.names).iter().map(|s| self.str(*s))
    }
}

fn str_in(text: &str, Str(start, len): Str) -> &str {
    text.get(start as usize..start as usize + len as usize).unwrap_or_default()
}
