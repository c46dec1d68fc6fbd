//! Objects that are computed on request and not stored (upstream: `rest.Lister` without a store).

use std::fmt::Debug;

use kevel_api::value::Value;

use kevel_component::future::Pending;

/// Computes the objects of a resource.
pub trait Lister: Debug + Send + Sync + 'static {
    /// All objects, sorted by name.
    fn list(&self) -> Pending<'_, Vec<Value>>;

    /// The object of a name.
    fn get<'a>(&'a self, name: &'a str) -> Pending<'a, Option<Value>>;
}
