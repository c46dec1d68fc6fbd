//! FlowSchemas and PriorityLevelConfigurations, compiled.

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

/// The flow schemas in effect. Immutable; replaced as a whole.
#[derive(Debug)]
pub(crate) struct Configuration {
    schemas: Box<[Arc<FlowSchema>]>,
    catch_all: Arc<FlowSchema>,
}

impl Configuration {
    /// A configuration of schemas, in order of precedence. Requests that match none go to `catch_all`, which is one of
    /// them.
    pub(crate) fn new(schemas: Vec<Arc<FlowSchema>>, catch_all: Arc<FlowSchema>) -> Self {
        Configuration { schemas: schemas.into_boxed_slice(), catch_all }
    }

    /// The first flow schema that a request matches.
    pub(crate) fn classify(&self, digest: &RequestDigest<'_>) -> &Arc<FlowSchema> {
        self.schemas.iter().find(|schema| schema.matches(digest)).unwrap_or(&self.catch_all)
    }
}

/// A FlowSchema object, compiled without its priority level.
#[derive(Clone, Debug)]
pub(crate) struct FlowSchemaObject {
    pub name: Box<str>,
    pub level: Box<str>,
    /// `matchingPrecedence`: lower values are tried first, equal ones by name.
    pub precedence: i64,
    uid: Box<str>,
    distinguisher: Option<Distinguisher>,
    rules: Arc<[PolicyRule]>,
}

/// Facts about its priority level that a flow schema needs.
pub(crate) struct LevelOfSchema {
    pub level: Arc<PriorityLevel>,
    pub uid: Box<str>,
    /// Number of queues; 0 without queues.
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
