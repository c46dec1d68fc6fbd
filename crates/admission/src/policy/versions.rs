//! Objects of an admission request, in the version that a policy matches (upstream: VersionedAttributes).

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use kevel_api::convert;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_registry::admission::Attributes;
use kevel_registry::resource::Resource;
use kevel_registry::type_ref::TypeRef;

use crate::cel::{Object, admission_request, namespace_object};
use crate::predicates::{Matched, Subject};

/// Objects of a request in one version: the values of the expressions' variables.
#[derive(Debug)]
pub(super) struct Versioned<'a> {
    /// Version in which the policy matched.
    matched: Matched,
    object: Option<Cow<'a, Value>>,
    old_object: Option<Cow<'a, Value>>,
    request: OnceLock<Value>,
    /// `request` of match conditions, where it differs.
    conditions_request: OnceLock<Value>,
}

impl<'a> Versioned<'a> {
    /// Converts the objects to the version in which a policy matched.
    pub async fn new(
        attributes: &Attributes<'a>,
        matched: &Matched,
        object: Option<Cow<'a, Value>>,
    ) -> Result<Self, StatusError> {
        let (from, to) = (attributes.kind(), matched.kind(attributes));
        let version = async |value: Option<Cow<'a, Value>>| match value {
            Some(value) => converted(attributes.resource, value, from, to).await.map(Some),
            None => Ok(None),
        };
        Ok(Versioned {
            matched: matched.clone(),
            object: version(object).await?,
            old_object: version(attributes.old.map(Cow::Borrowed)).await?,
            request: OnceLock::new(),
            conditions_request: OnceLock::new(),
        })
    }

    /// Whether these objects are in the version in which a policy matched.
    pub fn is(&self, attributes: &Attributes<'_>, matched: &Matched) -> bool {
        self.matched.resource(attributes).kind == matched.resource(attributes).kind
    }

    /// `object`, if there is one.
    pub fn object<'s>(&'s self, attributes: &Attributes<'s>) -> Option<Object<'s>> {
        self.object.as_deref().map(|tree| self.seen(tree, attributes))
    }

    /// `oldObject`, if there is one.
    pub fn old_object<'s>(&'s self, attributes: &Attributes<'s>) -> Option<Object<'s>> {
        self.old_object.as_deref().map(|tree| self.seen(tree, attributes))
    }

    /// `request`
    pub fn request(&self, attributes: &Attributes<'_>) -> &Value {
        self.request.get_or_init(|| {
            let options = attributes.options.object();
            admission_request(attributes, self.matched.resource(attributes), options.as_ref())
        })
    }

    /// `request` of match conditions.
    pub fn conditions_request(&self, attributes: &Attributes<'_>) -> &Value {
        let request = self.request(attributes);
        match self.matched {
            Matched::AsRequested => request,
            Matched::Equivalent(_) => self.conditions_request.get_or_init(|| as_requested(request)),
        }
    }

    fn seen<'s>(&'s self, tree: &'s Value, attributes: &Attributes<'s>) -> Object<'s> {
        let row = self.matched.resource(attributes);
        let schema = type_of(row, attributes.subresource).schema();
        Object { tree, schema, kind: self.matched.kind(attributes) }
    }
}

/// Value of `request` for match conditions: the kind that the policy matched, but the requested resource.
fn as_requested(request: &Value) -> Value {
    let mut request = request.clone();
    let asked = request.at(&["requestResource"]).cloned();
    if let (Some(map), Some(asked)) = (request.as_map_mut(), asked) {
        map.insert("resource", asked);
    }
    request
}

/// Type of the objects sent to a row, or to one of its subresources.
pub(super) fn type_of<'r>(row: &'r Resource, subresource: &str) -> &'r TypeRef {
    row.subresources.get(subresource).map_or(&row.ty, |subresource| &subresource.ty)
}

/// Converts an object of a resource to another version.
pub(super) async fn converted<'v>(
    resource: &Resource,
    value: Cow<'v, Value>,
    from: &GroupVersionKind,
    to: &GroupVersionKind,
) -> Result<Cow<'v, Value>, StatusError> {
    if from == to {
        return Ok(value);
    }
    let (value, version) = (value.into_owned(), to.group_version());
    let value = match &resource.storage {
        Some(storage) => storage.convert(value, from, &version).await?,
        None => {
            let read = |text: &str| {
                json::decode_any(text.as_bytes(), json::Unknown::Ignore).ok().map(|d| d.value)
            };
            convert::convert(value, from, &version, &read).map_err(StatusError::internal)?
        }
    };
    Ok(Cow::Owned(value))
}

/// Value of `namespaceObject`, cached beside its namespace.
#[derive(Debug)]
pub(super) struct NamespaceObject(pub Value);

/// Value of `namespaceObject`; `None` for cluster-scoped objects, for namespaces themselves, and if no expression
/// mentions it.
pub(super) async fn namespace(
    subject: &Subject<'_>,
    mentioned: bool,
) -> Result<Option<Arc<NamespaceObject>>, StatusError> {
    let attributes = subject.attributes;
    let kind = attributes.kind();
    let is_namespace = kind.group.is_empty() && kind.version == "v1" && kind.kind == "Namespace";
    if attributes.namespace.is_empty() || is_namespace {
        return Ok(None);
    }
    // A missing namespace is an error even if no expression mentions it.
    subject.namespace().await?;
    match mentioned {
        true => {
            let read = |namespace: &Value| NamespaceObject(namespace_object(namespace));
            subject.namespace_facts(read).await.map(Some)
        }
        false => Ok(None),
    }
}
