//! Storage of a resource's objects (upstream: `RESTStorage`, `registry.Store`): one storage version, whatever version
//! is served.

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

use crate::type_ref::TypeRef;
use kevel_component::future::Pending;

pub use self::converted::{ConvertedObjects, ConvertedView};
use self::decode::StoredDecode;
pub use self::options::{RegistryFlags, RegistryOptions};

/// Encoding of stored objects. Both can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON, also the wire form.
    Json,
    /// Protobuf, as the reference stores.
    Protobuf,
}

/// Configuration of a resource's storage.
#[derive(Debug)]
pub struct StorageConfig {
    /// Kind in the storage version.
    pub kind: GroupVersionKind,
    /// Type of the storage version.
    pub ty: TypeRef,
    /// `/registry/pods/`
    pub prefix: String,
    /// Encoding of new objects.
    pub format: Format,
    /// Whether empty lists are kept apart from absent ones, as where the reference stores JSON.
    pub keeps_empty: bool,
    /// Fields of field selectors, besides name and namespace.
    pub fields: Vec<SelectableField>,
    /// Positions in `fields` of those that watchers are indexed by.
    pub indexed: Vec<usize>,
    /// Time to live of objects (events); `None` without expiry.
    pub time_to_live: Option<Duration>,
    /// Special encoding of stored objects, where type and format do not suffice.
    pub form: Option<Arc<dyn StoredForm>>,
    /// Conversion between the versions of a custom resource.
    pub conversion: Option<Arc<dyn Conversion>>,
    /// Options of the resource from flags.
    pub registry: RegistryOptions,
}

/// A field of field selectors (upstream: `GetAttrs`).
#[derive(Clone, Debug)]
pub struct SelectableField {
    /// Name in selectors.
    pub name: Cow<'static, str>,
    /// Path in the object.
    pub path: Cow<'static, str>,
    /// Path to use where the first one has no value.
    pub otherwise: Option<&'static str>,
}

/// Special encoding of stored objects, where it differs from the served form.
pub trait StoredForm: std::fmt::Debug + Send + Sync + 'static {
    /// Encodes an object for the store.
    fn encode(&self, object: &Value) -> Bytes;

    /// Decodes a stored object. Its `apiVersion` is set where it is not the storage's.
    fn decode(&self, stored: &[u8]) -> Result<Value, String>;

    /// Version of stored objects, where it is not the storage's.
    fn version(&self) -> Option<&'static str> {
        None
    }

    /// Whether stored bytes have an encoding that would not be written now.
    fn is_outdated(&self, _stored: &[u8]) -> bool {
        false
    }
}

/// Conversion between the versions of a custom resource (upstream: the CRD converter).
pub trait Conversion: std::fmt::Debug + Send + Sync + 'static {
    /// Converts objects, each from the version in its `apiVersion`, to the version `to`.
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        to: &'a GroupVersion,
    ) -> Pending<'a, Result<Vec<Value>, StatusError>>;

    /// Converts an object to another version, if that needs no webhook.
    fn convert_at_once(&self, object: Value, to: &GroupVersion) -> Option<Value>;

    /// Whether a conversion webhook is used.
    fn is_remote(&self) -> bool;

    /// Cache of objects that the webhook has converted, if there is a webhook.
    fn converted(&self) -> Option<&ConvertedView>;

    /// Type of the kind in a version.
    fn ty(&self, version: &str) -> Option<&TypeRef>;
}

