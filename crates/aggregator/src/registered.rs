//! All present APIServices, watched from the cache and parsed once for all users.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use imbl::OrdMap;
use kevel_component::signals::Signal;
use kevel_registry::storage::Storage;
use kevel_server::certificates::verify::Purpose;
use kevel_server::certificates::warn_unable_to_sign;
use kevel_server::egress::Dialer;
use kevel_server::webhook::Identity;
use kevel_store::cache::{At, CacheError, Object, Selection};
use tokio::sync::watch;

use crate::api_service::ApiService;
use crate::upstream::Upstream;

/// Pause before the cache is watched again.
const RETRY: Duration = Duration::from_millis(200);

/// An APIService, with the connections to its server if it is remote.
#[derive(Debug)]
pub(crate) struct Registered {
    pub service: ApiService,
    pub upstream: Option<Arc<Upstream>>,
}

/// APIServices by name.
pub(crate) type All = OrdMap<String, Arc<Registered>>;

type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// All APIServices.
pub(crate) struct ApiServices {
    storage: Arc<Storage>,
    identity: Option<Identity>,
    dialer: Dialer,
    all: ArcSwap<All>,
    /// Remote APIServices: mostly none, which every request checks.
    remote: ArcSwap<All>,
    any_remote: watch::Sender<bool>,
    loaded: Signal,
    listeners: Mutex<Vec<Listener>>,
}

impl std::fmt::Debug for ApiServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.all.load().keys()).finish()
    }
}

impl ApiServices {
    /// An empty set. `identity` is the client certificate for extension servers, `dialer` connects to them.
    pub fn new(storage: Arc<Storage>, identity: Option<Identity>, dialer: Dialer) -> Self {
        ApiServices {
            storage,
            identity,
            dialer,
            all: ArcSwap::default(),
            remote: ArcSwap::default(),
            any_remote: watch::Sender::new(false),
            loaded: Signal::new("APIServicesLoaded"),
            listeners: Mutex::default(),
        }
    }

    /// Calls `hear` with the name of every APIService that exists, is added, changes or is removed.
    pub fn listen(&self, hear: impl Fn(&str) + Send + Sync + 'static) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(hear));
    }

    pub fn all(&self) -> arc_swap::Guard<Arc<All>> {
        self.all.load()
    }

    /// Remote APIServices.
    pub fn remote(&self) -> arc_swap::Guard<Arc<All>> {
        self.remote.load()
    }

    /// Waits until there is a remote APIService.
    pub async fn some_remote(&self) {
        let mut any = self.any_remote.subscribe();
        // The sender lives as long as this.
        let _ = any.wait_for(|any| *any).await;
    }

    /// Signaled when all stored APIServices are loaded.
    pub fn loaded(&self) -> &Signal {
        &self.loaded
    }

    /// Watches the cache until it is closed.
    pub async fn follow(&self) {
        while !matches!(self.follow_once().await, Err(CacheError::Closed)) {
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn follow_once(&self) -> Result<(), CacheError> {
        let selection = Selection::default();
        let (snapshot, mut watcher) =
            self.storage.cache.list_watch(selection, At::Consistent).await?;
        let before = self.all.load_full();
        let read = |object| self.read(object, &before).map(|one| (one.service.name.clone(), one));
        let after: All = snapshot.range("", None).filter_map(|object| read(object)).collect();
        let gone = before.keys().filter(|name| !after.contains_key(*name)).cloned();
        let names: Vec<String> = after.keys().cloned().chain(gone).collect();
        self.publish(after);
        self.loaded.signal();
        names.iter().for_each(|name| self.tell(name));
        let mut seen = Vec::new();
        loop {
            watcher.next(&mut seen).await?;
            for delivery in seen.drain(..) {
                let event = &delivery.event;
                let Some(object) = event.current().or(event.previous()) else { continue };
                let before = self.all.load_full();
                let one = event.current().and_then(|object| self.read(object, &before));
                let mut after = All::clone(&before);
                match one {
                    Some(one) => after.insert(object.name().to_owned(), one),
                    None => after.remove(object.name()),
                };
                self.publish(after);
                self.tell(object.name());
            }
        }
    }

    fn publish(&self, all: All) {
        let remote = all.iter().filter(|(_, one)| one.upstream.is_some());
        let remote: All = remote.map(|(name, one)| (name.clone(), one.clone())).collect();
        if !(remote.is_empty() && self.remote.load().is_empty()) {
            self.any_remote.send_replace(!remote.is_empty());
            self.remote.store(Arc::new(remote));
        }
        self.all.store(Arc::new(all));
    }

    fn tell(&self, name: &str) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|hear| hear(name));
    }

