//! The API extensions server: custom resources.
//!
//! `validation` validates CustomResourceDefinitions, `schema` custom objects. Both are functions over trees, without
//! I/O.
//!
//! # Design
//!
//! ```text
//! CRD ─▶ validation ─▶ stored ─▶ controllers (names, structural schema, approval, established) ─▶ rows
//!                                                                       finalizing: instances first
//! row = names + schema as Table + Validator (OpenAPI, CEL rules) + columns + status/scale + conversion
//! ```
//!
//! - A custom resource is a row like any other, served by the same `Delegate` and endpoints. Its differences are facts
//!   of the row: `Conventions` (routes or verbs, protobuf, strategic merge, sources of discovery and OpenAPI), its type
//!   (`is_unstructured`), strategy, columns and scale. Storage and cache hold the CRD's storage version; other versions
//!   are converted on request, by name or by webhook. On etcd, CRDs are stored as by the reference (v1beta1 JSON), so
//!   that either server can continue on the other's data.
//! - Objects are sent to a conversion webhook in batches of one mebibyte, and its results are kept
//!   (`storage::ConvertedObjects`, 128 MiB for all kinds), so that reads of objects that were served before do not
//!   depend on the webhook. The reference has a watch cache per version instead.
//! - A CRD may have the names of a built-in kind. It gets no rows for a group version that a built-in server serves,
//!   nor where its storage keys would collide with a built-in kind's (`BuiltIn`), and never registers such a version.
//!   Another version of a built-in group is in discovery and OpenAPI, and requests for it get 404, as in the reference.

mod built_in;
pub mod columns;
mod controllers;
pub mod conversion;
pub mod definition;
mod definitions;
mod malformed;
pub mod rows;
pub mod scale;
pub mod schema;
mod server;
pub mod stored;
mod stored_definition;
pub mod strategy;
mod terminating;
pub mod validation;

pub use built_in::BuiltIn;
pub use controllers::Controllers;
pub use definitions::DefinitionForm;
pub use rows::RestOptions;
pub use server::Extensions;
