//! What FlowSchemas and PriorityLevelConfigurations say, compiled.

mod flow_schema;
mod priority_level_configuration;
mod rule;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kevel_api::value::Value;

use self::flow_schema::Distinguisher;
pub use self::flow_schema::FlowSchema;
pub(crate) use self::priority_level_configuration::PriorityLevelConfiguration;
use self::rule::PolicyRule;
use crate::digest::RequestDigest;
use crate::observer::FlowObserver;
use crate::priority_level::PriorityLevel;

/// The flow schemas that are in effect. It never changes: another takes its place.
#[derive(Debug)]
pub(crate) struct Configuration {
    schemas: Box<[Arc<FlowSchema>]>,
    catch_all: Arc<FlowSchema>,
}

impl Configuration {
    /// A configuration of schemas, in the order in which they are tried. What none of them is about
    /// goes to `catch_all`, which is one of them.
    pub(crate) fn new(schemas: Vec<Arc<FlowSchema>>, catch_all: Arc<FlowSchema>) -> Self {
        Configuration { schemas: schemas.into_boxed_slice(), catch_all }
    }

    /// The first flow schema that a request matches.
    pub(crate) fn classify(&self, digest: &RequestDigest<'_>) -> &Arc<FlowSchema> {
        self.schemas.iter().find(|schema| schema.matches(digest)).unwrap_or(&self.catch_all)
    }
}

/// A FlowSchema as it is written, compiled as far as it can be without its level.
#[derive(Clone, Debug)]
pub(crate) struct FlowSchemaObject {
    pub name: Box<str>,
    pub level: Box<str>,
    /// Lower ones are tried first; those of the same by name.
    pub precedence: i64,
    uid: Box<str>,
    distinguisher: Option<Distinguisher>,
    rules: Arc<[PolicyRule]>,
}

/// What a flow schema must know of its priority level.
pub(crate) struct LevelOfSchema {
    pub level: Arc<PriorityLevel>,
    pub uid: Box<str>,
    /// How many queues it has; 0 where requests do not wait.
    pub queues: u32,
    pub max_seats: u32,
}

impl FlowSchemaObject {
    pub(crate) fn new(object: &Value) -> Self {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        FlowSchemaObject {
            name: object.str_at(&["metadata", "name"]).into(),
            level: spec.str_at(&["priorityLevelConfiguration", "name"]).into(),
            precedence: spec.at(&["matchingPrecedence"]).and_then(Value::as_int).unwrap_or(0),
            uid: object.str_at(&["metadata", "uid"]).into(),
            distinguisher: Distinguisher::new(spec),
            rules: spec.list_at(&["rules"]).iter().map(PolicyRule::new).collect(),
        }
    }

    pub(crate) fn in_level(
        &self,
        level: LevelOfSchema,
        observer: Arc<dyn FlowObserver>,
    ) -> FlowSchema {
        FlowSchema {
            name: self.name.clone(),
            uid: self.uid.clone(),
            distinguisher: self.distinguisher,
            rules: self.rules.clone(),
            level: level.level,
            level_uid: level.uid,
            queues: level.queues,
            max_seats: level.max_seats,
            observer,
        }
    }
}
