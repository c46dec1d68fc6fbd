//! Migration from client-side apply and its last-applied-configuration annotation (upstream: lastAppliedManager,
//! lastAppliedUpdater).

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode_any, encode_any};

use super::apply::{Applied, ApplyError};
use super::atom::TypeRef;
use super::compare::{Of, compare};
use super::entry::Managed;
use super::field_manager::FieldManager;
use super::field_set::field_set;
use super::set::Set;
use super::validate::{Duplicates, validate};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Manager of client-side apply.
const KUBECTL: &str = "kubectl";

/// Limit on the size of an object's annotations, keys and values together.
const MAX_ANNOTATIONS: usize = 256 << 10;

impl FieldManager<'_> {
    /// Applies a configuration. Fields that kubectl applied client-side, and that are unchanged since, are no conflict
    /// for kubectl, and its annotation is kept up to date.
    pub(super) fn apply_over_last_applied(
        &self,
        live: &Value,
        config: &Value,
        managed: Managed,
        manager: &str,
        force: bool,
        now: Time,
    ) -> Result<Applied, ApplyError> {
        let apply = |managed, force| self.apply_once(live, config, managed, manager, force, now);
        if manager != KUBECTL {
            return apply(managed, force);
        }
        let mut applied = match apply(managed.clone(), force) {
            Err(ApplyError::Conflicts(conflicts)) => match self.owned_by_last_applied(live) {
                Some(owned) => match conflicts.without(&owned) {
                    Some(rest) => return Err(ApplyError::Conflicts(rest)),
                    None => apply(managed, true)?,
                },
                None => return Err(ApplyError::Conflicts(conflicts)),
            },
            other => other?,
        };
        write_annotation(&mut applied.tree, config);
        Ok(applied)
    }

    /// Fields of the last applied configuration that are unchanged in the object.
    fn owned_by_last_applied(&self, live: &Value) -> Option<Set> {
        let text = live.str_at(&["metadata", "annotations", ANNOTATION]);
        let last = decode_any(text.as_bytes(), Unknown::Ignore).ok()?.value;
        if last.str_at(&["apiVersion"]) != self.api_version || last.str_at(&["kind"]) != self.kind {
            return None;
        }
        let ty = TypeRef::of(self.schema);
        validate(live, ty, Duplicates::Forbid).ok()?;
        validate(&last, ty, Duplicates::Forbid).ok()?;
        let changes = compare(&last, live, ty, Of::Documents).ok()?;
        let changed = changes.modified.union(&changes.added).union(&changes.removed);
        Some(field_set(&last, ty).difference(&changed))
    }
}

/// Writes the configuration to the annotation of an object that has one.
fn write_annotation(tree: &mut Value, config: &Value) {
    if tree.str_at(&["metadata", "annotations", ANNOTATION]).is_empty() {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Map(annotations)) = config.at_mut(&["metadata", "annotations"]) {
        annotations.remove(ANNOTATION);
    }
    let mut text = Vec::new();
    encode_any(&config, &mut text);
    text.push(b'\n');
    let text = String::from_utf8_lossy(&text);
    if let Some(Value::Map(annotations)) = tree.at_mut(&["metadata", "annotations"]) {
        annotations.insert(ANNOTATION, Value::from(text.as_ref()));
        if size(annotations) > MAX_ANNOTATIONS {
            annotations.remove(ANNOTATION);
        }
    }
}

fn size(annotations: &Map) -> usize {
    annotations.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum()
}
