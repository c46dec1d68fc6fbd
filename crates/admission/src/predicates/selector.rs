//! `namespaceSelector` and `objectSelector` of a webhook or policy.

use kevel_api::selector::label::LabelSelector;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_registry::admission::{Attributes, Operation};

use super::Subject;

/// Compiled selectors. An invalid selector is an error for every request that it would decide on.
#[derive(Clone, Debug)]
pub(super) struct Selectors {
    namespace: Result<LabelSelector, String>,
    object: Result<LabelSelector, String>,
}

impl Selectors {
    pub fn new(criteria: &Value) -> Self {
        let selector = |field| {
            LabelSelector::from_value(criteria.at(&[field])).map_err(|error| error.to_string())
        };
        Selectors { namespace: selector("namespaceSelector"), object: selector("objectSelector") }
    }

    /// Whether `objectSelector` selects the new or the old object.
    pub fn match_object(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<bool, StatusError> {
        let selector = self.object.as_ref().map_err(StatusError::internal)?;
        if selector.is_empty() {
            return Ok(true);
        }
        // The options of a connect request have no labels, so that no selector matches them.
        let object = object.filter(|_| attributes.operation != Operation::Connect);
        Ok([object, attributes.old].into_iter().flatten().any(|object| selector.selects(object)))
    }

    /// Whether `namespaceSelector` selects the namespace of the request. A cluster-scoped object is always selected.
    pub async fn match_namespace(
        &self,
        subject: &Subject<'_>,
        object: Option<&Value>,
    ) -> Result<bool, StatusError> {
        let attributes = subject.attributes;
        let of_namespaces = attributes.resource.plural == "namespaces";
        if attributes.namespace.is_empty() && !of_namespaces {
            return Ok(true);
        }
        let selector = self.namespace.as_ref().map_err(StatusError::internal)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if of_namespaces && attributes.subresource.is_empty() && written {
            // The request's object has the labels; the cached namespace is older.
            return Ok(object.is_some_and(|object| selector.selects(object)));
        }
        let namespace = subject.namespace().await?;
        Ok(selector.selects(&**namespace))
    }
}
