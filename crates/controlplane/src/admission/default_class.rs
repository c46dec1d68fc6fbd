//! The class of those that name none, where a class says to be it.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::lister::Lister;

/// The newest class with one of these annotations; of those as old as each other the first by name.
pub(super) async fn default_class(
    classes: &Lister,
    annotations: &[&str],
) -> Result<Option<Arc<Value>>, StatusError> {
    let is_default = |class: &Arc<Value>| {
        let says = |key: &&str| class.str_at(&["metadata", "annotations", key]) == "true";
        annotations.iter().any(says)
    };
    let mut defaults: Vec<_> = classes.list("").await?.into_iter().filter(is_default).collect();
    let metadata = |class: &Arc<Value>, field| class.str_at(&["metadata", field]).to_owned();
    defaults.sort_by_key(|class| metadata(class, "name"));
    defaults.sort_by_key(|class| std::cmp::Reverse(metadata(class, "creationTimestamp")));
    Ok(defaults.into_iter().next())
}
