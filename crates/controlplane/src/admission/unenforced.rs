//! Policies that this server stores but does not enforce yet. Who writes one is told so, and so is
//! whoever reads the log: nobody shall take them for what keeps a cluster safe.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::admission::{Attributes, Operation, Plugin, settled};
use kevel_server::future::Pending;
use kevel_server::storage::Storage;
use kevel_server::storages::Storages;
use kevel_store::cache::At;

const GROUP: &str = "admissionregistration.k8s.io";

/// The kinds, and what does not happen.
const KINDS: &[(&str, &str)] = &[
    ("mutatingwebhookconfigurations", "its webhooks are not called"),
    ("validatingwebhookconfigurations", "its webhooks are not called"),
];

/// Warns whoever writes such an object.
#[derive(Clone, Copy, Debug)]
pub struct Unenforced;

impl Plugin for Unenforced {
    fn name(&self) -> &'static str {
        "Unenforced"
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        let found = KINDS.iter().find(|(plural, _)| written && attributes.is(GROUP, plural));
        if let Some((_, missing)) = found {
            let warning = warning(&attributes.resource.kind.kind, missing);
            if !attributes.dry_run {
                tracing::warn!(name = attributes.name, "{warning}");
            }
            attributes.warnings.add(warning);
        }
        settled(Ok(()))
    }
}

/// Warns of all such objects that are there when the server starts.
pub fn report_unenforced(storages: &Storages) -> impl Future<Output = ()> + Send + 'static {
    let stored = |(plural, missing): &(&str, &'static str)| {
        let storage = storages.get(GROUP, plural)?;
        Some((storage.kind.kind.to_string(), *missing, storage.clone()))
    };
    let all: Vec<(String, &str, Arc<Storage>)> = KINDS.iter().filter_map(stored).collect();
    async move {
        for (kind, missing, storage) in all {
            let Ok(objects) = storage.cache.snapshot(At::Any).await else { continue };
            for object in objects.range("", None) {
                tracing::warn!(name = object.key(), "{}", warning(&kind, missing));
            }
        }
    }
}

fn warning(kind: &str, missing: &str) -> String {
    format!("{kind} is not enforced by this server yet: {missing}")
}
