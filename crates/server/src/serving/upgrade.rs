//! Connections that go on in another protocol.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

use super::ongoing::{Exchange, Ongoing};
use crate::body::Body;
use crate::future::Pending;
use crate::handler::Response;

/// On an answer with code 101: what takes the connection over. The answer's body is not sent but
/// handed on, with all that the handler chain has hung on it: the exchange lasts as long as it does.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<Option<Takeover>>>);

/// A connection that was taken over.
pub type Taken = TokioIo<Upgraded>;

type Takeover = Box<dyn FnOnce(Taken, Body) -> Pending<'static, ()> + Send>;

impl Upgrade {
    /// Lets a function take the connection over.
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

/// What a connection does once its last answer, with code 101, is out.
#[derive(Default)]
pub(super) struct Next(Mutex<Option<Planned>>);

struct Planned {
    on_upgrade: OnUpgrade,
    takeover: Takeover,
    body: Body,
    exchange: Exchange,
}

impl Next {
    /// Plans what an answer says. The exchange comes back if it says nothing.
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

    /// Does what was planned, if something was. Told to finish, it goes on to its end.
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
