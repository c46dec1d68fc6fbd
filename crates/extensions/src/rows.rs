//! Resource rows of custom resources, built from their definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use kevel_api::builtin;
use kevel_api::crd_schema;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::value::{Map, Value};
use kevel_codec::json;
use kevel_registry::resource::Cbor;
use kevel_registry::resource::{
    Conventions, FieldLabels, Published, Resource, Routing, Subresource, SubresourceKind,
};
use kevel_registry::storage::{
    ConvertedObjects, Format, RegistryFlags, SelectableField, Storage, StorageConfig,
};
use kevel_registry::type_ref::TypeRef;
use kevel_server::discovery::priority::compare_versions;
use kevel_server::egress::EgressSelector;
use kevel_store::Engine;
use kevel_store::cache::Caches;
use kevel_store::keys::{self, Origin};

use crate::built_in::BuiltIn;
use crate::columns::CustomColumns;
use crate::conversion::{Resolve, Versions, Webhook};
use crate::definition::{Definition, Version};
use crate::scale::ScalePaths;
use crate::stored::StoredObjects;
use crate::strategy::{CustomResource, ObjectRules};
use kevel_registry::verb::Verb;

/// Storage, caches and webhook access for custom resources (upstream: CRDRESTOptionsGetter).
#[derive(Clone)]
pub struct RestOptions {
    /// Key prefix of all objects: `/registry`
    pub prefix: String,
    /// Storage engine.
    pub engine: Arc<dyn Engine>,
    /// Caches that serve reads.
    pub caches: Arc<Caches>,
    /// Resolver of the webhooks' services.
    pub resolve: Resolve,
    /// Flags that concern resources.
    pub registry: RegistryFlags,
    /// Egress of connections to webhooks.
    pub egress: EgressSelector,
    /// Cache of objects that webhooks converted.
    pub converted: Arc<ConvertedObjects>,
    /// Groups and key prefixes of the built-in servers.
    pub built_in: BuiltIn,
    /// Whether objects are served and stored in CBOR.
    pub cbor: Cbor,
    /// Whether discovery shows the hash of the storage version (`StorageVersionHash`).
    pub storage_version_hash: bool,
    /// Whether conditions of definitions say which generation they are about (`CRDObservedGenerationTracking`).
    pub observed_generations: bool,
}

impl RestOptions {
    /// Key prefix of a definition's objects.
    fn prefix_of(&self, definition: Definition<'_>) -> String {
        let plural = definition.names().plural();
        keys::resource_prefix(&self.prefix, Origin::Extension, definition.group(), plural)
    }

    /// Whether the keys of a definition's objects overlap with those of a built-in kind.
    pub(crate) fn overlaps_built_in(&self, definition: Definition<'_>) -> bool {
        self.built_in.stores(&self.prefix_of(definition))
    }
}

impl std::fmt::Debug for RestOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestOptions").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Verbs, in the order of the reference's discovery.
const VERBS: [Verb; 8] = [
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Create,
    Verb::Update,
    Verb::Watch,
];
const PART_VERBS: [Verb; 3] = [Verb::Get, Verb::Patch, Verb::Update];

/// Rows of all served versions, which share one storage. There are none if a built-in server has the group, or if the
/// keys overlap with those of a built-in kind: then the definition is stored without effect.
/// `rules` are rules in Rust for their objects.
pub fn rows(
    definition: Definition<'_>,
    options: &RestOptions,
    rules: Option<&Arc<dyn ObjectRules>>,
) -> Result<Vec<Resource>, String> {
    rows_of(definition, options, rules, Version::is_served)
}

/// Row of the storage version, served or not, with a storage of its own: for definitions without a served version.
pub(crate) fn stored_row(
    definition: Definition<'_>,
    options: &RestOptions,
) -> Result<Option<Resource>, String> {
    let stored = definition.storage_version();
    let rows = rows_of(definition, options, None, |version| Some(version.name()) == stored);
    rows.map(|rows| rows.into_iter().next())
}

