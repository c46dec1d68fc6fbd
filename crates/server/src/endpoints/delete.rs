//! Deletion of objects: at once, or after finalizers and the grace period.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::StatusCode;
use kevel_api::status::{SUCCESS, Status, StatusDetails, StatusError};
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_store::cache::At;

use super::StoredRequest;
use super::update::Existing;
use crate::admission::{Attributes, Operation, OperationOptions};
use crate::deletion::{DeleteOptions, Deletion, DeletionPlan, Outcome, before_delete};
use crate::failure::unserved;
use crate::future::{Pending, join_all};
use crate::guaranteed_update::{Failed, guaranteed_update};
use crate::handler::Response;
use crate::metadata;
use crate::responses::status_response;
use crate::verb::Verb;

/// Most workers of a deletecollection, whatever `--delete-collection-workers` is.
const MAX_WORKERS: usize = 256;

/// Outcome of a deletion.
enum Deleted {
    /// Removed, or already being deleted; holds the last state.
    Done(Value),
    /// Marked for deletion; removed when finalizers and grace period allow. Holds the wire bytes.
    Pending(Bytes),
}

impl StoredRequest<'_> {
    pub(super) async fn delete(mut self) -> Result<Response, StatusError> {
        if self.subresource.is_some() {
            return Err(unserved());
        }
        let options = self.delete_options().await?;
        if options.ignore_read_error {
            return self.delete_corrupt().await;
        }
        self.warn_of_dependents(&options);
        self.span.event("About to delete object from database");
        let deleted = self.delete_named(self.name(), &options).await?;
        self.delete_response(deleted, &options).await
    }

    /// Deletes the objects that a list with the same options selects, and answers with that list.
    pub(super) async fn delete_collection(mut self) -> Result<Response, StatusError> {
        self.selection()?;
        let options = self.delete_options().await?;
        if options.ignore_read_error {
            return Err(super::corrupt::refuse_collection());
        }
        self.warn_of_dependents(&options);
        let page = self.page().await?;
        let workers = self.storage.registry.delete_collection_workers.clamp(1, MAX_WORKERS);
        let (this, options, items) = (&self, &options, &page.items);
        let next = &AtomicUsize::new(0);
        // A worker ends at its first failure and leaves the remaining objects to the other workers.
        let work = |_| -> Pending<'_, Result<(), StatusError>> {
            Box::pin(async move {
                while let Some(object) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match this.delete_named(object.name(), options).await {
                        // Deleted meanwhile by another request.
                        Err(error) if error.reason() == kevel_api::status::reason::NOT_FOUND => {}
                        deleted => drop(deleted?),
                    }
                }
                Ok(())
            })
        };
        join_all((0..workers.min(items.len())).map(work).collect()).await?;
        self.list_response(page).await
    }

    fn warn_of_dependents(&self, options: &DeleteOptions) {
        if options.propagation.is_none() && options.orphan_dependents.is_none() {
            let warning = self.resource.strategy.deletion_warning();
            warning.into_iter().for_each(|warning| self.request.warnings.add(warning));
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
            Time::now(self.request.clock()),
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
        let effective = match self.request.info.verb {
            Verb::DeleteCollection => options.clone(),
            _ => options.effective(&*self.resource.strategy, old),
        };
        let options = OperationOptions::Delete(&effective);
        let attributes = Attributes { old: Some(old), options, ..attributes };
        let admission = &self.endpoints.admission;
        admission.admit(&attributes, None).await?;
        admission.validate(&attributes, None).await
    }

    /// The response: a `Status` for a removed object, the object itself if it is only marked.
    async fn delete_response(
        &self,
        deleted: Deleted,
        options: &DeleteOptions,
    ) -> Result<Response, StatusError> {
        let object = match deleted {
            Deleted::Pending(wire) => {
                let cascading = options.orphan_dependents == Some(false);
                let code = if cascading { StatusCode::ACCEPTED } else { StatusCode::OK };
                return self.object(code, &wire).await;
            }
            Deleted::Done(object) => object,
        };
        if self.resource.strategy.returns_deleted_object() {
            return self.value(StatusCode::OK, object).await;
        }
        let status = Status {
            status: SUCCESS.into(),
            details: Some(Box::new(StatusDetails {
                name: self.name().to_owned().into(),
                group: self.resource.kind.group.to_string().into(),
                kind: self.resource.plural.clone().into(),
                uid: metadata::text(&object, "uid").to_owned().into(),
                ..StatusDetails::default()
            })),
            ..Status::default()
        };
        let serializing = self.serializing();
        serializing.finish(Ok(status_response(StatusCode::OK, &status, &self.accepted)))
    }
}
