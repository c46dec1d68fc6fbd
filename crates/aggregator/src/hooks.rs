//! Post-start hooks of the aggregator, with the reference's names.

use std::sync::Arc;

use kevel_component::future::Pending;
use kevel_component::signals::Signal;
use kevel_controller_runtime::WorkQueue;
use kevel_server::lifecycle::{HookContext, HookResult, Lifecycle};

use crate::Aggregator;

impl Aggregator {
    /// Adds the post-start hooks, each with its health check. Once all APIServices and the custom resources are loaded,
    /// a 404 is final: no other server could answer.
    pub fn add_hooks(
        &self,
        lifecycle: &Lifecycle,
        custom_kinds: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), String> {
        let hooks = &lifecycle.hooks;
        let add = |name: &'static str, work: Work| {
            hooks.add_post_start(name, move |context| work.start(name, context))
        };
        if self.has_identity {
            // The files are checked whenever a connection is made.
            add("aggregator-reload-proxy-client-cert", Work::finite(async {}))?;
        }
        let (services, complete) =
            (self.services.clone(), lifecycle.signals.mux_and_discovery_complete.clone());
        let loaded = self.services.loaded().wait();
        let registration = async move {
            tokio::join!(loaded, custom_kinds);
            complete.signal();
        };
        let (local, remote, discovery) = (&self.local, &self.remote, &self.discovery);
        for (name, work) in [
            ("start-kube-aggregator-informers", Work::new(async move { services.follow().await })),
            (
                "apiservice-status-local-available-controller",
                Work::new(local.clone().run()).with_queue(&local.queue),
            ),
            (
                "apiservice-status-remote-available-controller",
                Work::new(remote.clone().run()).with_queue(&remote.queue),
            ),
            (
                "apiservice-registration-controller",
                Work::finite(registration).until(self.services.loaded()),
            ),
            (
                "apiservice-discovery-controller",
                Work::new(discovery.clone().run())
                    .until(&discovery.synced)
                    .with_queue(&discovery.queue),
            ),
            (
                "kube-apiserver-autoregistration",
                Work::new(self.register()).with_queue(&self.registration.queue),
            ),
        ] {
            add(name, work)?;
        }
        hooks.add_check(self.completion.clone());
        let (v2, v3) = (&self.openapi.v2, &self.openapi.v3);
        for (name, work) in [
            ("apiservice-openapi-controller", Work::new(v2.clone().run()).with_queue(&v2.queue)),
            ("apiservice-openapiv3-controller", Work::new(v3.clone().run()).with_queue(&v3.queue)),
        ] {
            add(name, work)?;
        }
        Ok(())
    }

    /// Registers this server's own APIServices. Waits for the CustomResourceDefinitions: before they are loaded, their
    /// APIServices would seem superfluous.
    fn register(&self) -> impl Future<Output = ()> + Send + 'static {
        let (registration, definitions) =
            (self.registration.clone(), self.crd_registration.clone());
        async move {
            let Some(definitions) = definitions else { return registration.run().await };
            let initial_sync = definitions.initial_sync.wait();
            let registration = async {
                initial_sync.await;
                registration.run().await;
            };
            tokio::join!(definitions.run(), registration);
        }
    }
}

/// Background task of a hook.
struct Work {
    task: Pending<'static, ()>,
    /// Signal that the hook waits for.
    until: Option<Signal>,
    /// Queue whose workers end with the server.
    queue: Option<Arc<WorkQueue>>,
    /// Whether the task ends by itself.
    finite: bool,
}

impl Work {
    fn new(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Work { task: Box::pin(task), until: None, queue: None, finite: false }
    }

    /// A task that ends by itself.
    fn finite(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Work { finite: true, ..Work::new(task) }
    }

    fn until(self, signal: &Signal) -> Self {
        Work { until: Some(signal.clone()), ..self }
    }

    fn with_queue(self, queue: &Arc<WorkQueue>) -> Self {
        Work { queue: Some(queue.clone()), ..self }
    }

    async fn start(self, name: &'static str, context: HookContext) -> HookResult {
        let Work { task, until, queue, finite } = self;
        let stop = context.stop.wait();
        let work = async move {
            tokio::select! {
                () = task => {}
                () = stop => {}
            }
            queue.iter().for_each(|queue| queue.shut_down());
        };
        match finite {
            true => context.tasks.spawn_finite(name, work),
            false => context.tasks.spawn(name, work),
        }
        if let Some(until) = until {
            tokio::select! {
                () = until.wait() => {}
                () = context.stop.wait() => {}
            }
        }
        Ok(())
    }
}
