//! Kind PriorityClass: validation.

use kevel_api::value::Value;

use crate::columns;
use crate::kind::Kind;
use crate::priority_classes::CLASSES;
use crate::rules::Rules;
use crate::validation::Field;

/// `priorityclasses`
pub static KIND: Kind = Kind {
    columns: columns::scheduling::PRIORITY_CLASS,
    rules: Rules {
        // The generation is 1 from creation and never raised.
        prepare_for_create: |class, _| {
            class.make_map(&["metadata"]).insert("generation", Value::Int(1));
        },
        validate_create,
        validate_update,
        ..Rules::NONE
    },
    ..Kind::new("scheduling.k8s.io", "priorityclasses")
};

/// Maximum value of a class that is not a system class.
const HIGHEST: i64 = 1_000_000_000;

fn validate_create(class: Field) {
    let metadata = class.at("metadata");
    let (name, value) = (metadata.at("name"), class.at("value"));
    if name.str().starts_with("system-") {
        if let Some(why) = unlike_the_system_s(class, name.str(), value.int()) {
            name.forbidden(format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {why}"
            ));
        }
    } else if value.int() > HIGHEST {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        value.forbidden(why);
    }
    let policy = class.at("preemptionPolicy");
    if policy.is_set() {
        policy.must_one_of("", &["PreemptLowerPriority", "Never"]);
    }
}

fn unlike_the_system_s(class: Field, name: &str, value: i64) -> Option<String> {
    match CLASSES.iter().find(|(known, ..)| *known == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, known, _)) if *known != value => {
            Some(format!("value of {name} PriorityClass must be {known}"))
        }
        Some(_) if class.at("globalDefault").bool() => {
            Some(format!("globalDefault of {name} PriorityClass must be false"))
        }
        Some(_) => None,
    }
}

fn validate_update(class: Field, old: Field) {
    let value = class.at("value");
    if !value.same(&old.at("value")) {
        value.forbidden("may not be changed in an update.");
    }
    class.at("preemptionPolicy").immutable(&old.at("preemptionPolicy"));
}
