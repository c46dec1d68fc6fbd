//! Deletion of objects at the end of their time.

use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, run};

use crate::context::ControllerContext;
use crate::delay::Delays;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;

/// Controller that deletes objects at the end of their time. Each object has a timer: nothing is polled.
pub(crate) struct Expiry {
    /// Name of the controller.
    pub name: &'static str,
    /// Name of its work queue.
    pub queue: &'static str,
    pub client: Client,
    pub objects: CacheLister,
    /// Path of an object.
    pub path: fn(&str, &str) -> String,
    /// Time from which on an object is not kept; `None` if it is.
    pub end: fn(&Value) -> Option<Time>,
    /// Whether an object is deleted only in the state that was seen.
    pub bound: bool,
}

impl Expiry {
    pub fn build(self, context: &ControllerContext) -> ControllerLoop {
        let (name, queue) = (self.name, context.queue(self.queue, Backoff::default()));
        let heard = queue.clone();
        let informer = self.objects.informer().for_each(move |object| heard.add(object.key()));
        let delays = Delays::new(context.clock().clone(), queue.clone());
        let (this, later) = (Arc::new(self), delays.clone());
        let reconcile = move |key: String| {
            let (this, delays) = (this.clone(), later.clone());
            async move { this.reconcile(&key, &delays).await }
        };
        Box::pin(async move {
            tokio::join!(informer, delays.run(), run(queue, name, 1, reconcile));
        })
    }

    async fn reconcile(&self, key: &str, delays: &Delays) -> Result<(), StatusError> {
        let found = self.objects.snapshot().get(key).map(|found| self.objects.tree(found));
        let Some(object) = found.transpose()? else {
            return Ok(());
        };
        let Some(end) = (self.end)(&object) else { return Ok(()) };
        if delays.add_at(key, end) {
            return Ok(());
        }
        let of = |field| object.str_at(&["metadata", field]);
        let path = (self.path)(of("namespace"), of("name"));
        let deleted = if self.bound {
            self.client.delete_seen(&path, &object).await
        } else {
            self.client.delete(&path).await
        };
        let gone = [reason::NOT_FOUND, reason::CONFLICT];
        match deleted {
            Err(error) if gone.contains(&error.reason()) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                tracing::info!(controller = self.name, key, "Deleted at the end of its time");
                Ok(())
            }
        }
    }
}
