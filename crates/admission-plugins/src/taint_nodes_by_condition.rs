//! `TaintNodesByCondition` admission plug-in: taints new nodes as not ready until the node lifecycle controller
//! removes the taint.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;

const NOT_READY: (&str, &str) = ("node.kubernetes.io/not-ready", "NoSchedule");

/// Registration of the `TaintNodesByCondition` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::on("TaintNodesByCondition", |_| Ok(Arc::new(TaintNodesByCondition)));

/// The `TaintNodesByCondition` admission plug-in.
#[derive(Clone, Copy, Debug)]
pub struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let new = attributes.operation == Operation::Create && attributes.is("", "nodes");
        if let Some(node) = object.filter(|_| new) {
            let not_ready =
                |taint: &Value| (taint.str_at(&["key"]), taint.str_at(&["effect"])) == NOT_READY;
            if !node.list_at(&["spec", "taints"]).iter().any(not_ready) {
                let (key, effect) = NOT_READY;
                let taint = Map::from_iter([("key", key.into()), ("effect", effect.into())]);
                node.make_list(&["spec"], "taints").push(taint.into());
            }
        }
        ready(Ok(()))
    }
}
