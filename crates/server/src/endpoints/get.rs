use http::StatusCode;
use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_store::cache::{At, Wire};

use super::StoredRequest;
use crate::failure::{cache_error, unserved};
use crate::handler::Response;
use crate::resource::{Lister, SubresourceKind};

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
        let key = self.local_key(self.name())?;
        self.span.event("About to Get from storage");
        let (at, span) = (self.get_at()?, self.get_span());
        if span.is_recording()
            && at == At::Consistent
            && let Some(stored) = span.scope(self.get_stored(&key)).await
        {
            drop(span);
            return self.object(StatusCode::OK, &stored.bytes).await;
        }
        span.event("About to fetch object from cache");
        let found = span.scope(self.storage.cache.get(&key, at)).await.map_err(cache_error)?;
        drop(span);
        let not_found = || StatusError::not_found(&self.group_resource(), self.name());
        let object = found.ok_or_else(not_found)?;
        let wire = object.wire().map_err(|_| self.unreadable(&object))?;
        self.object(StatusCode::OK, wire).await
    }

    /// Reads an object from the store, as the reference does where no version is asked for: the trace shows how it is read
    /// and decrypted. Nothing if that fails; the cache has the reasons.
    async fn get_stored(&self, key: &str) -> Option<Wire> {
        kevel_trace::event("About to Get from underlying storage");
        let found = self.storage.engine.get(&self.storage.key_of(key), None).await.ok()?;
        let entry = found.entry?;
        self.storage.wire(&entry.value, entry.mod_revision).ok()
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
