//! Kubernetes' API as data: types, values, names, selectors, errors. No I/O.
//!
//! # Types are described once
//!
//! A built-in kind is described in `api/<group>.<version>.api` (`api/README.md` lists the facts that a line can state).
//! `cargo xtask generate` makes these files from the published OpenAPI, protobuf and discovery data, and applies the
//! overlays of `api/overlay`: `shape` (facts that only the Go types have: pointers, omitempty, names of types), `enum`,
//! `defaults` (defaults that the reference sets in code), `internal` (differences of the internal types, which
//! validation messages print).
//!
//! `build/tables.rs` turns the files into arrays of numbers in read-only memory. A type is an index, a name is an
//! offset into one text. Nothing is parsed, relocated or allocated at start. The schema of a CustomResourceDefinition
//! becomes a `Table` of the same form while the server runs. `Schema` is a copyable handle to one type of a table;
//! decoding, pruning, defaulting, merging, field ownership, protobuf and OpenAPI are written over it, never per kind.
//!
//! ```text
//! Table   { types, fields, members, defaults, merges, names, text }   all indexes; Cow: static or owned
//! Type    = Struct | List | Map | Scalar | Union | Any
//! Field   { name, type, rank (JSON order), flags (pointer, always, required, ...), default, merge, enum }
//! Member  { protobuf tag, its JSON field or inlined struct }
//! ```
//!
//! [`value::Value`] is the JSON data model in 24 bytes: short strings inline, maps as sorted vectors. In a value of a
//! built-in type, an absent field means Go's zero value: decoders drop nulls and the zeros of non-pointer fields, and
//! encoders write them where the reference does. Documents inside documents (`RawExtension`, `FieldsV1`, `default` of a
//! CRD) stay text. A struct is encoded by merging two sorted lists (entries of the map, fields of the schema), then
//! walking them in rank order (JSON) or backwards in tag order (protobuf), without look-ups.

pub mod builtin;
mod constant;
pub mod convert;
pub mod crd_schema;
pub mod default;
mod default_rules;
pub mod duration;
pub mod field_error;
pub mod gvk;
pub mod ip;
pub mod json_path;
pub mod json_string;
pub mod name;
pub mod prune;
pub mod quantity;
pub mod quote;
pub mod references;
pub mod schema;
pub mod selector;
pub mod status;
pub mod time;
pub mod unified_diff;
pub mod url;
pub mod value;
pub mod warning;
