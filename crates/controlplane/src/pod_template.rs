//! Kind PodTemplate: strategy and validation.

use crate::columns;
use crate::kind::Kind;
use crate::pod::template;
use crate::rules::Rules;

const TEMPLATE: &[&str] = &["template"];

/// `podtemplates`
pub static KIND: Kind = Kind {
    returns_deleted_object: true,
    counts_generation: true,
    columns: columns::core::POD_TEMPLATE,
    rules: Rules {
        prepare_for_create: |object, capabilities| {
            template::prepare_at(object, None, TEMPLATE, capabilities)
        },
        validate_create: |object| template::check(object.at("template"), None),
        prepare_for_update: |object, old, capabilities| {
            template::prepare_at(object, Some(old), TEMPLATE, capabilities)
        },
        validate_update: |object, old| {
            template::check(object.at("template"), Some(old.at("template")))
        },
        warnings: |object, old| template::template_warnings(object, old, TEMPLATE),
        ..Rules::NONE
    },
    ..Kind::new("", "podtemplates")
};
