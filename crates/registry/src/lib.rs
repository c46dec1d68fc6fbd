//! The registry: objects of resources as all writers and readers see them, without HTTP (upstream:
//! `k8s.io/apiserver/pkg/registry`).
//!
//! Handlers, controllers, `Creater`s and post-start hooks read and write objects through [`store::Store`], which takes
//! decoded objects and a [`context`] instead of an HTTP request.
//!
//! - A create or update: record field ownership, mutating admission, generated name, allocation, the strategy's
//!   preparation and validation, validating admission, conversion to the storage version, compare-and-swap in the
//!   engine.
//! - The cached object that an update starts from may be stale: a conflict, error or NotFound counts only after it was
//!   seen on fresh data. [`guaranteed_update`] is the one retry loop.
//! - [`deletion`] computes what a deletion does (`DeletionPlan`: remove, mark, mark and remove, nothing) from strategy,
//!   object and options; executing the plan is separate.
//! - An [`allocation`] reserves addresses or ports before the last checks of a write and returns them if the write
//!   fails. A request can be cancelled at any await, so reserving and writing run in tasks of their own; a dropped
//!   `Claim` returns its reservation.
//! - A `Creater` serves a POST that stores nothing itself: reviews, tokens, bindings, evictions. It writes with
//!   [`registry`], without admission, because the request has passed admission already.
//! - A server has [`backends`]: one store with its caches for all resources, and one for each override of
//!   `--etcd-servers-overrides`. The backend of a kind is fixed when its [`storage`] is made. Revisions of different
//!   backends are unrelated. Encryption wraps each engine, below the caches.
//! - The embedded store holds JSON, the form that is sent; etcd holds the reference's encoding (protobuf).

pub mod admission;
pub mod allocation;
pub mod audit;
pub mod backends;
pub mod columns;
pub mod context;
pub mod deletion;
pub mod failure;
pub mod guaranteed_update;
pub mod latency;
pub mod list_options;
pub mod metadata;
pub mod owner_references;
pub mod query;
pub mod registry;
pub mod resource;
pub mod scale;
pub mod scope;
pub mod selectors;
pub mod storage;
pub mod storages;
pub mod store;
pub mod strategy;
pub mod type_ref;
pub mod unstored;
pub mod user;
pub mod verb;
pub mod warnings;
