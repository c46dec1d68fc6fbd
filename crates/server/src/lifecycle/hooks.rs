//! Post-start and pre-shutdown hooks.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kevel_compute::Metered;
use tokio::task::JoinSet;

use super::tasks::Tasks;
use crate::health::Check;
use kevel_component::future::Pending;
use kevel_component::signals::Signal;

/// Result of a hook.
pub type HookResult = Result<(), String>;

type PostStart = Box<dyn FnOnce(HookContext) -> Pending<'static, HookResult> + Send>;
type PreShutdown = Box<dyn FnOnce() -> Pending<'static, HookResult> + Send>;

/// Context of a post-start hook (upstream: `PostStartHookContext`).
#[derive(Clone, Debug)]
pub struct HookContext {
    /// Signaled at shutdown: tasks that the hook started end then.
    pub stop: Signal,
    /// Tasks that continue after the hook.
    pub tasks: Tasks,
}

impl HookContext {
    /// Starts a task that runs until shutdown. If it ends before or panics, a health check fails: see [`Tasks`].
    pub fn spawn(&self, name: &str, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.wait();
        self.tasks.spawn(name, async move {
            tokio::select! {
                () = task => {}
                () = stop => {}
            }
        });
    }
}

/// Hooks of a server, by name.
#[derive(Default)]
pub struct Hooks {
    post_start: Mutex<Registered<PostStart>>,
    pre_shutdown: Mutex<Registered<PreShutdown>>,
    /// Health checks that fail until the start is complete, in the order of registration.
    checks: Mutex<Vec<Check>>,
}

struct Registered<H> {
    hooks: BTreeMap<&'static str, H>,
    called: bool,
}

impl<H> Default for Registered<H> {
    fn default() -> Self {
        Registered { hooks: BTreeMap::new(), called: false }
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("post_start", &lock(&self.post_start).hooks.keys())
            .field("pre_shutdown", &lock(&self.pre_shutdown).hooks.keys())
            .finish()
    }
}

impl Hooks {
    /// Adds a post-start hook. Its health check, `poststarthook/<name>`, fails until the hook has ended.
    pub fn add_post_start<F>(
        &self,
        name: &'static str,
        hook: impl FnOnce(HookContext) -> F + Send + 'static,
    ) -> HookResult
    where
        F: Future<Output = HookResult> + Send + 'static,
    {
        let done = Signal::new(name);
        let check = Check::new(format!("poststarthook/{name}"), {
            let done = done.clone();
            move || done.is_signaled().then_some(()).ok_or_else(|| "not finished".to_owned())
        });
        let hook: PostStart = Box::new(move |context| {
            let hook = hook(context);
            Box::pin(async move {
                hook.await.map_err(|error| format!("PostStartHook {name:?} failed: {error}"))?;
                done.signal();
                Ok(())
            })
        });
        lock(&self.post_start).add(name, hook, "PostStartHooks")?;
        self.add_check(check);
        Ok(())
    }

    /// Adds a controller that runs until shutdown: its hook ends when the controller has started.
    pub fn run(
        &self,
        name: &'static str,
        controller: impl Future<Output = ()> + Send + 'static,
    ) -> HookResult {
        self.add_post_start(name, move |context| async move {
            context.spawn(name, controller);
            Ok(())
        })
    }

    /// Adds another check that fails until the start is complete.
    pub fn add_check(&self, check: Check) {
        lock(&self.checks).push(check);
    }

    /// Health checks registered so far, for [`Health::add_boot`](crate::health::Health::add_boot).
    pub fn checks(&self) -> Vec<Check> {
        lock(&self.checks).clone()
    }

    /// Adds a pre-shutdown hook; requests are served until it has ended.
    pub fn add_pre_shutdown<F>(
        &self,
        name: &'static str,
        hook: impl FnOnce() -> F + Send + 'static,
    ) -> HookResult
    where
        F: Future<Output = HookResult> + Send + 'static,
    {
        let hook: PreShutdown = Box::new(move || {
            let hook = hook();
            Box::pin(async move {
                hook.await.map_err(|error| format!("PreShutdownHook {name:?} failed: {error}"))
            })
        });
        lock(&self.pre_shutdown).add(name, hook, "PreShutdownHooks")
    }

