//! What a request for many objects is narrowed to.

use kevel_api::selector::field::{self, FieldSelector};
use kevel_api::selector::label::{self, LabelSelector};

/// What lists, watches and deletions of collections require of the objects. All requirements must
/// hold, so one that an authorizer does not know of only makes it judge more than is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// Requirements on fields.
    pub fields: Vec<field::Requirement>,
    /// Requirements on labels.
    pub labels: Vec<label::Requirement>,
}

/// All objects.
pub static NO_SELECTORS: Selectors = Selectors { fields: Vec::new(), labels: Vec::new() };

impl Selectors {
    /// The selectors of a query. One that cannot be read narrows nothing: the request will fail
    /// because of it, but not here.
    pub fn parse(fields: &str, labels: &str) -> Self {
        let (fields, labels) = (fields.parse(), labels.parse());
        Selectors::new(&fields.unwrap_or_default(), &labels.unwrap_or_default())
    }

    /// What selectors require.
    pub fn new(fields: &FieldSelector, labels: &LabelSelector) -> Self {
        Selectors { fields: fields.requirements().to_vec(), labels: labels.requirements().to_vec() }
    }

    /// Whether a field must have a value.
    pub fn require(&self, field: &str, value: &str) -> bool {
        self.fields.iter().any(|requirement| {
            requirement.operator == field::Operator::Equals
                && requirement.field == field
                && requirement.value == value
        })
    }
}
