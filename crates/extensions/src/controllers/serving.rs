//! Rows of custom resources, kept up to date with their definitions.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use kevel_api::value::Value;
use kevel_codec::json;
use kevel_registry::resource::Resources;
use kevel_server::certificates::verify::Purpose;
use kevel_server::certificates::warn_unable_to_sign;

use crate::conversion::ca_bundle;
use crate::definition::{Definition, condition};
use crate::rows::{RestOptions, rows};
use crate::terminating::Terminating;

/// Rows of custom resources, and the definitions that they come from.
#[derive(Debug)]
pub(super) struct Serving {
    custom: Arc<Resources>,
    terminating: Arc<Terminating>,
    options: RestOptions,
    /// Served definitions, by name.
    served: BTreeMap<String, ServedDefinition>,
}

/// Facts that rows depend on; equal facts mean equal rows.
#[derive(Debug, PartialEq)]
struct ServedDefinition {
    uid: String,
    /// Hash of the spec and the accepted names.
    content: u64,
    group: String,
    plural: String,
    /// Hash of the conversion webhook's CA bundle.
    ca_bundle: u64,
}

impl ServedDefinition {
    fn of(definition: Definition<'_>) -> Self {
        let mut text = Vec::new();
        for path in [&["spec"][..], &["status", "acceptedNames"]] {
            json::encode_any(definition.0.at(path).unwrap_or(&Value::Null), &mut text);
        }
        ServedDefinition {
            uid: definition.uid().to_owned(),
            content: hash(&text),
            group: definition.group().to_owned(),
            plural: definition.accepted_names().plural().to_owned(),
            ca_bundle: hash(&ca_bundle(definition).unwrap_or_default()),
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl Serving {
    pub fn new(
        custom: Arc<Resources>,
        terminating: Arc<Terminating>,
        options: RestOptions,
    ) -> Self {
        Serving { custom, terminating, options, served: BTreeMap::new() }
    }

    /// Installs or replaces the rows of a definition, if it may be served.
    pub fn serve(&mut self, definition: Definition<'_>) {
        let name = definition.name();
        self.terminating.note(name, definition.is(condition::TERMINATING));
        let names = definition.accepted_names();
        let named = [names.plural(), names.singular(), names.kind(), names.list_kind()];
        let accepted =
            definition.is(condition::NAMES_ACCEPTED) || definition.is(condition::ESTABLISHED);
        if !accepted || named.contains(&"") {
            return self.remove(name);
        }
        let wanted = ServedDefinition::of(definition);
        if self.served.get(name) == Some(&wanted) {
            return;
        }
        match rows(definition, &self.options, None) {
            Ok(rows) => {
                let before = self.served.get(name).map(|before| before.ca_bundle);
                if before != Some(wanted.ca_bundle) {
                    let source = format_args!("CustomResourceDefinition {name}");
                    warn_unable_to_sign(source, Purpose::ServerAuth, ca_bundle(definition));
                }
                if rows.is_empty() {
                    self.remove(name);
                }
                self.custom.replace(&wanted.group, &wanted.plural, rows);
                self.served.insert(name.to_owned(), wanted);
            }
            Err(error) => {
                tracing::error!(name, error, "a custom resource definition cannot be served");
                self.remove(name);
            }
        }
    }

    /// Removes the rows of a definition.
    pub fn remove(&mut self, name: &str) {
        self.terminating.note(name, false);
        let Some(served) = self.served.remove(name) else { return };
        let rows = self.custom.current();
        let mut gone = rows
            .all()
            .filter(|row| *row.kind.group == *served.group && *row.plural == *served.plural);
        let prefix = gone.find_map(|row| Some(row.storage.as_ref()?.prefix.clone()));
        self.custom.remove(&served.group, &served.plural, None);
        if let Some(prefix) = prefix {
            self.options.caches.remove(&prefix);
        }
    }

    /// Removes the rows of definitions that no longer exist.
    pub fn retain(&mut self, there: &[Value]) {
        let is_there = |name: &str| there.iter().any(|value| Definition(value).name() == name);
        let gone: Vec<String> =
            self.served.keys().filter(|name| !is_there(name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
    }
}
