//! Any object of any kind through the rules of its kind, as a new one, as a change of another, and as a
//! change of the status alone: no panic, and no more time or memory than the fuzzer's limits.
#![no_main]

use std::sync::{Arc, OnceLock};

use kevel_api::value::Value;
use kevel_controlplane::{RowsConfig, StorageOptions, rows, storages};
use kevel_fuzz::{Source, typed};
use kevel_registry::backends::{Backend, Backends};
use kevel_registry::resource::{Resource, SubresourceKind};
use kevel_registry::storage::Format;
use kevel_registry::strategy::Strategy;
use kevel_registry::user::User;
use kevel_store::Engine;
use kevel_store::embedded::{Embedded, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(mut source) = Source::new(data) else { return };
    let kind = source.kind();
    let is = |row: &&Resource| {
        (&*row.kind.group, &*row.kind.version, &*row.kind.kind)
            == (kind.group, kind.version, kind.name)
    };
    let Some(row) = all().iter().find(is) else { return };
    let schema = row.ty.schema();
    let Some(object) = source.tree(schema).and_then(|tree| typed(&tree, schema)) else { return };
    let old = source.tree(schema).and_then(|tree| typed(&tree, schema));
    judge(&*row.strategy, &object, old.as_ref());
    for subresource in row.subresources.values() {
        if let (SubresourceKind::Fields(fields), Some(old)) = (&subresource.role, &old) {
            change(&*fields.strategy, &object, old);
        }
    }
});

fn judge(strategy: &dyn Strategy, object: &Value, old: Option<&Value>) {
    let mut new = object.clone();
    strategy.prepare_for_create(&mut new);
    strategy.sign(&mut new, &User { name: "jane".into(), ..User::default() });
    let _ = strategy.validate_create(&new);
    strategy.warnings(&new, None);
    // A change is judged beside what was accepted; here, beside anything, which the store may hold.
    change(strategy, object, &new);
    if let Some(old) = old {
        change(strategy, object, old);
    }
    strategy.grace_period(&new, Some(1));
    strategy.held(&new);
    strategy.begin_delete(&mut new);
    let name = object.str_at(&["metadata", "name"]);
    strategy.validate_name(name, false);
    strategy.validate_name(name, true);
}

fn change(strategy: &dyn Strategy, object: &Value, old: &Value) {
    let mut new = object.clone();
    strategy.prepare_for_update(&mut new, old);
    let _ = strategy.validate_update(&new, old);
    strategy.warnings(&new, Some(old));
    let mut new = object.clone();
    strategy.prepare_for_status_update(&mut new, old);
    let _ = strategy.validate_status_update(&new, old);
}

/// The rows of all built-in kinds. Nothing is stored: only their rules are asked.
fn all() -> &'static [Resource] {
    static ALL: OnceLock<Vec<Resource>> = OnceLock::new();
    ALL.get_or_init(|| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let guard = runtime.enter();
        let engine: Arc<dyn Engine> =
            Arc::new(Embedded::memory(Options::default()).expect("a store"));
        let backends = Backends::new(Backend::new(engine, "/registry/"));
        let options = StorageOptions::new(Format::Json);
        let storages = storages(|_| true, &options, &backends).expect("storages");
        let all = rows(|_| true, &RowsConfig::new(&storages)).expect("rows");
        drop(guard);
        // They live as long as the process.
        std::mem::forget((runtime, backends));
        all
    })
}
