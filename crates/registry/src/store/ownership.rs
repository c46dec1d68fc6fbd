//! Field ownership (`managedFields`) of every write.

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_patch::managed_fields::{FieldManager, Filter, PathElement};

use super::Store;
use super::versions::Versions;
use crate::context::WriteOptions;
use crate::resource::SubresourceKind;

impl Store<'_> {
    /// Records the fields that a write other than apply sets.
    pub(crate) fn record(&self, old: Option<&Value>, new: &mut Value, options: &WriteOptions) {
        self.with_field_manager(|manager| {
            manager.update(old, new, &options.field_manager, Time::now(self.context.clock));
        });
        self.forget_time_of_scales(new);
    }

    /// Removes the time from a Scale's managedFields entries, since their ownership is computed by another kind.
    pub fn forget_time_of_scales(&self, object: &mut Value) {
        if self.scale().is_none() {
            return;
        }
        let list = object.at_mut(&["metadata", "managedFields"]).and_then(Value::as_list_mut);
        let Some(list) = list else { return };
        let name = self.context.subresource;
        for entry in list.iter_mut().filter(|entry| entry.str_at(&["subresource"]) == name) {
            if let Some(entry) = entry.as_map_mut() {
                entry.remove("time");
            }
        }
        // Apply entries before Update entries, then by time.
        list.sort_by_cached_key(|entry| {
            (entry.str_at(&["operation"]) != "Apply", entry.str_at(&["time"]).to_owned())
        });
    }

    /// Runs the field manager of the request's kind and version.
    pub fn with_field_manager<T>(&self, work: impl FnOnce(FieldManager<'_>) -> T) -> T {
        let filter = self.filter();
        let api_version = self.resource.api_version();
        work(FieldManager {
            schema: self.resource.ty.schema(),
            api_version: &api_version,
            kind: &self.resource.kind.kind,
            subresource: self.context.subresource,
            filter: &filter,
            others: &Versions {
                storage: self.storage,
                group: &self.resource.kind.group,
                kind: &self.resource.kind.kind,
                filter: &filter,
                converted: &self.converted,
            },
        })
    }

    /// Filter of the fields that writers of this path own (upstream: `GetResetFields`): the object's do not own fields
    /// of its subresources, nor the other way round.
    fn filter(&self) -> Filter {
        let field = |name: &str| vec![Some(PathElement::field(name))];
        match self.subresource.map(|sub| &sub.role) {
            Some(SubresourceKind::Status) => {
                Filter::excluding(self.resource.strategy.reset_by_status())
            }
            Some(SubresourceKind::Fields(fields)) => {
                let step = |name: &&str| (*name != "*").then(|| PathElement::field(name));
                let paths = fields.paths.iter().map(|path| path.iter().map(step).collect());
                let metadata = fields.metadata.then(|| field("metadata"));
                Filter::Include(paths.chain(metadata).collect())
            }
            _ => {
                let reset: Vec<&str> = self.resource.reset_fields().collect();
                let paths: Vec<&[&str]> = reset.iter().map(std::slice::from_ref).collect();
                if paths.is_empty() { Filter::All } else { Filter::excluding(&paths) }
            }
        }
    }
}