    /// Parses an object; connections are kept if its server is the same.
    fn read(&self, object: &Object, before: &All) -> Option<Arc<Registered>> {
        let value = self.storage.read(object.wire().ok()?).ok()?;
        let service = ApiService::read(&value);
        let known = before.get(&service.name).filter(|known| {
            let (old, new) = (&known.service, &service);
            (&old.service, &old.ca_bundle, old.insecure_skip_tls_verify)
                == (&new.service, &new.ca_bundle, new.insecure_skip_tls_verify)
        });
        let bundle = before.get(&service.name).map(|known| &known.service.ca_bundle);
        if bundle != Some(&service.ca_bundle) && !service.insecure_skip_tls_verify {
            let source = format_args!("APIService {}", service.name);
            warn_unable_to_sign(source, Purpose::ServerAuth, [&service.ca_bundle]);
        }
        let upstream = match known {
            Some(known) => known.upstream.clone(),
            None => {
                let upstream = Upstream::of(&service, self.identity.clone(), self.dialer.clone());
                upstream.map(Arc::new)
            }
        };
        Some(Arc::new(Registered { service, upstream }))
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;
    use crate::api_service::GROUP;
    use crate::testing::storage;

    /// Connections are kept while the server and what it is trusted by stay the same.
    #[tokio::test]
    async fn connections_change_with_their_server() {
        let spec = |of: &str| {
            format!(
                r#"{{"group":"e.x","version":"v1","groupPriorityMinimum":1000,"versionPriority":15,{of}}}"#
            )
        };
        let service = |name: &str, namespace: &str, port: u16| {
            format!(r#""service":{{"name":"{name}","namespace":"{namespace}","port":{port}}}"#)
        };
        let (same, trusted) = (service("s", "n", 443), r#""caBundle":"YQ==""#);
        for (what, after, kept) in [
            ("nothing", format!("{same},{trusted}"), true),
            ("priority", format!(r#"{same},{trusted},"versionPriority":16"#), true),
            ("name", format!("{},{trusted}", service("t", "n", 443)), false),
            ("namespace", format!("{},{trusted}", service("s", "m", 443)), false),
            ("port", format!("{},{trusted}", service("s", "n", 444)), false),
            ("CA bundle", format!(r#"{same},"caBundle":"Yg==""#), false),
            ("no CA bundle", same.clone(), false),
            ("verification", format!(r#"{same},{trusted},"insecureSkipTLSVerify":true"#), false),
        ] {
            let (storage, _caches) =
                storage(GROUP, "APIService", "apiregistration.k8s.io/apiservices");
            let services = ApiServices::new(storage.clone(), None, Dialer::default());
            let mut known = All::default();
            let mut upstreams = Vec::new();
            for of in [format!("{same},{trusted}"), after] {
                let text = format!(r#"{{"metadata":{{"name":"v1.e.x"}},"spec":{}}}"#, spec(&of));
                let object = decode_any(text.as_bytes(), Unknown::Ignore).expect(&text).value;
                storage.discard("", "v1.e.x").await.unwrap();
                storage.insert(object).await.unwrap();
                let snapshot = storage.cache.snapshot(At::Consistent).await.unwrap();
                let one = services.read(snapshot.get("v1.e.x").unwrap(), &known).unwrap();
                upstreams.extend(one.upstream.clone());
                known.insert("v1.e.x".to_owned(), one);
            }
            assert_eq!(upstreams.len(), 2, "{what}");
            assert_eq!(Arc::ptr_eq(&upstreams[0], &upstreams[1]), kept, "{what}");
        }
    }
}
