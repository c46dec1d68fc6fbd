//! Kind ControllerRevision: the stored history of DaemonSets and StatefulSets.

use kevel_api::value::Value;

use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::Field;

/// `controllerrevisions`
pub static KIND: Kind = Kind {
    columns: columns::apps::CONTROLLER_REVISION,
    rules: Rules { validate_create, validate_update, ..Rules::NONE },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("apps", "controllerrevisions")
};

fn validate_create(revision: Field) {
    revision.at("revision").non_negative();
    let data = revision.at("data");
    match data.get() {
        None | Some(Value::Null) => data.required("data is mandatory"),
        Some(Value::Raw(text)) if text.trim() == "null" => data.required("data is mandatory"),
        Some(Value::Raw(text)) if !text.trim_start().starts_with('{') => {
            data.required("data must be a valid JSON object");
        }
        Some(_) => {}
    }
}

fn validate_update(revision: Field, old: Field) {
    revision.at("revision").non_negative();
    revision.at("data").immutable(&old.at("data"));
}
