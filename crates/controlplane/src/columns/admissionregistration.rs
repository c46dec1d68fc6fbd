//! `admissionregistration.k8s.io`

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Part, Shown, UNSET, cells};

const WEBHOOKS: Kind = Kind {
    definitions: &[Column::NAME, Column::integer("Webhooks", "How many there are."), Column::AGE],
    cells: |o| cells![o.name(), o.count("webhooks"), o.age()],
    ..Kind::PLAIN
};

const BINDINGS: Kind = Kind {
    definitions: &[
        Column::NAME,
        Column::text("PolicyName", "The policy that is put to use."),
        Column::text("ParamRef", "What its parameters are."),
        Column::AGE,
    ],
    cells: |o| cells![o.name(), o.text("spec.policyName"), parameters(o), o.age()],
    ..Kind::PLAIN
};

const PARAM_KIND: Column = Column::text("ParamKind", "What kind its parameters are of.");

pub(super) const KINDS: &[Kind] = &[
    Kind { plural: "mutatingwebhookconfigurations", ..WEBHOOKS },
    Kind { plural: "validatingwebhookconfigurations", ..WEBHOOKS },
    Kind { plural: "mutatingadmissionpolicybindings", ..BINDINGS },
    Kind { plural: "validatingadmissionpolicybindings", ..BINDINGS },
    Kind {
        plural: "mutatingadmissionpolicies",
        definitions: &[
            Column::NAME,
            Column::integer("Mutations", "How many changes it makes."),
            PARAM_KIND,
            Column::AGE,
        ],
        cells: |o| policies(o, "spec.mutations"),
        ..Kind::PLAIN
    },
    Kind {
        plural: "validatingadmissionpolicies",
        definitions: &[
            Column::NAME,
            Column::integer("Validations", "How many rules it has."),
            PARAM_KIND,
            Column::AGE,
        ],
        cells: |o| policies(o, "spec.validations"),
        ..Kind::PLAIN
    },
];

fn policies(o: &Shown<'_>, rules: &str) -> Vec<Value> {
    let kind = o.at("spec.paramKind");
    let kind = match kind.is_set() {
        true => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
        false => UNSET.into(),
    };
    cells![o.name(), o.count(rules), kind, o.age()]
}

fn parameters(o: &Shown<'_>) -> String {
    let parameters = o.at("spec.paramRef");
    match parameters.text("name") {
        "" if parameters.at("selector").is_set() => go_selector(parameters.at("selector")),
        "" => UNSET.into(),
        name => format!("{}/{name}", parameters.text_or("namespace", "*")),
    }
}

/// A label selector as Go prints the struct.
fn go_selector(selector: Part<'_>) -> String {
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
