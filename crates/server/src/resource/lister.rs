//! Objects that are not kept but found out when somebody asks (`rest.Lister` without a store behind it).

use std::fmt::Debug;

use kevel_api::value::Value;

use crate::future::Pending;

/// Finds out what objects there are.
pub trait Lister: Debug + Send + Sync + 'static {
    /// All of them, by name.
    fn list(&self) -> Pending<'_, Vec<Value>>;

    /// One of them.
    fn get<'a>(&'a self, name: &'a str) -> Pending<'a, Option<Value>>;
}
