//! Changes of the tables of resources.

use std::sync::Arc;

use kevel_registry::resource::Resources;
use tokio::task::JoinSet;

/// Waits for a change of one of the tables after this call.
pub(crate) fn changed(tables: &[Arc<Resources>]) -> impl Future<Output = ()> + Send + use<> {
    let receivers: Vec<_> = tables.iter().map(|table| table.changes()).collect();
    async move {
        let mut waits = JoinSet::new();
        for mut receiver in receivers {
            waits.spawn(async move {
                if receiver.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            });
        }
        waits.join_next().await;
    }
}
