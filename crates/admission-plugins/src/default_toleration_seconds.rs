//! `DefaultTolerationSeconds` admission plug-in: pods tolerate the taints not-ready and unreachable for a limited time.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;
use super::{Context, tolerations};

const NO_EXECUTE: &str = "NoExecute";

/// Default `tolerationSeconds` (flags `--default-not-ready-toleration-seconds` and
/// `--default-unreachable-toleration-seconds`).
#[derive(Clone, Copy, Debug)]
pub struct TolerationSeconds {
    /// Seconds for the taint `node.kubernetes.io/not-ready`.
    pub not_ready: i64,
    /// Seconds for the taint `node.kubernetes.io/unreachable`.
    pub unreachable: i64,
}

/// Registration of the `DefaultTolerationSeconds` admission plug-in.
pub const REGISTRATION: Registration = Registration::on("DefaultTolerationSeconds", |context| {
    Ok(Arc::new(DefaultTolerationSeconds::new(context)))
});

/// The `DefaultTolerationSeconds` admission plug-in.
#[derive(Debug)]
pub struct DefaultTolerationSeconds {
    tolerations: [Value; 2],
}

impl DefaultTolerationSeconds {
    pub fn new(context: &Context<'_>) -> Self {
        let TolerationSeconds { not_ready, unreachable } = context.toleration_seconds;
        let taints = [
            ("node.kubernetes.io/not-ready", not_ready),
            ("node.kubernetes.io/unreachable", unreachable),
        ];
        let tolerations =
            taints.map(|(key, seconds)| tolerations::exists(key, NO_EXECUTE, Some(seconds)));
        DefaultTolerationSeconds { tolerations }
    }

    fn complete(&self, pod: &mut Value) {
        let given = pod.list_at(&["spec", "tolerations"]);
        let tolerated = |taint: &Value| {
            given.iter().any(|toleration| {
                let (key, effect) = (toleration.str_at(&["key"]), toleration.str_at(&["effect"]));
                (key.is_empty() || key == taint.str_at(&["key"]))
                    && (effect.is_empty() || effect == NO_EXECUTE)
            })
        };
        let missing = self.tolerations.each_ref().map(|taint| !tolerated(taint));
        for (toleration, missing) in self.tolerations.iter().zip(missing) {
            if missing {
                pod.make_list(&["spec"], "tolerations").push(toleration.clone());
            }
        }
    }
}

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if let Some(pod) = object.filter(|_| writes && attributes.is("", "pods")) {
            self.complete(pod);
        }
        ready(Ok(()))
    }
}
