//! Deletion of objects: at once, or after finalizers and the grace period (upstream: `Store.Delete`).

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_component::future::{Pending, join_all};
use kevel_store::cache::At;

use super::Store;
use super::list::Page;
use super::update::Existing;
use crate::admission::{Attributes, Operation, OperationOptions};
use crate::deletion::{DeleteOptions, Deletion, DeletionPlan, Outcome, before_delete};
use crate::guaranteed_update::{Failed, guaranteed_update};
use crate::metadata;
use crate::verb::Verb;

/// Most workers of a deletecollection, whatever `--delete-collection-workers` is.
const MAX_WORKERS: usize = 256;

/// Outcome of a deletion.
#[derive(Debug)]
pub enum Deleted {
    /// Removed, or already being deleted; holds the last state.
    Done(Value),
    /// Marked for deletion; removed when finalizers and grace period allow. Holds the wire bytes.
    Pending(Bytes),
}

impl Store<'_> {
    /// Deletes the object.
    pub async fn delete(&self, options: &DeleteOptions) -> Result<Deleted, StatusError> {
        self.warn_of_dependents(options);
        self.context.span.event("About to delete object from database");
        self.delete_named(self.name(), options).await
    }

    /// Deletes the objects of a page of a list.
    pub async fn delete_collection(
        &self,
        page: &Page,
        options: &DeleteOptions,
    ) -> Result<(), StatusError> {
        let workers = self.storage.registry.delete_collection_workers.clamp(1, MAX_WORKERS);
        let (this, items) = (&self, &page.items);
        let next = &AtomicUsize::new(0);
        // A worker ends at its first failure and leaves the remaining objects to the other workers.
        let work = |_| -> Pending<'_, Result<(), StatusError>> {
            Box::pin(async move {
                while let Some(object) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match this.delete_named(object.name(), options).await {
                        // Deleted meanwhile by another request.
                        Err(error) if error.reason() == reason::NOT_FOUND => {}
                        deleted => drop(deleted?),
                    }
                }
                Ok(())
            })
        };
        join_all((0..workers.min(items.len())).map(work).collect()).await
    }

    /// Warns of dependents that are orphaned, where the kind does so by default.
    pub fn warn_of_dependents(&self, options: &DeleteOptions) {
        if options.propagation.is_none() && options.orphan_dependents.is_none() {
            let warning = self.resource.strategy.deletion_warning();
            warning.into_iter().for_each(|warning| self.context.warnings.add(warning));
        }
    }

    async fn delete_named(
        &self,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, StatusError> {
        let read = |at| self.existing_named(name, at);
        let delete = |existing: Option<Existing>| async move {
            let missing = || StatusError::not_found(&self.group_resource(), name);
            self.delete_once(name, &existing.ok_or_else(missing)?, options).await
        };
        guaranteed_update(At::Any, read, delete, || self.modified(name)).await
    }

    async fn delete_once(
        &self,
        name: &str,
        existing: &Existing,
        options: &DeleteOptions,
    ) -> Result<Deleted, Failed> {
        let old = &existing.value;
        options.check(self.resource, old)?;
        let garbage_collection = self.storage.registry.garbage_collection;
        let plan = before_delete(
            &*self.resource.strategy,
            garbage_collection,
            old,
            options,
            Time::now(self.context.clock),
        );
        let namespace = metadata::text(old, "namespace");
        // A deletion already under way is not admitted again.
        if !matches!(plan, DeletionPlan::AlreadyDeleting) {
            self.admit_deletion(old, options).await?;
        }
        let plan = match plan {
            DeletionPlan::Mark(object) => DeletionPlan::Mark(self.to_storage(object).await?),
            DeletionPlan::MarkAndRemove(object) => {
                DeletionPlan::MarkAndRemove(self.to_storage(object).await?)
            }
            plan => plan,
        };
        let deletion = Deletion {
            storage: self.storage.clone(),
            key: self.storage.key(namespace, name),
            revision: existing.revision,
            fresh: existing.fresh,
            allocation: self.resource.allocation.clone(),
            exact: options.resource_version.is_some(),
        };
        let before = match (&plan, &deletion.allocation) {
            (DeletionPlan::Mark(_), _) | (_, Some(_)) => self.to_storage(old.clone()).await?,
            _ => Value::Null,
        };
        match deletion.carry_out(plan, before, options.is_dry_run()).await? {
            Outcome::Gone(None) => Ok(Deleted::Done(old.clone())),
            Outcome::Gone(Some(last)) => {
                let wire = self.wire(&last.bytes, last.revision)?;
                Ok(Deleted::Done(self.served(&wire).await?))
            }
            Outcome::Kept(now) => Ok(Deleted::Pending(self.wire(&now.bytes, now.revision)?)),
        }
    }

    /// Runs admission for the deletion of an object. For a deletecollection the attributes carry the object, but no
    /// name.
    async fn admit_deletion(
        &self,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<(), StatusError> {
        let attributes = self.attributes(Operation::Delete, options.is_dry_run());
        let effective = match self.context.verb {
            Verb::DeleteCollection => options.clone(),
            _ => options.effective(&*self.resource.strategy, old),
        };
        let options = OperationOptions::Delete(&effective);
        let attributes = Attributes { old: Some(old), options, ..attributes };
        let admission = &self.admission;
        admission.admit(&attributes, None).await?;
        admission.validate(&attributes, None).await
    }
}
