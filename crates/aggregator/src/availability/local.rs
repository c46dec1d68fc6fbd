//! Available condition of local APIServices, which are always available (upstream: AvailableConditionController in
//! `status/local`).

use std::sync::Arc;

use kevel_controller_runtime::{Backoff, Client, WorkQueue, run};
use kevel_registry::resource::Resource;

use super::write;
use crate::api_service::Condition;
use crate::registered::ApiServices;

/// Controller that writes the condition of local APIServices that lack it: those that were remote before.
pub(crate) struct LocalAvailability {
    resource: Arc<Resource>,
    client: Client,
    pub queue: Arc<WorkQueue>,
}

impl LocalAvailability {
    pub fn new(services: &Arc<ApiServices>, resource: Arc<Resource>, client: Client) -> Arc<Self> {
        let queue = WorkQueue::new(Backoff::default());
        let (heard, known) = (queue.clone(), Arc::downgrade(services));
        services.listen(move |name| {
            let all = known.upgrade().map(|services| services.all().clone());
            let one = all.as_ref().and_then(|all| all.get(name));
            if one.is_some_and(|one| one.service.service.is_none() && !one.service.is_local_said) {
                heard.add(name);
            }
        });
        Arc::new(LocalAvailability { resource, client, queue })
    }

    pub async fn run(self: Arc<Self>) {
        let reconcile = {
            let this = self.clone();
            move |name: String| {
                let this = this.clone();
                async move {
                    let local = Condition::local();
                    write(&this.resource, &this.client, &name, &local).await.map(|_| ())
                }
            }
        };
        run(self.queue.clone(), "LocalAvailability", 1, reconcile).await;
    }
}
