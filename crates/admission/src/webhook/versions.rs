//! Objects of an admission request, in the version that a webhook matches (upstream: VersionedAttributes).

use std::borrow::Cow;
use std::sync::Arc;

use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_registry::admission::Attributes;
use kevel_registry::resource::{Resource, api_version};
use kevel_registry::type_ref::TypeRef;

use crate::predicates::Matched;

/// Objects of a request in one version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Versioned<'a> {
    pub resource: &'a Resource,
    /// Kind of the body sent to the resource or its subresource.
    pub kind: &'a GroupVersionKind,
    pub ty: &'a TypeRef,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
}

/// [`Versioned`] objects as JSON.
#[derive(Debug)]
pub(super) struct Encoded<'a> {
    pub resource: &'a Resource,
    pub object: Option<Vec<u8>>,
    pub old: Option<Vec<u8>>,
}

impl<'a> Versioned<'a> {
    pub fn new(
        resource: &'a Resource,
        subresource: &str,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> Self {
        let part = resource.subresources.get(subresource);
        let (kind, ty) = match part {
            Some(part) => (&part.kind, &part.ty),
            None => (&resource.kind, &resource.ty),
        };
        Versioned { resource, kind, ty, object, old }
    }

    pub fn encode(&self) -> Encoded<'a> {
        let encode = |value: &Value| encode(value, self.kind, self.ty);
        Encoded {
            resource: self.resource,
            object: self.object.map(encode),
            old: self.old.map(encode),
        }
    }
}

/// Object as JSON, with `apiVersion` and `kind`.
fn encode(value: &Value, kind: &GroupVersionKind, ty: &TypeRef) -> Vec<u8> {
    let version = api_version(&kind.group, &kind.version);
    let said = (value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
    let mut value = Cow::Borrowed(value);
    if said != (&*version, &*kind.kind)
        && let Some(map) = value.to_mut().as_map_mut()
    {
        map.insert("apiVersion", version.as_str().into());
        map.insert("kind", kind.kind.as_str().into());
    }
    let mut out = Vec::with_capacity(2048);
    json::encode(&value, ty.schema(), &mut out);
    out
}

/// Objects of a request in another version than the requested one.
#[derive(Debug)]
struct Converted {
    resource: Arc<Resource>,
    object: Option<Value>,
    old: Option<Value>,
    /// Whether the object has changed since it was converted from the requested version.
    dirty: bool,
}

/// Objects of a request that webhooks change in sequence, each in the version that it matched.
#[derive(Debug)]
pub(super) struct Versions<'a> {
    attributes: &'a Attributes<'a>,
    /// Object in the requested version.
    object: Option<&'a mut Value>,
    converted: Option<Converted>,
}

impl<'a> Versions<'a> {
    pub fn new(attributes: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Self {
        Versions { attributes, object, converted: None }
    }

    /// Current object, in the version last used.
    pub fn current(&self) -> Option<&Value> {
        match &self.converted {
            Some(converted) => converted.object.as_ref(),
            None => self.object.as_deref(),
        }
    }

    /// Objects in the version that a webhook matched.
    pub async fn as_matched(&mut self, matched: &Matched) -> Result<Versioned<'_>, StatusError> {
        match matched {
            Matched::AsRequested => self.settle().await?,
            Matched::Equivalent(resource) => {
                let there =
                    self.converted.as_ref().is_some_and(|c| c.resource.kind == resource.kind);
                if !there {
                    self.settle().await?;
                    self.converted = Some(self.convert(resource).await?);
                }
            }
        }
        Ok(match &self.converted {
            Some(Converted { resource, object, old, .. }) => {
                let subresource = self.attributes.subresource;
                Versioned::new(resource, subresource, object.as_ref(), old.as_ref())
            }
            None => as_requested(self.attributes, self.object.as_deref()),
        })
    }

    /// Replaces the object that [`Versions::as_matched`] returned.
    pub fn replace(&mut self, object: Value) {
        match (&mut self.converted, &mut self.object) {
            (Some(converted), _) => {
                converted.object = Some(object);
                converted.dirty = true;
            }
            (None, Some(there)) => **there = object,
            (None, None) => {}
        }
    }

    /// Converts a changed object back to the requested version.
    pub async fn settle(&mut self) -> Result<(), StatusError> {
        let Some(Converted { resource, object: Some(changed), dirty: true, .. }) =
            self.converted.take()
        else {
            return Ok(());
        };
        let subresource = self.attributes.subresource;
        let (from, to) = (resource.kind_of(subresource), self.attributes.kind());
        let object = converted(self.attributes.resource, changed, from, to).await?;
        if let Some(there) = self.object.as_deref_mut() {
            *there = object;
        }
        Ok(())
    }

    async fn convert(&self, resource: &Arc<Resource>) -> Result<Converted, StatusError> {
        let object = self.object.as_deref();
        let (object, old) = equivalent(self.attributes, resource, object).await?;
        Ok(Converted { resource: resource.clone(), object, old, dirty: false })
    }
}

/// Objects of a request in the requested version.
pub(super) fn as_requested<'a>(
    attributes: &'a Attributes<'_>,
    object: Option<&'a Value>,
) -> Versioned<'a> {
    Versioned::new(attributes.resource, attributes.subresource, object, attributes.old)
}

/// Objects of a request, converted to an equivalent row's version.
pub(super) async fn equivalent(
    attributes: &Attributes<'_>,
    resource: &Resource,
    object: Option<&Value>,
) -> Result<(Option<Value>, Option<Value>), StatusError> {
    let (from, to) = (attributes.kind(), resource.kind_of(attributes.subresource));
    let convert = async |value: Option<&Value>| match value {
        Some(value) => converted(attributes.resource, value.clone(), from, to).await.map(Some),
        None => Ok(None),
    };
    Ok((convert(object).await?, convert(attributes.old).await?))
}

/// Converts an object of a row to another version.
async fn converted(
    resource: &Resource,
    value: Value,
    from: &GroupVersionKind,
    to: &GroupVersionKind,
) -> Result<Value, StatusError> {
    match &resource.storage {
        Some(storage) if from != to => {
            storage.convert(value, from, &to.group_version()).await.map_err(StatusError::internal)
        }
        _ => Ok(value),
    }
}