fn rows_of<'d>(
    definition: Definition<'d>,
    options: &RestOptions,
    rules: Option<&Arc<dyn ObjectRules>>,
    wanted: impl Fn(Version<'d>) -> bool,
) -> Result<Vec<Resource>, String> {
    let is_wanted = |version: &Version<'d>| {
        wanted(*version) && !options.built_in.serves(definition.group(), version.name())
    };
    if options.overlaps_built_in(definition) || !definition.versions().any(|v| is_wanted(&v)) {
        return Ok(Vec::new());
    }
    let names = definition.accepted_names();
    let kind = |version: &str| GroupVersionKind::new(definition.group(), version, names.kind());
    let types = types(definition)?;
    let stored = definition.storage_version().ok_or("no storage version")?;
    let ty = types.get(stored).cloned().ok_or("no storage version")?;
    let webhook = Webhook::of(definition, &options.resolve, &options.egress)?;
    let versions = Arc::new(Versions::new(types.clone(), webhook, &options.converted));
    let form = StoredObjects {
        kind: kind(stored),
        ty: ty.clone(),
        versions: versions.clone(),
        cbor: options.cbor,
    };
    let fields: BTreeSet<&str> =
        definition.versions().flat_map(Version::selectable_fields).collect();
    let field = |name: &str| SelectableField {
        name: name.to_owned().into(),
        path: name.to_owned().into(),
        otherwise: None,
    };
    let config = StorageConfig {
        kind: kind(stored),
        ty,
        prefix: options.prefix_of(definition),
        format: Format::Json,
        keeps_empty: true,
        fields: fields.into_iter().map(field).collect(),
        indexed: Vec::new(),
        time_to_live: None,
        form: Some(Arc::new(form)),
        conversion: Some(versions),
        registry: options.registry.of(definition.group(), names.plural()),
    };
    let mut served = Vec::new();
    for version in definition.versions().filter(is_wanted) {
        let ty = types.get(version.name()).cloned().ok_or("a version without a type")?;
        let schema = text_of(version.schema());
        let warning = deprecation(definition, version);
        let strategy = CustomResource::new(definition, version, schema.clone(), warning);
        let strategy = Arc::new(strategy.with_rules(rules.cloned()));
        served.push((version, ty, schema, strategy));
    }
    // Made last: the steps above may fail, and a new storage replaces the existing one of this prefix.
    let storage = Arc::new(Storage::new(config, options.engine.clone(), &options.caches));
    let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let row = |(version, ty, schema, strategy): ServedVersion<'_>| Resource {
        kind: kind(version.name()),
        list_kind: names.list_kind().to_owned(),
        plural: names.plural().to_owned(),
        singular: names.singular().to_owned(),
        short_names: owned(names.short_names()),
        categories: owned(names.categories()),
        namespaced: definition.is_namespaced(),
        verbs: VERBS.to_vec(),
        subresources: subresources(version, &kind(version.name()), &ty),
        ty,
        strategy,
        allocation: None,
        columns: Arc::new(CustomColumns::new(version)),
        storage: Some(storage.clone()),
        creater: None,
        lister: None,
        conventions: Conventions {
            routing: Routing::Verbs,
            protobuf: false,
            cbor: options.cbor,
            strategic_merge_patch: false,
            field_labels: FieldLabels::Own,
            published: Published::Definition(schema),
            converted_annotations: &[],
            storage_version_hash: options.storage_version_hash,
        },
    };
    Ok(served.into_iter().map(row).collect())
}

/// A version, the type of its objects, its schema as text, and its strategy.
type ServedVersion<'v> = (Version<'v>, TypeRef, Bytes, Arc<CustomResource>);

/// Schema as text, which takes less memory than its tree.
fn text_of(schema: Option<&Value>) -> Bytes {
    let mut text = Vec::new();
    if let Some(schema) = schema {
        json::encode_any(schema, &mut text);
    }
    text.into()
}

/// Types of all versions, served or not: objects may still be stored in any of them.
fn types(definition: Definition<'_>) -> Result<BTreeMap<String, TypeRef>, String> {
    let anything = Value::Map(Map::from_iter([
        ("type", Value::from("object")),
        ("x-kubernetes-preserve-unknown-fields", true.into()),
    ]));
    let nothing = Value::Map(Map::new());
    let read = |text: &str| {
        json::decode_any(text.as_bytes(), json::Unknown::Ignore).ok().map(|read| read.value)
    };
    let mut types = BTreeMap::new();
    for version in definition.versions() {
        let schema = match definition.preserves_unknown_fields() {
            true => &anything,
            false => version.schema().unwrap_or(&nothing),
        };
        let (table, id) = crd_schema::table(schema, &read)
            .map_err(|error| format!("{}: {error}", version.name()))?;
        types.insert(version.name().to_owned(), TypeRef::Custom(Arc::new(table), id));
    }
    Ok(types)
}

fn subresources(
    version: Version<'_>,
    kind: &GroupVersionKind,
    ty: &TypeRef,
) -> BTreeMap<String, Subresource> {
    let mut parts = BTreeMap::new();
    let verbs = PART_VERBS.to_vec();
    if version.has_status() {
        let role = SubresourceKind::Status;
        let sub = Subresource { kind: kind.clone(), verbs: verbs.clone(), ty: ty.clone(), role };
        parts.insert("status".to_owned(), sub);
    }
    let scale = version.scale().zip(builtin::schema("autoscaling", "v1", "Scale"));
    if let Some((scale, schema)) = scale {
        let kind = GroupVersionKind::from_static("autoscaling", "v1", "Scale");
        let role = SubresourceKind::Scale(ScalePaths::read(scale).scale());
        let sub = Subresource { kind, verbs, ty: TypeRef::BuiltIn(schema), role };
        parts.insert("scale".to_owned(), sub);
    }
    parts
}

/// Warning for clients that use a deprecated version.
fn deprecation(definition: Definition<'_>, version: Version<'_>) -> Option<String> {
    if !version.is_deprecated() {
        return None;
    }
    if let Some(warning) = version.deprecation_warning() {
        return Some(warning.to_owned());
    }
    let (group, kind) = (definition.group(), definition.names().kind());
    let warning = format!("{group}/{} {kind} is deprecated", version.name());
    // Discovery order: versions that come first are newer.
    let newer = |a: &str, b: &str| compare_versions(group, a, b).is_lt();
    let better = definition
        .versions()
        .filter(|other| other.is_served() && !other.is_deprecated())
        .map(Version::name)
        .filter(|other| newer(other, version.name()))
        .min_by(|a, b| compare_versions(group, a, b));
    Some(match better {
        Some(better) => format!("{warning}; use {group}/{better} {kind}"),
        None => warning,
    })
}
