//! Variables that a policy's expressions may read, found by name.

use kevel_api::value::Value;

use super::environment::{AUTHORIZER, NAMESPACE, REQUEST};

/// Whether a text in a policy contains the name of a variable that is costly to build. A variable that is not mentioned
/// is not built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// `request`
    pub request: bool,
    /// `namespaceObject`
    pub namespace_object: bool,
    /// `authorizer`
    pub authorizer: bool,
}

impl Mentions {
    /// Searches all strings of a policy's spec.
    pub fn of(spec: &Value) -> Self {
        match spec {
            Value::String(text) => Mentions {
                request: text.contains(REQUEST),
                namespace_object: text.contains(NAMESPACE),
                authorizer: text.contains(AUTHORIZER),
            },
            Value::List(items) => items.iter().fold(Mentions::default(), Mentions::and),
            Value::Map(map) => {
                map.iter().map(|(_, value)| value).fold(Mentions::default(), Mentions::and)
            }
            _ => Mentions::default(),
        }
    }

    fn and(self, spec: &Value) -> Self {
        let other = Mentions::of(spec);
        Mentions {
            request: self.request || other.request,
            namespace_object: self.namespace_object || other.namespace_object,
            authorizer: self.authorizer || other.authorizer,
        }
    }
}
