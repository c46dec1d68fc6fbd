//! Where the objects of a resource are kept, in one version, whatever version they are served in.

mod converted;
mod decode;
mod options;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::schema::{Scalar, Schema, Type};
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_api::{builtin, convert};
use kevel_codec::{json, protobuf};
use kevel_store::cache::{
    Cache, Caches, Decode as _, FieldPath, JsonDecode, KeyOrder, Object, Wire,
};
use kevel_store::{Engine, Revision};

use crate::future::Pending;
use crate::type_ref::TypeRef;

pub use self::converted::{ConvertedObjects, ConvertedView};
use self::decode::StoredDecode;
pub use self::options::{RegistryFlags, RegistryOptions};

/// How stored bytes are written. Either form is understood when read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The form that is sent, too.
    Json,
    /// The reference's form.
    Protobuf,
}

/// What a resource's storage is made of.
#[derive(Debug)]
pub struct StorageConfig {
    /// The kind in the version in which it is stored.
    pub kind: GroupVersionKind,
    /// The type of that version.
    pub ty: TypeRef,
    /// `/registry/pods/`
    pub prefix: String,
    /// How objects are written.
    pub format: Format,
    /// Whether an empty list is told from none, as it is where the reference stores JSON.
    pub keeps_empty: bool,
    /// What selectors may name, besides name and namespace.
    pub fields: Vec<SelectableField>,
    /// Positions of those that watchers are found by.
    pub indexed: Vec<usize>,
    /// How long objects are kept, if not until they are deleted.
    pub time_to_live: Option<Duration>,
    /// How objects are kept, where their type and format do not say it all.
    pub form: Option<Arc<dyn StoredForm>>,
    /// How versions are made of each other, for a custom kind.
    pub conversion: Option<Arc<dyn Conversion>>,
    /// What flags say about the resource.
    pub registry: RegistryOptions,
}

/// A field that selectors may name.
#[derive(Clone, Debug)]
pub struct SelectableField {
    /// What they call it.
    pub name: Cow<'static, str>,
    /// Where it stands in the object.
    pub path: Cow<'static, str>,
    /// Where it stands in objects that have nothing there.
    pub otherwise: Option<&'static str>,
}

/// How objects are kept, where that is not what is served.
pub trait StoredForm: std::fmt::Debug + Send + Sync + 'static {
    /// An object as it is kept.
    fn encode(&self, object: &Value) -> Bytes;

    /// A kept object. It says in which version it is, where that is not the one of the storage.
    fn decode(&self, stored: &[u8]) -> Result<Value, String>;

    /// The version in which objects are kept, where that is not the storage's.
    fn version(&self) -> Option<&'static str> {
        None
    }

    /// Whether a kept object would be written in another encoding now.
    fn is_outdated(&self, _stored: &[u8]) -> bool {
        false
    }
}

/// How the versions of a custom kind are made of each other.
pub trait Conversion: std::fmt::Debug + Send + Sync + 'static {
    /// The same objects in another version. Which one they are in they say themselves.
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        to: &'a GroupVersion,
    ) -> Pending<'a, Result<Vec<Value>, StatusError>>;

    /// The same object in another version, if that needs no webhook.
    fn convert_at_once(&self, object: Value, to: &GroupVersion) -> Option<Value>;

    /// Whether a webhook converts.
    fn is_remote(&self) -> bool;

    /// Objects that the webhook has converted before, if there is one.
    fn converted(&self) -> Option<&ConvertedView>;

    /// The type of the kind's objects in a version.
    fn ty(&self, version: &str) -> Option<&TypeRef>;
}

/// A resource's objects.
pub struct Storage {
    /// The kind, in the version that is stored.
    pub kind: GroupVersionKind,
    /// The type of that version.
    pub ty: TypeRef,
    /// What all keys begin with.
    pub prefix: String,
    /// Where objects are stored.
    pub engine: Arc<dyn Engine>,
    /// Where they are read.
    pub cache: Arc<Cache>,
    /// The fields that selectors may name.
    pub fields: Arc<[FieldPath]>,
    /// How long objects are kept, if not until they are deleted.
    pub time_to_live: Option<Duration>,
    /// What flags say about the resource.
    pub registry: RegistryOptions,
    /// Whether an empty list is told from none.
    pub keeps_empty: bool,
    decode: Arc<StoredDecode>,
    format: Format,
    /// Names of the fields that watchers are found by.
    indexed: Vec<Cow<'static, str>>,
    conversion: Option<Arc<dyn Conversion>>,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Storage({} at {})", self.kind, self.prefix)
    }
}