    /// Runs the post-start hooks concurrently, until all have ended or one fails: a server whose start failed should
    /// not go on.
    pub async fn run_post_start(&self, context: HookContext) -> HookResult {
        let mut running = JoinSet::new();
        for (name, hook) in lock(&self.post_start).take() {
            running.spawn(Metered::task(hook(context.clone()), name));
        }
        while let Some(ended) = running.join_next().await {
            let result = ended.unwrap_or_else(|error| Err(format!("PostStartHook: {error}")));
            if result.is_err() {
                // The other hooks continue, so that their work is not left half done.
                running.detach_all();
                return result;
            }
        }
        Ok(())
    }

    /// Runs all pre-shutdown hooks one after the other, even if some fail.
    pub(super) async fn run_pre_shutdown(&self) -> HookResult {
        let hooks = lock(&self.pre_shutdown).take();
        let mut errors = Vec::new();
        for hook in hooks.into_values() {
            // In a task of its own, so that a panic does not stop the shutdown.
            let result = tokio::spawn(hook()).await;
            errors.extend(result.unwrap_or_else(|error| Err(error.to_string())).err());
        }
        match errors.as_slice() {
            [] => Ok(()),
            [error] => Err(error.clone()),
            errors => Err(format!("[{}]", errors.join(", "))),
        }
    }
}

impl<H> Registered<H> {
    fn add(&mut self, name: &'static str, hook: H, kind: &str) -> HookResult {
        if name.is_empty() {
            return Err("missing name".to_owned());
        }
        if self.called {
            return Err(format!("unable to add {name:?} because {kind} have already been called"));
        }
        if self.hooks.contains_key(name) {
            return Err(format!("unable to add {name:?} because it is already registered"));
        }
        self.hooks.insert(name, hook);
        Ok(())
    }

    fn take(&mut self) -> BTreeMap<&'static str, H> {
        self.called = true;
        std::mem::take(&mut self.hooks)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> HookContext {
        crate::lifecycle::Lifecycle::default().hook_context()
    }

    #[tokio::test]
    async fn a_post_start_hook_is_a_health_check() {
        let hooks = Hooks::default();
        let go = Signal::new("go");
        let wait = go.wait();
        hooks
            .add_post_start("start-informers", |_| async {
                wait.await;
                Ok(())
            })
            .unwrap();
        let checks = hooks.checks();
        let [check] = checks.as_slice() else { panic!("{checks:?}") };
        assert_eq!(check.name(), "poststarthook/start-informers");
        assert_eq!(check.check().await, Err("not finished".to_owned()));
        go.signal();
        hooks.run_post_start(context()).await.unwrap();
        assert_eq!(check.check().await, Ok(()));
        assert_eq!(
            hooks.add_post_start("late", |_| async { Ok(()) }),
            Err("unable to add \"late\" because PostStartHooks have already been called".into()),
        );
    }

    #[tokio::test]
    async fn a_failed_post_start_hook_is_named() {
        let hooks = Hooks::default();
        hooks.add_post_start("a", |_| async { Ok(()) }).unwrap();
        hooks.add_post_start("b", |_| async { Err("no store".into()) }).unwrap();
        assert!(hooks.add_post_start("b", |_| async { Ok(()) }).is_err());
        assert_eq!(
            hooks.run_post_start(context()).await,
            Err("PostStartHook \"b\" failed: no store".to_owned()),
        );
    }

    #[tokio::test]
    async fn panicking_pre_shutdown_hook_does_not_stop_the_others() {
        let hooks = Hooks::default();
        let ran = Signal::new("ran");
        let signal = ran.clone();
        hooks.add_pre_shutdown("a", || async { panic!("oops") }).unwrap();
        hooks
            .add_pre_shutdown("b", || async move {
                signal.signal();
                Ok(())
            })
            .unwrap();
        assert!(hooks.run_pre_shutdown().await.is_err());
        assert!(ran.is_signaled());
    }
}
