//! Which variables expressions may look at.

use kevel_api::value::Value;

use super::environment::{AUTHORIZER, NAMESPACE, REQUEST};

/// The variables that are not at hand anyway, and whether one of a policy's texts has their name in it: what is not
/// mentioned need not be made.
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
    /// What any text of a spec mentions.
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
