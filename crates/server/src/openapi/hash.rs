//! Hashes of the sources of documents: they change when and only when the sources do.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use kevel_api::builtin;
use ring::digest::{Context, SHA512};

use super::About;
use super::document::{names, rows};
use crate::discovery::documents::Snapshot;
use kevel_registry::resource::Resource;

/// To be changed with the way in which documents are written.
const FORMAT: u32 = 1;

/// Hash of each document, and of all.
#[derive(Debug)]
pub(super) struct Hashes {
    documents: Vec<Entry>,
    whole: String,
}

#[derive(Debug)]
struct Entry {
    name: String,
    hash: String,
    /// Resources that the hash was computed from.
    rows: Vec<Arc<Resource>>,
}

impl Hashes {
    /// Hashes of a state of the resources. Unchanged documents keep their hash from `before`.
    pub fn new(snapshot: &Snapshot, about: &About, before: Option<&Hashes>) -> Self {
        let mut documents = Vec::new();
        for name in names(snapshot, about) {
            let rows = rows(snapshot, &name);
            let same = before.and_then(|before| before.entry(&name)).filter(|known| {
                known.rows.len() == rows.len()
                    && known.rows.iter().zip(&rows).all(|(a, b)| Arc::ptr_eq(a, b))
            });
            let hash = match same {
                Some(known) => known.hash.clone(),
                None => hash(&name, about, &rows),
            };
            documents.push(Entry { name, hash, rows });
        }
        let mut context = Context::new(&SHA512);
        for entry in &documents {
            context.update(entry.name.as_bytes());
            context.update(entry.hash.as_bytes());
        }
        Hashes { documents, whole: digits(context) }
    }

    pub fn of(&self, name: &str) -> Option<&str> {
        Some(self.entry(name)?.hash.as_str())
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.documents.iter().map(|entry| (entry.name.as_str(), entry.hash.as_str()))
    }

    /// Hash of all documents, combined with another tag.
    pub fn with(&self, more: &str) -> String {
        if more.is_empty() {
            return self.whole.clone();
        }
        let mut context = Context::new(&SHA512);
        context.update(self.whole.as_bytes());
        context.update(more.as_bytes());
        digits(context)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        let found = self.documents.binary_search_by(|entry| entry.name.as_str().cmp(name));
        self.documents.get(found.ok()?)
    }
}

fn hash(name: &str, about: &About, rows: &[Arc<Resource>]) -> String {
    let mut context = Context::new(&SHA512);
    context.update(built_in().as_bytes());
    context.update(name.as_bytes());
    context.update(about.version.as_bytes());
    for row in rows {
        let mut text = String::new();
        let names = (&row.kind, &row.plural, &row.verbs, row.namespaced);
        let _ = write!(text, "{names:?} {}", row.strategy.returns_deleted_object());
        for (name, sub) in &row.subresources {
            let _ = write!(text, " {name} {:?} {:?}", sub.kind, sub.verbs);
        }
        if let Some(schema) = row.conventions.published.definition() {
            let said = (row.strategy.preserves_unknown(), row.strategy.selectable_fields());
            let _ = write!(text, " {} {schema:?} {said:?}", row.list_kind);
        }
        kevel_compute::charge(text.len() / 16);
        context.update(text.as_bytes());
    }
    digits(context)
}

/// Hash of everything built in: definitions, descriptions, the program.
fn built_in() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    kevel_compute::filled::<String>(&HASH, || {
        let table = builtin::table();
        let mut sink = Sink(Context::new(&SHA512));
        let _ = write!(sink, "{FORMAT} {} {:?}", env!("CARGO_PKG_VERSION"), table.types);
        let _ = write!(sink, "{:?} {:?} {:?}", table.defaults, table.merges, table.names);
        // Formatting these would take longest: there are thousands.
        for field in table.fields.iter() {
            kevel_compute::charge(1);
            for number in [field.ty, field.rank.into(), field.flags.0.into(), field.default.into()]
            {
                sink.0.update(&number.to_le_bytes());
            }
            for number in [u32::from(field.merge), field.values.0, field.values.1.into()] {
                sink.0.update(&number.to_le_bytes());
            }
        }
        sink.0.update(table.text.as_bytes());
        sink.0.update(kevel_openapi_text::packed());
        digits(sink.0)
    })
}

struct Sink(Context);

impl std::fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        kevel_compute::charge(1);
        self.0.update(text.as_bytes());
        Ok(())
    }
}

fn digits(context: Context) -> String {
    context.finish().as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}
