//! Selectors of a list, watch or deletecollection, for authorization.

use kevel_api::selector::field::{self, FieldSelector};
use kevel_api::selector::label::{self, LabelSelector};

/// Field and label requirements of a list, watch or deletecollection. All must hold, so an authorizer that does not
/// know one only authorizes more than is requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// Field requirements.
    pub fields: Vec<field::Requirement>,
    /// Label requirements.
    pub labels: Vec<label::Requirement>,
}

/// No requirements: all objects.
pub static NO_SELECTORS: Selectors = Selectors { fields: Vec::new(), labels: Vec::new() };

impl Selectors {
    /// Selectors of a query. An invalid one is ignored here; it fails the request later.
    pub fn parse(fields: &str, labels: &str) -> Self {
        let (fields, labels) = (fields.parse(), labels.parse());
        Selectors::new(&fields.unwrap_or_default(), &labels.unwrap_or_default())
    }

    /// Requirements of decoded selectors.
    pub fn new(fields: &FieldSelector, labels: &LabelSelector) -> Self {
        Selectors { fields: fields.requirements().to_vec(), labels: labels.requirements().to_vec() }
    }

    /// Whether a field is required to equal a value.
    pub fn require(&self, field: &str, value: &str) -> bool {
        self.fields.iter().any(|requirement| {
            requirement.operator == field::Operator::Equals
                && requirement.field == field
                && requirement.value == value
        })
    }
}
