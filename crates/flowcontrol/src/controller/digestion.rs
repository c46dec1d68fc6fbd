//! Digestion of FlowSchemas and PriorityLevelConfigurations into a configuration.
//!
//! All objects are digested together whenever one of them changes: each level's seats depend on the shares of all.

use std::collections::BTreeSet;
use std::sync::Arc;

use kevel_api::time::Time;
use kevel_api::value::Value;
use tokio::time::Instant;

use super::levels::{self, Level, Levels};
use crate::configuration::{
    Configuration, FlowSchema, FlowSchemaObject, PriorityLevelConfiguration,
};
use crate::observer::Observer;
use crate::priority_level::{PriorityLevel, Signal};
use crate::status::{StatusUpdate, dangling};
use crate::{CATCH_ALL, EXEMPT, bootstrap};

/// Result of [`crate::Controller::configure`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digested {
    /// FlowSchema conditions that are to be written.
    pub status_updates: Vec<StatusUpdate>,
    /// PriorityLevelConfigurations that cannot be used, with the reasons, for the log.
    pub ignored: Vec<(String, String)>,
}

/// Objects, each compiled by itself.
#[derive(Debug, Default)]
pub(super) struct Objects {
    levels: Vec<PriorityLevelConfiguration>,
    schemas: Vec<FlowSchemaObject>,
    pub ignored: Vec<(String, String)>,
}

impl Objects {
    pub(super) fn new<'a>(
        levels: impl Iterator<Item = &'a Value>,
        schemas: impl Iterator<Item = &'a Value>,
    ) -> Self {
        let mut objects = Objects::default();
        for object in levels {
            match PriorityLevelConfiguration::new(object) {
                Ok(level) => objects.levels.push(level),
                Err(error) => {
                    let name = object.str_at(&["metadata", "name"]).to_owned();
                    objects.ignored.push((name, error));
                }
            }
        }
        objects.schemas = schemas.map(FlowSchemaObject::new).collect();
        // In order of precedence; each name once.
        objects.schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        let mut seen = BTreeSet::new();
        objects.schemas.retain(|schema| seen.insert(schema.name.clone()));
        objects
    }

    /// Whether there is a usable PriorityLevelConfiguration of this name. Mandatory levels without an object do not
    /// count.
    pub(super) fn has_level(&self, name: &str) -> bool {
        self.levels.iter().any(|level| *level.name == *name)
    }
}

/// FlowSchema conditions that differ from the stored ones.
pub(super) fn status_updates<'a>(
    schemas: impl Iterator<Item = &'a Value>,
    found: impl Fn(&str) -> bool,
    now: Time,
) -> Vec<StatusUpdate> {
    let update = |schema: &Value| {
        let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
        dangling(schema, found(level), now)
    };
    schemas.filter_map(update).collect()
}

/// Inputs of a digestion besides the objects.
pub(super) struct Digestion<'a> {
    pub server_limit: u32,
    pub observer: &'a dyn Observer,
    pub signal: &'a Arc<Signal>,
    pub now: Instant,
}

/// Result of a digestion.
pub(super) struct Outcome {
    pub configuration: Configuration,
    pub fair_fraction: f64,
    /// Removed levels that were idle.
    pub leaving: Vec<Level>,
}

impl Digestion<'_> {
    /// Makes a configuration of objects, and updates the levels.
    pub(super) fn digest(&self, objects: &Objects, levels: &mut Levels) -> Outcome {
        let mut old = std::mem::take(levels);
        for wanted in &objects.levels {
            let level = self.make(old.remove(&wanted.name), wanted);
            levels.insert(wanted.name.clone(), level);
        }
        let leaving = keep_busy(old, levels);
        for wanted in bootstrap::mandatory_priority_levels() {
            if let Ok(wanted) = PriorityLevelConfiguration::new(&wanted)
                && !levels.contains_key(&wanted.name)
            {
                levels.insert(wanted.name.clone(), self.make(None, &wanted));
            }
        }
        levels::set_nominal_limits(levels, self.server_limit);
        let fair_fraction = levels::adjust(levels, self.server_limit, self.now);
        let configuration = self.configuration(objects, levels);
        Outcome { configuration, fair_fraction, leaving }
    }

    /// A level, new or existing, with its configuration.
    fn make(&self, old: Option<Level>, wanted: &PriorityLevelConfiguration) -> Level {
        match old {
            Some(mut old) => {
                old.level.set_quiescing(false);
                old.level.set_queuing(self.now, wanted.queuing);
                old.configuration = wanted.clone();
                old
            }
            None => {
                let signal = self.signal.clone();
                let level = PriorityLevel::new(&wanted.name, wanted.queuing, self.now, signal);
                Level::new(Arc::new(level), wanted.clone())
            }
        }
    }

    /// The flow schemas whose levels exist, and the mandatory ones.
    fn configuration(&self, objects: &Objects, levels: &Levels) -> Configuration {
        let usable = objects.schemas.iter().filter(|schema| objects.has_level(&schema.level));
        let mut schemas: Vec<_> =
            usable.filter_map(|schema| self.flow_schema(schema, levels)).collect();
        let mut mandatory = |name: &str| {
            if let Some(there) = schemas.iter().find(|schema| schema.name() == name) {
                return there.clone();
            }
            let object = bootstrap::mandatory_flow_schemas()
                .map(|object| FlowSchemaObject::new(&object))
                .find(|object| *object.name == *name);
            let Some(made) = object.and_then(|object| self.flow_schema(&object, levels)) else {
                unreachable!("mandatory flow schemas lead to mandatory levels");
            };
            let place = if name == EXEMPT { 0 } else { schemas.len() };
            schemas.insert(place, made.clone());
            made
        };
        mandatory(EXEMPT);
        let catch_all = mandatory(CATCH_ALL);
        Configuration::new(schemas, catch_all)
    }

    fn flow_schema(&self, object: &FlowSchemaObject, levels: &Levels) -> Option<Arc<FlowSchema>> {
        let level = levels.get(&object.level)?;
        let observer = self.observer.flow(&object.level, &object.name);
        Some(Arc::new(object.in_level(level.of_schema(), observer)))
    }
}

/// Of the levels without an object, keeps the mandatory ones and those that still have requests. Returns the others.
fn keep_busy(old: Levels, levels: &mut Levels) -> Vec<Level> {
    let mut leaving = Vec::new();
    for (name, level) in old {
        let mandatory = [EXEMPT, CATCH_ALL].contains(&&*name);
        if mandatory || !level.level.is_idle() {
            level.level.set_quiescing(!mandatory);
            levels.insert(name, level);
        } else {
            leaving.push(level);
        }
    }
    leaving
}
