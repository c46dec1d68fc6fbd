//! The generic API server (upstream: `k8s.io/apiserver`): from a request on a socket to an object in the store.
//!
//! A request passes the handler [`chain`], then the [`delegate`]s, of which one serves its path: a plain one, or that
//! of a [`resource`](kevel_registry::resource). A resource's verbs are the [`endpoints`]; the rules of its kind are its
//! [`strategy`](kevel_registry::strategy), those of the cluster its [`admission`](kevel_registry::admission).
//!
//! ```text
//! socket ─ TLS ─ HTTP/1.1+2 ─▶ chain ─▶ OpenAPI, discovery ─▶ plain paths ─▶ aggregator ─▶ kube API ─▶ extensions
//!                                                                             each a Delegate: rows, endpoints, next
//! ```
//!
//! # Design
//!
//! - Modules import downwards only; `tests/layers.rs` states the order with a reason for each layer.
//! - The handler chain is one function, [`chain::build`]. A filter is one file with a `Filter`. Filters are not tower
//!   services: readiness never refuses a request here (priority and fairness does, and it knows the user), and a future
//!   that borrows its handler needs no clone of the chain per request.
//! - A `Resource` is a row: names, verbs, schema, storage, strategy, columns, subresources, conventions. `Resources` is
//!   the table, swapped whole when rows change; discovery, OpenAPI and routing read it without a lock.
//! - A verb is a file in [`endpoints`]: it decodes the request, calls the registry's `Store` and encodes the response.
//! - A subresource has a `SubresourceKind`: the status, some fields with their own strategy (`pods/resize`), a view of
//!   another kind (`scale`), a `Creater` (reviews, tokens, bindings, evictions), or a `Connecter` to a kubelet or
//!   proxy.
//! - Path and query are parsed once, into `RequestInfo` (unescaped, then split). Authorizers, routing, list options and
//!   the proxy to aggregated servers use that result; none parses the URL again. A write goes to the key that the
//!   request names, which is checked after admission and all other changes of the object.
//! - Where one verb turns into another (an update or apply that creates), the authorizer is asked again.
//! - Requests give their worker back after 3 ms of computing: see `kevel_compute`. The feature `long-turns` of
//!   `kube-apiserver` records every stretch of more than 5 ms on a worker in the file named by `KEVEL_LONG_TURNS`;
//!   `conformance/long-turns` expects no such record.
//! - A connection that wrote much in its last turn needs a permit for the next one (`serving/turns.rs`); there are as
//!   many permits as processors. So a small request waits behind hundreds of large lists for one or two turns of 256
//!   KiB.
//! - Durations of metrics and logs, deadlines and back-off use real time. Times in objects, and expiry, use the
//!   server's `Clock` (`kevel_clock`). A lint forbids other readings of a clock.
//! - Tasks that must live are started by `lifecycle::Tasks` (in the store: `deaths`); the end of one turns the health
//!   checks red. `Probe` asks the engine for a round trip with a deadline.
//!
//! # HTTP/2
//!
//! The streams of a connection are handled in the connection's task, their requests in tasks of their own. Output that
//! becomes ready in one turn is sent in one write (`serving/{http2,streams,gather}.rs`): 500 watchers on a few
//! connections cost about ten writes per event.
//!
//! # Slow clients
//!
//! A client that does not read costs a few pieces (`body::PIECE`, 64 KiB) of its response. Lists are encoded item by
//! item, watches read the shared log at their own pace, HTTP/1.1 gets the next piece when the last one is sent
//! (`serving/backlog.rs`), HTTP/2 buffers 64 KiB per stream. The snapshot behind a response is held by a `Lease` that
//! ends at the request's deadline or, for the initial state of a watch, when the log has dropped the events after it. A
//! protobuf list of more than 128 KiB is encoded twice, because its length precedes it. A list that a conversion
//! webhook converts is held in memory as bytes. Of an unread request body, a limited part is discarded so that the
//! response arrives (`incoming.rs`).

pub mod audit;
pub mod authentication;
pub mod authorization;
pub mod body;
pub mod chain;
pub mod config_file;
pub mod connecter;
pub mod delegate;
pub mod discovery;
pub mod egress;
pub mod endpoints;
pub mod flowcontrol;
pub mod grpc;
pub mod handler;
pub mod health;
pub mod incoming;
pub mod latency_trackers;
mod lease;
pub mod lifecycle;
pub mod metrics;
pub mod negotiate;
pub mod openapi;
pub mod proxy;
pub mod request;
pub mod request_info;
pub mod responses;
pub mod routes;
pub mod serving;
pub mod version;
pub mod webhook;
pub mod zpages;

/// Certificates and keys, under their name in other crates.
pub use kevel_pki as certificates;
