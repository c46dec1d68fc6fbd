//! Authentication and authorization: [`authentication`] and [`service_account`] authenticate tokens and front proxies
//! ([`jose`] verifies signatures); RBAC, the default policy of a new cluster and the escalation check authorize.
//!
//! Setup of authorization in a server:
//!
//! ```text
//! let rbac = Arc::new(Rbac::new(Sources::of(&storages)?));
//! authorizers.push(rbac.clone());                   // where --authorization-mode names RBAC
//! plugins.push(Arc::new(Escalation::new(rbac.clone(), authorizer)));  // last of all plug-ins
//! lifecycle.hooks.add_post_start(bootstrap::HOOK, bootstrap::hook(client, gates))?;  // where the mode names RBAC
//! ...
//! rbac.follow(&lifecycle.tasks);                    // when the server starts
//! ```
//!
//! - [`Rbac`] is the authorizer. It has to follow its sources whatever the authorization modes are:
//!   [`Escalation`] asks it, and is in force under every mode. Before everything is loaded it allows
//!   nothing; [`Rbac::has_synced`] tells, [`Rbac::synced`] waits.
//! - [`Escalation`] is an admission plug-in without a flag. It judges what the mutating plug-ins have
//!   made of an object, so it stands behind them. The authorizer it is given is the server's whole
//!   one, for the verbs `escalate` and `bind`.
//! - [`bootstrap::hook`] makes what is missing of the default roles and bindings. The rules of
//!   `admin`, `edit` and `view` are not its business: a controller gathers them, that of a controller
//!   manager or [`aggregate_cluster_roles`].
//!
//! # Design
//!
//! ```text
//! request ─▶ request headers ─▶ client certificate ─▶ bearer token ─────────────────────────▶ anonymous
//!                                                     file, service account (legacy, bound),
//!                                                     bootstrap, JWT issuers, webhook; cached
//!         ─▶ audit ─▶ impersonation ─▶ system:masters ─▶ modes or AuthorizationConfiguration, in order
//! ```
//!
//! - An authenticator returns a user, no opinion, or an error; only no opinion lets the next one try. An authorizer
//!   allows, denies or has no opinion; an error never allows.
//! - Parts that depend on objects (tokens bound to a pod, roles, the graph of nodes) follow caches. Before these are
//!   loaded, they authenticate and authorize nothing.
//! - Configuration files are watched by content: an invalid file is logged and the previous one stays in effect.
//! - Tokens are signed and verified with `ring`: none of the JWT crates keeps the reference's rules (algorithms per
//!   key, one signature, claims, messages) without as much code around it.
//! - Audit costs nothing without a policy. A body is copied only at audit levels that record it (upstream:
//!   audit.Level).

mod aggregation;
pub mod authentication;
pub mod authorization;
pub mod bootstrap;
mod config_map;
mod escalation;
pub mod jose;
pub mod rbac;
pub mod reviews;
pub mod rule;
pub mod service_account;

pub use aggregation::aggregate_cluster_roles;
pub use escalation::Escalation;
pub use rbac::{Rbac, Sources};
pub use rule::PolicyRule;

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