impl Storage {
    /// A storage whose cache follows the store from now on.
    pub fn new(config: StorageConfig, engine: Arc<dyn Engine>, caches: &Caches) -> Self {
        let order = match config.ty.is_unstructured() {
            true => KeyOrder::Sorted,
            false => KeyOrder::Struct,
        };
        let fields: Arc<[FieldPath]> =
            config.fields.iter().map(|field| field_path(field, &config.ty)).collect();
        let name = |position: &usize| Some(config.fields.get(*position)?.name.clone());
        let indexed = config.indexed.iter().filter_map(name).collect();
        let decode = Arc::new(StoredDecode {
            ty: config.ty.clone(),
            json: JsonDecode { order },
            form: config.form,
            outdated: AtomicBool::new(false),
            api_version: config.kind.group_version().to_string(),
            kind: config.kind.clone(),
            clock: config.registry.clock.clone(),
        });
        let cached = kevel_store::cache::Resource {
            prefix: config.prefix.clone(),
            decode: decode.clone(),
            fields: fields.clone(),
            indexed: config.indexed,
        };
        // What is read of a custom kind's objects depends on its definition, which may be a new one.
        let cache = match config.conversion.is_some() {
            true => caches.replace(cached),
            false => caches.add(cached),
        };
        Storage {
            kind: config.kind,
            ty: config.ty,
            prefix: config.prefix,
            engine,
            cache,
            fields,
            time_to_live: config.time_to_live,
            registry: config.registry,
            decode,
            format: config.format,
            keeps_empty: config.keeps_empty,
            indexed,
            conversion: config.conversion,
        }
    }

    /// The version in which objects are kept.
    pub fn encoding_version(&self) -> &str {
        let of_form = self.decode.form.as_ref().and_then(|form| form.version());
        of_form.unwrap_or(&self.kind.version)
    }

    /// The fields by which watchers are found that select a value of one.
    pub fn indexed(&self) -> impl Iterator<Item = &str> {
        self.indexed.iter().map(AsRef::as_ref)
    }

    /// The whole key of an object.
    pub fn key(&self, namespace: &str, name: &str) -> Vec<u8> {
        self.key_of(&local_key(namespace, name))
    }

    /// The same of a [`local_key`].
    pub fn key_of(&self, local_key: &str) -> Vec<u8> {
        format!("{}{local_key}", self.prefix).into_bytes()
    }

    /// An object as it is stored, without its resourceVersion.
    pub fn encode(&self, value: &Value) -> Bytes {
        if let Some(form) = &self.decode.form {
            return form.encode(value);
        }
        let schema = self.ty.schema();
        match self.format {
            Format::Protobuf => protobuf::encode_object(value, schema).into(),
            Format::Json => {
                let mut out = Vec::with_capacity(2048);
                json::encode(value, schema, &mut out);
                out.into()
            }
        }
    }

    /// Whether what is stored at a key is to be written again though nothing of the object changes: with another key
    /// of encryption, or in another encoding. The store is read for the latter where some object was seen in one.
    pub async fn is_stale(&self, key: &[u8]) -> kevel_store::Result<bool> {
        if self.engine.is_stale(key).await? {
            return Ok(true);
        }
        let Some(form) = self.decode.form.as_ref().filter(|_| self.decode.has_seen_outdated())
        else {
            return Ok(false);
        };
        let found = self.engine.get(key, None).await?;
        Ok(found.entry.is_some_and(|entry| form.is_outdated(&entry.value)))
    }

    /// What clients read of stored bytes.
    pub fn wire(&self, stored: &Bytes, revision: Revision) -> Result<Wire, String> {
        self.decode.decode(stored, revision)
    }

    /// The tree of an object's wire bytes, with its kind.
    pub fn read(&self, wire: &[u8]) -> Result<Value, String> {
        let decoded = json::decode(wire, self.type_of(wire).schema(), json::Unknown::Ignore);
        let mut value = decoded.map_err(|error| error.to_string())?.value;
        if let Value::Map(map) = &mut value {
            let version = || self.decode.api_version.as_str().into();
            map.entry_or_insert_with("apiVersion", version);
            map.insert("kind", self.kind.kind.as_str().into());
        }
        Ok(value)
    }

    /// The tree of an object in the cache.
    pub fn tree(&self, object: &Object) -> Result<Value, String> {
        self.read(object.wire()?)
    }

