use http::StatusCode;
use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;

use super::StoredRequest;
use crate::handler::Response;
use kevel_registry::failure::unserved;
use kevel_registry::resource::{Lister, SubresourceKind};

impl StoredRequest<'_> {
    pub(super) async fn get(self) -> Result<Response, StatusError> {
        if self.subresource.is_some_and(|sub| {
            matches!(sub.role, SubresourceKind::NotServed | SubresourceKind::NamedCreater(_))
        }) {
            return Err(unserved());
        }
        if self.flag("export") {
            let why = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(StatusError::bad_request(why));
        }
        if let Some(lister) = self.resource.lister.clone() {
            return self.get_found(&*lister).await;
        }
        let version = self.parameter("resourceVersion").unwrap_or_default();
        let wire = self.store().get(version).await?;
        self.object(StatusCode::OK, &wire).await
    }

    /// Responds with an object of a [`Lister`], which is computed and not stored (componentstatuses).
    async fn get_found(&self, lister: &dyn Lister) -> Result<Response, StatusError> {
        let not_found = || {
            let resource = GroupResource::new("", self.resource.singular.as_str());
            StatusError::not_found(&resource, self.name())
        };
        let object = lister.get(self.name()).await.ok_or_else(not_found)?;
        self.value(StatusCode::OK, object).await
    }
}
