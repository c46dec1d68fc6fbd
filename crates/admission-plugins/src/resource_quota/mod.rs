//! `ResourceQuota` admission plug-in: refuses writes that exceed a quota of their namespace.
//!
//! Usage is in the quota's status. A write adds its usage there by compare and swap before it is stored; the quota
//! controller lowers the usage again.

mod charge;
mod claims;
mod configuration;
mod evaluator;
mod evaluators;
mod pods;
mod scopes;
mod services;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_registry::resource::Resource;
use kevel_store::cache::At;
use tokio::sync::Mutex;

use self::charge::{Charge, Quota};
use self::configuration::LimitedResource;
use super::{Context, Registration};
use kevel_controlplane::lister::Lister;

pub use self::evaluator::Evaluator;
pub use self::evaluators::{EvaluatorRef, Evaluators};
pub use self::scopes::{Scope, of as scopes_of};

/// Resources that no quota counts, by group and plural.
pub const IGNORED: [(&str, &str); 8] = [
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];
/// Number of locks that the namespaces share.
const TURNS: usize = 64;

/// Registration of the `ResourceQuota` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::on("ResourceQuota", |context| Ok(Arc::new(ResourceQuota::new(context)?)));

/// The `ResourceQuota` admission plug-in.
pub struct ResourceQuota {
    row: Arc<Resource>,
    quotas: Lister<Quota>,
    evaluators: Evaluators,
    limited: Vec<LimitedResource>,
    /// Locks by namespace: writes that charge quotas take turns, which avoids conflicts.
    turns: [Mutex<()>; TURNS],
    hasher: RandomState,
}

impl ResourceQuota {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let row = context.rows.get("", "v1", "resourcequotas");
        let row = row.cloned().ok_or("resourcequotas must be served")?;
        Ok(ResourceQuota {
            row,
            quotas: context.lister("", "resourcequotas")?,
            evaluators: Evaluators::new(context.feature, context.client.clock().clone()),
            limited: configuration::read((context.configuration)("ResourceQuota")?)?,
            turns: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
        })
    }

    async fn check(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), StatusError> {
        let namespace = attributes.namespace;
        let prefix = format!("{namespace}/");
        let known = self.quotas.snapshot(At::Any).await?;
        if known.range(&prefix, None).next().is_none() && self.limited.is_empty() {
            return Ok(());
        }
        let Resource { kind, plural, .. } = attributes.resource;
        let evaluator = self.evaluators.of(&kind.group, plural);
        let evaluator = &*evaluator;
        if !evaluator.handles(attributes, object) {
            return Ok(());
        }
        let turn = self.hasher.hash_one(namespace) as usize % TURNS;
        let _turn = match self.turns.get(turn) {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        let quotas = self.quotas.list(namespace, At::Consistent).await?;
        let charge = Charge::new(evaluator, attributes, object);
        let changed = charge.check(&quotas, &self.limited)?;
        if attributes.dry_run {
            return Ok(());
        }
        for name in changed {
            let add = |quota: &mut Value| charge.add(quota);
            match self.row.modify(namespace, &name, false, add).await {
                // A deleted quota limits nothing.
                Err(error) if error.reason() == reason::NOT_FOUND => {}
                written => drop(written?),
            }
        }
        Ok(())
    }
}

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let counts = matches!(attributes.operation, Operation::Create | Operation::Update)
            && !attributes.namespace.is_empty()
            && !attributes.concerns("", "namespaces")
            && !IGNORED.iter().any(|(group, plural)| attributes.concerns(group, plural));
        match object.filter(|_| counts) {
            Some(object) => Box::pin(self.check(attributes, object)),
            None => ready(Ok(())),
        }
    }
}
