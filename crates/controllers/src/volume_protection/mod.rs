//! Finalizers that keep volumes, claims and classes while they are used.

pub(crate) mod attributes_class;
pub(crate) mod claim;
pub(crate) mod volume;
