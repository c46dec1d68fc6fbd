//! A write, as a policy sees it: in the version that the policy is about.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use kevel_api::convert;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_server::admission::Attributes;
use kevel_server::resource::Resource;
use kevel_server::type_ref::TypeRef;

use crate::cel::{Object, admission_request, namespace_object};
use crate::predicates::{Matched, Subject};

/// A write in one version: what the variables of expressions are.
#[derive(Debug)]
pub(super) struct Versioned<'a> {
    /// What the write is as the policy wants it.
    matched: Matched,
    object: Option<Cow<'a, Value>>,
    old_object: Option<Cow<'a, Value>>,
    request: OnceLock<Value>,
    /// What `request` is in match conditions, where it is something else.
    conditions_request: OnceLock<Value>,
}

impl<'a> Versioned<'a> {
    /// The write as a policy wants it that is about this row.
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

    /// Whether a policy wants the write so that is about this row.
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

    /// What `request` is in match conditions.
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

/// Match conditions see the kind that the policy is about, but the resource that was asked for.
fn as_requested(request: &Value) -> Value {
    let mut request = request.clone();
    let asked = request.at(&["requestResource"]).cloned();
    if let (Some(map), Some(asked)) = (request.as_map_mut(), asked) {
        map.insert("resource", asked);
    }
    request
}

/// The type of what is written to a row, or to a subresource of it.
pub(super) fn type_of<'r>(row: &'r Resource, subresource: &str) -> &'r TypeRef {
    row.subresources.get(subresource).map_or(&row.ty, |subresource| &subresource.ty)
}

/// An object of a resource in another version.
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

/// Value of `namespaceObject`, kept beside its namespace.
#[derive(Debug)]
pub(super) struct NamespaceObject(pub Value);

/// Value of `namespaceObject`: nothing for what is in no namespace, for namespaces themselves, and where no expression
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
    // It must be there in any case.
    subject.namespace().await?;
    match mentioned {
        true => {
            let read = |namespace: &Value| NamespaceObject(namespace_object(namespace));
            subject.namespace_facts(read).await.map(Some)
        }
        false => Ok(None),
    }
}
