//! Columns of `admissionregistration.k8s.io`.

use kevel_registry::columns::Column;

use super::cell::{FieldValue, Shown, UNSET};
use super::{Columns, columns};

pub(crate) const WEBHOOKS: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::integer("Webhooks", "How many there are.") => o.count("webhooks"),
    Column::AGE => o.age(),
);

pub(crate) const BINDINGS: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("PolicyName", "The policy that is put to use.") => o.text("spec.policyName"),
    Column::text("ParamRef", "What its parameters are.") => parameters(o),
    Column::AGE => o.age(),
);

const PARAM_KIND: Column = Column::text("ParamKind", "What kind its parameters are of.");

pub(crate) const MUTATING_ADMISSION_POLICY: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::integer("Mutations", "How many changes it makes.") => o.count("spec.mutations"),
    PARAM_KIND => parameter_kind(o),
    Column::AGE => o.age(),
);

pub(crate) const VALIDATING_ADMISSION_POLICY: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::integer("Validations", "How many rules it has.") => o.count("spec.validations"),
    PARAM_KIND => parameter_kind(o),
    Column::AGE => o.age(),
);

fn parameter_kind(o: &Shown<'_>) -> String {
    let kind = o.at("spec.paramKind");
    match kind.is_set() {
        true => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
        false => UNSET.into(),
    }
}

fn parameters(o: &Shown<'_>) -> String {
    let parameters = o.at("spec.paramRef");
    match parameters.text("name") {
        "" if parameters.at("selector").is_set() => go_selector(parameters.at("selector")),
        "" => UNSET.into(),
        name => format!("{}/{name}", parameters.text_or("namespace", "*")),
    }
}

/// Label selector as Go prints the struct.
fn go_selector(selector: FieldValue<'_>) -> String {
    let labels: String = selector
        .entries("matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_text()))
        .collect();
    let expressions: String = selector
        .each("matchExpressions")
        .map(|expression| {
            let [key, operator] = ["key", "operator"].map(|field| expression.text(field));
            let values = expression.joined("values", "", " ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