/// Storage of a resource's objects (upstream: `registry.Store`).
pub struct Storage {
    /// Kind in the storage version.
    pub kind: GroupVersionKind,
    /// Type of the storage version.
    pub ty: TypeRef,
    /// Prefix of all keys.
    pub prefix: String,
    /// Store that objects are written to.
    pub engine: Arc<dyn Engine>,
    /// Watch cache that objects are read from (upstream: `Cacher`).
    pub cache: Arc<Cache>,
    /// Fields of field selectors.
    pub fields: Arc<[FieldPath]>,
    /// Time to live of objects; `None` without expiry.
    pub time_to_live: Option<Duration>,
    /// Options of the resource from flags.
    pub registry: RegistryOptions,
    /// Whether empty lists are kept apart from absent ones.
    pub keeps_empty: bool,
    decode: Arc<StoredDecode>,
    format: Format,
    /// Names of the fields that watchers are indexed by.
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
            reports_damage: config.registry.unsafe_deletion,
            clock: config.registry.clock.clone(),
        });
        let cached = kevel_store::cache::Resource {
            prefix: config.prefix.clone(),
            decode: decode.clone(),
            fields: fields.clone(),
            indexed: config.indexed,
        };
        // A new definition of a custom resource may decode objects differently, so its cache is replaced.
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

    /// Version that objects are encoded in.
    pub fn encoding_version(&self) -> &str {
        let of_form = self.decode.form.as_ref().and_then(|form| form.version());
        of_form.unwrap_or(&self.kind.version)
    }

    /// Names of the fields that watchers are indexed by.
    pub fn indexed(&self) -> impl Iterator<Item = &str> {
        self.indexed.iter().map(AsRef::as_ref)
    }

    /// Full key of an object.
    pub fn key(&self, namespace: &str, name: &str) -> Vec<u8> {
        self.key_of(&local_key(namespace, name))
    }

    /// Full key of a [`local_key`].
    pub fn key_of(&self, local_key: &str) -> Vec<u8> {
        format!("{}{local_key}", self.prefix).into_bytes()
    }

    /// Encodes an object for the store, without its resourceVersion.
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

    /// Whether the stored bytes of a key are to be written again though the object is unchanged: for another encryption
    /// key, encoding or storage version. The store is read only if some outdated object has been seen.
    pub async fn is_stale(&self, key: &[u8]) -> kevel_store::Result<bool> {
        if self.engine.is_stale(key).await? {
            return Ok(true);
        }
        if !self.decode.has_seen_outdated() {
            return Ok(false);
        }
        let found = self.engine.get(key, None).await?;
        Ok(found.entry.is_some_and(|entry| self.decode.is_outdated(&entry.value)))
    }

    /// Converts stored bytes into wire bytes.
    pub fn wire(&self, stored: &Bytes, revision: Revision) -> Result<Wire, String> {
        self.decode.decode(stored, revision)
    }

    /// Decodes wire bytes into a tree, with its kind.
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

    /// Decodes an object of the cache.
    pub fn tree(&self, object: &Object) -> Result<Value, String> {
        self.read(object.wire()?)
    }

    /// Facts that `read` takes from an object's tree, decoded once and kept with the cached object while it is current.
    /// For facts that requests read of large stored objects. Each type `T` must be read by one function, and hold only
    /// the needed fields: with all facts, an object takes a few times its bytes.
    pub fn decoded<T: Send + Sync + 'static>(
        &self,
        object: &Object,
        read: fn(&Value) -> T,
    ) -> Result<Arc<T>, String> {
        object.decoded(|object| Ok(read(&self.tree(object)?)))
    }

    /// Converts an object to another version of its group.
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

    /// Converts an object to another version, if that needs no webhook.
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

    /// Whether a conversion webhook converts objects.
    pub fn converts_remotely(&self) -> bool {
        self.conversion.as_ref().is_some_and(|conversion| conversion.is_remote())
    }

    /// Type of an object's wire bytes.
    fn type_of(&self, wire: &[u8]) -> &TypeRef {
        let said = is_foreign(wire).then(|| json::type_meta(wire).ok()).flatten();
        let version = said.and_then(|said| said.api_version.parse::<GroupVersion>().ok());
        version
            .and_then(|version| self.conversion.as_ref()?.ty(&version.version))
            .unwrap_or(&self.ty)
    }

    /// Type of the kind in a version.
    pub fn schema_in(&self, version: &GroupVersion) -> Option<Schema<'_>> {
        match &self.conversion {
            Some(conversion) => conversion.ty(&version.version).map(TypeRef::schema),
            None => builtin::schema(&version.group, &version.version, &self.kind.kind),
        }
    }

    /// Whether this is the storage version.
    pub fn stores(&self, kind: &GroupVersionKind) -> bool {
        self.kind.version == kind.version && self.kind.group == kind.group
    }

    /// Whether an object's wire bytes are in this version.
    pub fn shows(&self, wire: &[u8], kind: &GroupVersionKind) -> bool {
        self.stores(kind) && !is_foreign(wire)
    }
}

/// Whether an object is stored in another version than the storage version, from before that changed. Its wire bytes
/// then begin with `apiVersion`.
fn is_foreign(wire: &[u8]) -> bool {
    wire.starts_with(br#"{"apiVersion":"#)
}

/// Drops the empty lists and maps of a built-in object. Protobuf cannot tell them from absent ones, so objects stored
/// as JSON must not have them either.
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
        // A map entry without bytes is kept, as an empty value.
        (value @ Value::Null, Type::Scalar(Scalar::Bytes)) => *value = Value::from(""),
        (Value::List(list), Type::List { item, .. }) => {
            list.iter_mut().for_each(|value| drop_empty(value, schema.other(*item)));
        }
        _ => {}
    }
}

/// A key without the store's prefix, as in error messages of the storage.
pub fn shown_key(key: &[u8]) -> String {
    let key = String::from_utf8_lossy(key);
    let below = key.get(1..).and_then(|key| key.find('/')).map_or(0, |slash| slash + 1);
    key.get(below..).unwrap_or_default().to_owned()
}

/// Path of a selectable field, and its value where it is absent: Go's zero value as text.
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
