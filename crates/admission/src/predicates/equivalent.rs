//! Rows that serve the same objects in other versions or groups (upstream: EquivalentResourceMapper).

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kevel_registry::resource::{Resource, Resources, Rows};

/// Equivalent rows, computed once for each state of the resource tables.
#[derive(Debug)]
pub(super) struct Equivalents {
    tables: Vec<Arc<Resources>>,
    known: ArcSwap<EquivalentRows>,
}

#[derive(Debug, Default)]
struct EquivalentRows {
    /// Resource tables that `shared` was computed from.
    rows: Vec<Arc<Rows>>,
    /// Equivalent rows by identity, in the order of the tables.
    shared: HashMap<String, Vec<Arc<Resource>>>,
}

impl Equivalents {
    pub fn new(tables: Vec<Arc<Resources>>) -> Self {
        Equivalents { tables, known: ArcSwap::default() }
    }

    /// Other rows that serve the objects of a row and have this subresource.
    pub fn of(&self, resource: &Resource, subresource: &str) -> Arc<[Arc<Resource>]> {
        let known = self.known();
        let shared = known.shared.get(&identity(resource)).map_or(&[][..], Vec::as_slice);
        let same = |row: &Resource| row.kind == resource.kind && row.plural == resource.plural;
        let has =
            |row: &Resource| subresource.is_empty() || row.subresources.contains_key(subresource);
        shared.iter().filter(|row| !same(row) && has(row)).cloned().collect()
    }

    fn known(&self) -> Arc<EquivalentRows> {
        let known = self.known.load();
        let current = |known: &EquivalentRows| {
            known.rows.len() == self.tables.len()
                && known.rows.iter().zip(&self.tables).all(|(k, t)| Arc::ptr_eq(k, &t.current()))
        };
        if current(&known) {
            return Arc::clone(&known);
        }
        let known =
            Arc::new(EquivalentRows::new(self.tables.iter().map(|table| table.current().clone())));
        self.known.store(known.clone());
        known
    }
}

impl EquivalentRows {
    fn new(tables: impl Iterator<Item = Arc<Rows>>) -> Self {
        let rows: Vec<Arc<Rows>> = tables.collect();
        let mut shared: HashMap<String, Vec<Arc<Resource>>> = HashMap::new();
        for row in rows.iter().flat_map(|rows| rows.all()) {
            shared.entry(identity(row)).or_default().push(row.clone());
        }
        // A row without equivalents needs no entry.
        shared.retain(|_, rows| rows.len() > 1);
        EquivalentRows { rows, shared }
    }
}

/// Identity that equivalent rows share: the storage prefix, or group and plural if the objects are not stored.
fn identity(row: &Resource) -> String {
    match &row.storage {
        Some(storage) => storage.prefix.clone(),
        None => format!("{}/{}", row.kind.group, row.plural),
    }
}
