//! Which policies see an object again that others have changed since.

use std::collections::HashSet;
use std::sync::Arc;

use kevel_api::value::Value;

/// What is evaluated once more or not: a policy with a binding and a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub policy: Arc<str>,
    pub binding: Arc<str>,
    pub param: Option<String>,
}

/// What is remembered from one round of plug-ins to the next.
#[derive(Debug, Default)]
pub(super) struct Reinvocations {
    /// What the policies made of the object.
    last_output: Option<Value>,
    /// Those that want to see what later ones do.
    invoked: HashSet<Key>,
    /// Those that have something to see.
    due: HashSet<Key>,
}

impl Reinvocations {
    /// Begins a second round: where others changed the object, all that wanted to know see it.
    pub fn begin_second_round(&mut self, object: Option<&Value>) {
        if self.last_output.as_ref() != object {
            self.object_changed();
        }
    }

    /// Everybody who was asked so far, and wants to know, sees what became of the object.
    pub fn object_changed(&mut self) {
        self.due.extend(self.invoked.drain());
    }

    pub fn is_due(&self, key: &Key) -> bool {
        self.due.contains(key)
    }

    /// Notes one that wants to see what later ones do.
    pub fn invoked(&mut self, key: Key) {
        self.invoked.insert(key);
    }

    /// Ends a round.
    pub fn end_round(&mut self, object: Option<&Value>) {
        self.last_output = object.cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy sees an object again if it was asked, and a later policy or another plug-in changed the object since.
    #[test]
    fn policies_are_due_where_the_object_has_changed_since() {
        let object = |text: &str| Some(Value::from(text));
        let key = Key { policy: "p".into(), binding: "b".into(), param: None };
        let other = Key { param: Some("ns/x".to_owned()), ..key.clone() };
        for (invoked, later_change, between, expected) in [
            (true, false, false, false),
            (true, true, false, true),
            (true, false, true, true),
            (true, true, true, true),
            (false, true, true, false),
            (false, false, false, false),
        ] {
            let mut known = Reinvocations::default();
            if invoked {
                known.invoked(key.clone());
            }
            if later_change {
                known.object_changed();
            }
            known.end_round(object("first").as_ref());
            known.begin_second_round(object(if between { "second" } else { "first" }).as_ref());
            let case = format!("{invoked} {later_change} {between}");
            assert_eq!(known.is_due(&key), expected, "{case}");
            assert!(!known.is_due(&other), "{case}: it was not asked with this parameter");
        }
    }
}
