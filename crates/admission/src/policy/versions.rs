//! A write, as a policy sees it: in the version that the policy is about.

use std::borrow::Cow;

use kevel_api::convert;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_server::admission::Attributes;
use kevel_server::resource::Resource;
use kevel_server::type_ref::TypeRef;

use crate::cel::{admission_request, namespace_object, versioned_object};
use crate::predicates::{Matched, Subject};

/// A write in one version: what the variables of expressions are.
#[derive(Debug)]
pub(super) struct Versioned {
    /// Which row it is as the policy wants it.
    pub row: GroupVersionKind,
    /// `object`, if there is one.
    pub object: Option<Value>,
    /// `oldObject`, if there is one.
    pub old_object: Option<Value>,
    /// `request`
    pub request: Value,
    /// What `request` is in match conditions, where it is something else.
    conditions_request: Option<Value>,
}

impl Versioned {
    /// The write as a policy wants it that is about this row.
    pub async fn new(
        attributes: &Attributes<'_>,
        matched: &Matched,
        object: Option<&Value>,
    ) -> Result<Self, StatusError> {
        let row = matched.resource(attributes);
        let (from, to) = (attributes.kind(), matched.kind(attributes));
        let ty = type_of(row, attributes.subresource);
        let tree = async |value: Option<&Value>| match value {
            Some(value) => {
                let value = converted(attributes.resource, Cow::Borrowed(value), from, to).await?;
                Ok(Some(versioned_object(&value, ty.schema(), to)))
            }
            None => Ok::<_, StatusError>(None),
        };
        let object = tree(object).await?;
        let old_object = tree(attributes.old).await?;
        let options = attributes.options.object();
        let request = admission_request(attributes, row, options.as_ref());
        let conditions_request = match matched {
            Matched::AsRequested => None,
            Matched::Equivalent(_) => Some(as_requested(&request)),
        };
        Ok(Versioned { row: row.kind.clone(), object, old_object, request, conditions_request })
    }

    /// What `request` is in match conditions.
    pub fn conditions_request(&self) -> &Value {
        self.conditions_request.as_ref().unwrap_or(&self.request)
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

/// What `namespaceObject` is: nothing for what is in no namespace, and for namespaces themselves.
pub(super) async fn namespace(subject: &Subject<'_>) -> Result<Option<Value>, StatusError> {
    let attributes = subject.attributes;
    let kind = attributes.kind();
    let is_namespace = kind.group.is_empty() && kind.version == "v1" && kind.kind == "Namespace";
    if attributes.namespace.is_empty() || is_namespace {
        return Ok(None);
    }
    Ok(Some(namespace_object(&subject.namespace_object().await?)))
}
