//! Delete requests, for an object or a collection.

use http::StatusCode;
use kevel_api::status::{SUCCESS, Status, StatusDetails, StatusError};
use kevel_registry::deletion::DeleteOptions;
use kevel_registry::failure::unserved;
use kevel_registry::metadata;
use kevel_registry::store::Deleted;

use super::StoredRequest;
use crate::handler::Response;
use crate::responses::status_response;

impl StoredRequest<'_> {
    pub(super) async fn delete(mut self) -> Result<Response, StatusError> {
        if self.subresource.is_some() {
            return Err(unserved());
        }
        let options = self.delete_options().await?;
        if options.ignore_read_error {
            return self.delete_corrupt().await;
        }
        let deleted = self.store().delete(&options).await?;
        self.delete_response(deleted, &options).await
    }

    /// Deletes the objects that a list with the same options selects, and answers with that list.
    pub(super) async fn delete_collection(mut self) -> Result<Response, StatusError> {
        self.selection()?;
        let options = self.delete_options().await?;
        if options.ignore_read_error {
            return Err(super::corrupt::refuse_collection());
        }
        self.store().warn_of_dependents(&options);
        let page = self.page().await?;
        self.store().delete_collection(&page, &options).await?;
        self.list_response(page).await
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
