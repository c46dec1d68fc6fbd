//! Store of a resource's objects, for one request (upstream: `registry.Store`, called with a `context.Context`).

mod admission;
mod continue_token;
mod create;
mod delete;
mod get;
mod list;
mod names;
mod ownership;
mod scale;
mod spans;
pub mod timestamps;
mod unreadable;
mod update;
mod version_selector;
mod versions;

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_store::cache::At;

pub use self::continue_token::ContinueToken;
pub use self::create::wipe_system_fields;
pub use self::delete::Deleted;
pub use self::list::{ListQuery, ObjectSelection, Page, WatchStart};
pub use self::unreadable::lost;
pub use self::update::Existing;
pub use self::version_selector::VersionSelector;

use self::versions::ConvertedVersions;
use crate::scope::RequestScope;
use crate::storage::Storage;

/// Store of a resource's objects in one version, for one request.
#[derive(Debug)]
pub struct Store<'a> {
    scope: RequestScope<'a>,
    /// Storage of the objects.
    pub storage: &'a Arc<Storage>,
    /// The object in the versions that a conversion webhook has returned.
    converted: ConvertedVersions,
}

impl<'a> Deref for Store<'a> {
    type Target = RequestScope<'a>;

    fn deref(&self) -> &RequestScope<'a> {
        &self.scope
    }
}

/// Result of a write, or of the dry run of one.
#[derive(Debug)]
pub struct Written {
    /// Whether the object was created: an update or apply may create, too.
    pub created: bool,
    /// The object as written.
    pub object: WrittenObject,
}

/// An object that has been written.
#[derive(Debug)]
pub enum WrittenObject {
    /// Wire bytes in the version that is stored.
    Wire(Bytes),
    /// Tree as the client sees it.
    Tree(Value),
}

impl<'a> Store<'a> {
    /// The store of a request.
    pub fn new(scope: RequestScope<'a>, storage: &'a Arc<Storage>) -> Self {
        Store { scope, storage, converted: ConvertedVersions::default() }
    }

    /// Freshness of `resourceVersion=0`: any cached state, or consistent if the watch cache is off.
    pub fn any(&self) -> At {
        if self.storage.registry.watch_cache { At::Any } else { At::Consistent }
    }

    /// Decodes an object in the requested version.
    pub async fn served(&self, wire: &Bytes) -> Result<Value, StatusError> {
        kevel_compute::expect(self.context.meter, wire.len()).await;
        if self.storage.shows(wire, &self.resource.kind) {
            return self.storage.read(wire).map_err(StatusError::internal);
        }
        self.storage.read_in(wire, &self.resource.kind.group_version()).await
    }
}
