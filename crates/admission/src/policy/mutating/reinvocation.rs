//! Reinvocation of policies with `reinvocationPolicy: IfNeeded` after a later change to the object (upstream:
//! policyReinvokeContext).

use std::collections::HashSet;
use std::sync::Arc;

use kevel_api::value::Value;

/// Unit of reinvocation: a policy with a binding and a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub policy: Arc<str>,
    pub binding: Arc<str>,
    pub param: Option<String>,
}

/// State that is kept from the first round of plug-ins to the second.
#[derive(Debug, Default)]
pub(super) struct Reinvocations {
    /// Object at the end of the first round.
    last_output: Option<Value>,
    /// `IfNeeded` policies that have run since the last change.
    invoked: HashSet<Key>,
    /// `IfNeeded` policies to run again.
    due: HashSet<Key>,
}

impl Reinvocations {
    /// Begins the second round: if other plug-ins changed the object, all `IfNeeded` policies that ran are due.
    pub fn begin_second_round(&mut self, object: Option<&Value>) {
        if self.last_output.as_ref() != object {
            self.object_changed();
        }
    }

    /// Makes all `IfNeeded` policies that have run so far due.
    pub fn object_changed(&mut self) {
        self.due.extend(self.invoked.drain());
    }

    pub fn is_due(&self, key: &Key) -> bool {
        self.due.contains(key)
    }

    /// Records that an `IfNeeded` policy ran.
    pub fn invoked(&mut self, key: Key) {
        self.invoked.insert(key);
    }

    /// Ends a round with the object as it is then.
    pub fn end_round(&mut self, object: Option<&Value>) {
        self.last_output = object.cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy is due again if it ran, and a later policy or another plug-in changed the object since.
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
