//! Resource row of CustomResourceDefinitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_registry::columns::NameAndCreation;
use kevel_registry::resource::{Conventions, Resource, Subresource, SubresourceKind};
use kevel_registry::storage::{Format, Storage, StorageConfig};
use kevel_registry::type_ref::TypeRef;
use kevel_store::keys::{self, Origin};

use crate::definition::{GROUP, PLURAL};
use crate::rows::RestOptions;
use crate::stored_definition::StoredDefinitions;
use crate::strategy::DefinitionStrategy;
use kevel_registry::verb::Verb;

/// Stored form of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionForm {
    /// Stored as served, which is the fastest to decode.
    Served,
    /// Stored as the reference stores definitions in etcd.
    Etcd,
}

/// Resource row of CustomResourceDefinitions. `None` if this server was built without the kind.
pub fn row(options: &RestOptions, form: DefinitionForm) -> Option<Resource> {
    let find = |path: &str| {
        let mut all = builtin::resources().iter();
        all.find(|resource| resource.group == GROUP && resource.path == path)
    };
    let (resource, status) = (find(PLURAL)?, find(&format!("{PLURAL}/status"))?);
    let schema = builtin::schema(GROUP, resource.version, resource.kind)?;
    let kind = GroupVersionKind::from_static(GROUP, resource.version, resource.kind);
    let ty = TypeRef::BuiltIn(schema);
    let config = StorageConfig {
        kind: kind.clone(),
        ty: ty.clone(),
        prefix: keys::resource_prefix(&options.prefix, Origin::Extension, GROUP, PLURAL),
        format: Format::Json,
        keeps_empty: true,
        fields: Vec::new(),
        indexed: Vec::new(),
        time_to_live: None,
        form: match form {
            DefinitionForm::Served => None,
            DefinitionForm::Etcd => Some(Arc::new(StoredDefinitions { schema })),
        },
        conversion: None,
        registry: options.registry.of(GROUP, PLURAL),
    };
    let role = SubresourceKind::Status;
    let status = Subresource {
        kind: kind.clone(),
        verbs: Verb::parse_all(status.verbs).ok()?,
        ty: ty.clone(),
        role,
    };
    let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    Some(Resource {
        list_kind: format!("{}List", kind.kind),
        kind,
        plural: PLURAL.to_owned(),
        singular: resource.singular.to_owned(),
        short_names: owned(resource.short),
        categories: owned(resource.categories),
        namespaced: false,
        verbs: Verb::parse_all(resource.verbs).ok()?,
        ty,
        strategy: Arc::new(DefinitionStrategy {
            clock: options.registry.most.clock.clone(),
            observed_generations: options.observed_generations,
        }),
        allocation: None,
        columns: Arc::new(NameAndCreation),
        storage: Some(Arc::new(Storage::new(config, options.engine.clone(), &options.caches))),
        creater: None,
        lister: None,
        subresources: BTreeMap::from([("status".to_owned(), status)]),
        conventions: Conventions { cbor: options.cbor, ..Conventions::typed(false) },
    })
}
