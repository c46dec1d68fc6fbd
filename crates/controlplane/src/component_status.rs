//! Kind ComponentStatus: the health of the control plane's other components.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Either, Full, Limited};
use kevel_api::quote::quote;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::resource::Lister;
use kevel_server::proxy::{Transport, TransportConfig};
use kevel_store::{Engine, Probe};
use tokio::time::timeout;

use crate::columns;
use crate::kind::Kind;

/// `componentstatuses`
pub static COMPONENT_STATUS: Kind =
    Kind { columns: columns::core::COMPONENT_STATUS, ..Kind::new("", "componentstatuses") };

/// Timeout of a health check.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of a response that is read.
const MAX_ANSWER: usize = 10 << 10;

/// Health endpoints of the components at their default ports.
const SERVERS: [(&str, &str); 2] = [
    ("controller-manager", "https://127.0.0.1:10257/healthz"),
    ("scheduler", "https://127.0.0.1:10259/healthz"),
];
const STORE: &str = "etcd-0";

/// Lister that checks the components on each request.
#[derive(Debug)]
pub struct ComponentStatuses {
    /// Transport without verification of server certificates, as in the reference.
    transport: Transport,
    store: Probe,
}

/// Health of a component, with its message.
type Answer = (bool, String);

impl ComponentStatuses {
    /// Checker of this server's storage engine and of the components on this host.
    pub fn new(engine: Arc<dyn Engine>) -> Result<Self, String> {
        let transport = Transport::new(&TransportConfig::default())?;
        Ok(ComponentStatuses { transport, store: Probe::new(engine) })
    }

    async fn server(&self, url: &'static str) -> Answer {
        let failed = |why: &str| (false, format!("Get {}: {why}", quote(url)));
        let mut request = http::Request::new(Either::Right(Full::default()));
        *request.uri_mut() = http::Uri::from_static(url);
        let asked = async {
            let answer = self.transport.send(request).await?;
            let code = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok::<_, String>((code, String::from_utf8_lossy(&body).into_owned()))
        };
        match timeout(TIMEOUT, asked).await {
            Ok(Ok((200..300, said))) => (true, said),
            Ok(Ok((code, _))) => (false, format!("HTTP probe failed with statuscode: {code}")),
            Ok(Err(why)) => failed(&why),
            Err(_) => failed("context deadline exceeded"),
        }
    }

    async fn store(&self) -> Value {
        match self.store.check(TIMEOUT).await {
            Ok(()) => status(STORE, (true, "ok".to_owned()), ""),
            Err(error) => status(STORE, (false, String::new()), &error.to_string()),
        }
    }
}

impl Lister for ComponentStatuses {
    fn list(&self) -> Pending<'_, Vec<Value>> {
        Box::pin(async {
            let [(manager, manager_url), (scheduler, scheduler_url)] = SERVERS;
            let (of_manager, of_scheduler, of_store) =
                tokio::join!(self.server(manager_url), self.server(scheduler_url), self.store());
            vec![status(manager, of_manager, ""), of_store, status(scheduler, of_scheduler, "")]
        })
    }

    fn get<'a>(&'a self, name: &'a str) -> Pending<'a, Option<Value>> {
        Box::pin(async move {
            if name == STORE {
                return Some(self.store().await);
            }
            let (name, url) = SERVERS.into_iter().find(|(known, _)| *known == name)?;
            Some(status(name, self.server(url).await, ""))
        })
    }
}

fn status(name: &str, (well, message): Answer, error: &str) -> Value {
    let texts = [
        ("type", "Healthy"),
        ("status", if well { "True" } else { "False" }),
        ("message", &*message),
        ("error", error),
    ];
    let said = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let condition = Map::from_iter(said.map(|(field, text)| (field, Value::from(text))));
    Value::Map(Map::from_iter([
        ("kind", Value::from("ComponentStatus")),
        ("apiVersion", "v1".into()),
        ("metadata", Value::Map(Map::from_iter([("name", Value::from(name))]))),
        ("conditions", Value::List([Value::Map(condition)].into_iter().collect())),
    ]))
}
