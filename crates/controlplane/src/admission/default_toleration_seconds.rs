//! `DefaultTolerationSeconds`: pods stay for a while on nodes that are not ready or not reached.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::admission::{Attributes, Operation, Plugin, ready};
use kevel_server::future::Pending;

use super::Registration;
use super::{Context, tolerations};

const NO_EXECUTE: &str = "NoExecute";

/// For how many seconds pods that do not say tolerate what befalls their nodes.
#[derive(Clone, Copy, Debug)]
pub struct TolerationSeconds {
    /// For how long pods stay on a node that is not ready.
    pub not_ready: i64,
    /// For how long pods stay on a node that is not reached.
    pub unreachable: i64,
}

/// `DefaultTolerationSeconds`, as the command line knows it.
pub const REGISTRATION: Registration = Registration::on("DefaultTolerationSeconds", |context| {
    Ok(Arc::new(DefaultTolerationSeconds::new(context)))
});

/// The admission plug-in of that name.
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