    /// Facts that `read` takes of an object's tree, decoded once and kept beside the object while it is current: for facts that
    /// requests read of stored objects, which may be large. A type is read by one function, and holds the needed fields
    /// alone: with all that is kept, an object takes a few times its bytes.
    pub fn decoded<T: Send + Sync + 'static>(
        &self,
        object: &Object,
        read: fn(&Value) -> T,
    ) -> Result<Arc<T>, String> {
        object.decoded(|object| Ok(read(&self.tree(object)?)))
    }

    /// The same object in another version of its group.
    pub async fn convert(
        &self,
        value: Value,
        from: &GroupVersionKind,
        to: &GroupVersion,
    ) -> Result<Value, StatusError> {
        let Some(conversion) = &self.conversion else {
            return self.convert_built_in(value, from, to);
        };
        let converted = conversion.convert(vec![value], to).await?;
        let missing = || StatusError::internal("an object was lost in its conversion");
        converted.into_iter().next().ok_or_else(missing)
    }

    /// The same object in another version, if that needs no webhook.
    pub fn convert_at_once(
        &self,
        value: Value,
        from: &GroupVersionKind,
        to: &GroupVersion,
    ) -> Option<Value> {
        match &self.conversion {
            Some(conversion) => conversion.convert_at_once(value, to),
            None => self.convert_built_in(value, from, to).ok(),
        }
    }

    fn convert_built_in(
        &self,
        value: Value,
        from: &GroupVersionKind,
        to: &GroupVersion,
    ) -> Result<Value, StatusError> {
        convert::convert(value, from, to, &decode::embedded_json).map_err(StatusError::internal)
    }

    /// Whether a webhook converts objects to other versions.
    pub fn converts_remotely(&self) -> bool {
        self.conversion.as_ref().is_some_and(|conversion| conversion.is_remote())
    }

    /// The type of an object's wire bytes.
    fn type_of(&self, wire: &[u8]) -> &TypeRef {
        let said = is_foreign(wire).then(|| json::type_meta(wire).ok()).flatten();
        let version = said.and_then(|said| said.api_version.parse::<GroupVersion>().ok());
        version
            .and_then(|version| self.conversion.as_ref()?.ty(&version.version))
            .unwrap_or(&self.ty)
    }

    /// The type of the kind's objects in a version.
    pub fn schema_in(&self, version: &GroupVersion) -> Option<Schema<'_>> {
        match &self.conversion {
            Some(conversion) => conversion.ty(&version.version).map(TypeRef::schema),
            None => builtin::schema(&version.group, &version.version, &self.kind.kind),
        }
    }

    /// Whether objects are stored in this version.
    pub fn stores(&self, kind: &GroupVersionKind) -> bool {
        self.kind.version == kind.version && self.kind.group == kind.group
    }

    /// Whether the wire bytes of an object are those of this version.
    pub fn shows(&self, wire: &[u8], kind: &GroupVersionKind) -> bool {
        self.stores(kind) && !is_foreign(wire)
    }
}

/// Whether an object is kept in another version than its kind is stored in, from before that was
/// changed. Its wire bytes say which.
fn is_foreign(wire: &[u8]) -> bool {
    wire.starts_with(br#"{"apiVersion":"#)
}

/// Drops the empty lists and maps of an object with a type of the program. They are not told apart from absent ones where
/// objects are stored as protobuf, so they are not where objects are stored as JSON, either.
pub fn drop_empty(value: &mut Value, schema: Schema<'_>) {
    match (value, schema.ty()) {
        (Value::Map(map), Type::Struct(_)) => map.retain(|name, value| {
            if !matches!(value, Value::Map(_) | Value::List(_) | Value::Null) {
                return true;
            }
            let Some(field) = schema.field(name) else { return true };
            let container = matches!(field.schema().ty(), Type::List { .. } | Type::Map { .. });
            drop_empty(value, field.schema());
            field.pointer() || !container || !value.is_empty()
        }),
        (Value::Map(map), Type::Map { value: of, .. }) => {
            map.iter_mut().for_each(|(_, value)| drop_empty(value, schema.other(*of)));
        }
        // An entry of a map is there, if only as no bytes.
        (value @ Value::Null, Type::Scalar(Scalar::Bytes)) => *value = Value::from(""),
        (Value::List(list), Type::List { item, .. }) => {
            list.iter_mut().for_each(|value| drop_empty(value, schema.other(*item)));
        }
        _ => {}
    }
}

/// A key below the prefix of all keys, as messages of the store say it.
pub fn shown_key(key: &[u8]) -> String {
    let key = String::from_utf8_lossy(key);
    let below = key.get(1..).and_then(|key| key.find('/')).map_or(0, |slash| slash + 1);
    key.get(below..).unwrap_or_default().to_owned()
}

/// Where a field stands, and what it is where nothing is said: what Go prints of its zero.
fn field_path(field: &SelectableField, ty: &TypeRef) -> FieldPath {
    let SelectableField { name, path, otherwise } = field;
    let found = FieldPath::new(name, path);
    let found = match otherwise {
        Some(otherwise) => found.otherwise_at(otherwise),
        None => found,
    };
    if ty.is_unstructured() {
        return found;
    }
    let field =
        path.split('.').try_fold(ty.schema(), |schema, step| Some(schema.field(step)?.schema()));
    let zero = match field.map(|schema| schema.ty()) {
        Some(Type::Scalar(Scalar::Bool)) => "false",
        Some(Type::Scalar(Scalar::Int32 | Scalar::Int64)) => "0",
        _ => "",
    };
    found.or(zero)
}

/// `namespace/name`, or `name`.
pub fn local_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}
