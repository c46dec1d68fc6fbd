//! Protocol upgrades of connections.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

use super::ongoing::{Exchange, Ongoing};
use crate::body::Body;
use crate::handler::Response;
use kevel_component::future::Pending;

/// Extension of a 101 response: the function that takes the connection over. The response's body is not sent but passed
/// to it, with the values that filters attached: the exchange lasts as long.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<Option<Takeover>>>);

/// An upgraded connection.
pub type Taken = TokioIo<Upgraded>;

type Takeover = Box<dyn FnOnce(Taken, Body) -> Pending<'static, ()> + Send>;

impl Upgrade {
    /// An upgrade handled by a function.
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        takeover: impl FnOnce(Taken, Body) -> F + Send + 'static,
    ) -> Self {
        let takeover: Takeover = Box::new(|taken, body| Box::pin(takeover(taken, body)));
        Upgrade(Arc::new(Mutex::new(Some(takeover))))
    }
}

impl std::fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Upgrade")
    }
}

/// Upgrade to run after the last response of a connection, the 101.
#[derive(Default)]
pub(super) struct Next(Mutex<Option<Planned>>);

struct Planned {
    on_upgrade: OnUpgrade,
    takeover: Takeover,
    body: Body,
    exchange: Exchange,
}

impl Next {
    /// Plans the upgrade of a response. Returns the exchange if there is none.
    pub fn plan(
        &self,
        response: &mut Response,
        on_upgrade: Option<OnUpgrade>,
        exchange: Exchange,
    ) -> Option<Exchange> {
        let upgrade = response.extensions_mut().remove::<Upgrade>();
        let takeover = upgrade.and_then(|upgrade| lock(&upgrade.0).take());
        let (Some(takeover), Some(on_upgrade)) = (takeover, on_upgrade) else {
            return Some(exchange);
        };
        let body = std::mem::take(response.body_mut());
        *lock(&self.0) = Some(Planned { on_upgrade, takeover, body, exchange });
        None
    }

    /// Runs the planned upgrade, if any, to its end even if the connection was ordered to finish.
    pub async fn go_on(&self, ongoing: &Ongoing) {
        let Some(planned) = lock(&self.0).take() else { return };
        let Planned { on_upgrade, takeover, body, exchange } = planned;
        if let Ok(upgraded) = on_upgrade.await {
            tokio::select! {
                () = takeover(TokioIo::new(upgraded), body) => {}
                () = ongoing.dropped() => {}
            }
        }
        drop(exchange);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
