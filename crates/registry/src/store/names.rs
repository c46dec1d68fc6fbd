//! Keys of objects. An object is only written under the name and namespace that were authorized: one that a plug-in or
//! patch has renamed or moved is refused.

use kevel_api::name::is_path_segment_name;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::Store;
use crate::metadata;
use crate::scope::other_namespace;
use crate::storage::{local_key, shown_key};

impl Store<'_> {
    /// Key of a named object in the request's namespace, relative to the resource's prefix.
    pub fn local_key(&self, name: &str) -> Result<String, StatusError> {
        let namespace = self.namespace();
        if self.resource.namespaced && namespace.is_empty() {
            return Err(StatusError::bad_request("Namespace parameter required."));
        }
        if name.is_empty() {
            return Err(StatusError::bad_request("Name parameter required."));
        }
        let problems = is_path_segment_name(name, false);
        if !problems.is_empty() {
            let (name, problems) = (quote(name), problems.join(";"));
            let message = format!("Name parameter invalid: {name}: {problems}");
            return Err(StatusError::bad_request(message));
        }
        self.check_path(name)?;
        Ok(local_key(namespace, name))
    }

    /// Refuses the namespaces `.` and `..`, which are not valid in keys. `name` is empty for a whole namespace.
    pub fn check_path(&self, name: &str) -> Result<(), StatusError> {
        let namespace = self.namespace();
        if !matches!(namespace, "." | "..") {
            return Ok(());
        }
        let local = [namespace, name].join("/");
        let key = shown_key(&self.storage.key_of(local.trim_end_matches('/')));
        Err(StatusError::unknown(500, format!("invalid key: {}", quote(&key))))
    }

    /// Key under which the object is written. Called last: the object must not change afterwards.
    pub(crate) fn write_key(&self, object: &Value) -> Result<Vec<u8>, StatusError> {
        if metadata::text(object, "namespace") != self.namespace() {
            return Err(other_namespace());
        }
        // Only a create has no name in its path.
        if !self.name().is_empty() {
            self.check_name(object)?;
        }
        let key = self.local_key(metadata::text(object, "name"))?;
        Ok(self.storage.key_of(&key))
    }
}
