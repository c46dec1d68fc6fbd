//! OpenAPI documents of extension servers: version 3 is listed here and proxied, version 2 is downloaded and merged
//! into this server's.

mod downloads;
mod v2;
mod v3;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::delegate::not_found;
use kevel_server::handler::Response;
use kevel_server::openapi::{Remote, RemoteDocuments};
use kevel_server::request::Request;

pub(crate) use downloads::Downloads;
pub(crate) use v2::{V2, V2Part};
pub(crate) use v3::{V3, V3Root};

use crate::proxy::Proxy;

/// OpenAPI documents of remote APIServices.
pub(crate) struct OpenApi {
    pub proxy: Proxy,
    pub v2: Arc<Downloads<V2>>,
    pub v3: Arc<Downloads<V3>>,
    made: ArcSwapOption<Made>,
}

struct Made {
    v2: Arc<BTreeMap<String, Arc<V2Part>>>,
    v3: Arc<BTreeMap<String, Arc<V3Root>>>,
    documents: Arc<RemoteDocuments>,
}

impl OpenApi {
    pub fn new(proxy: Proxy, v2: Arc<Downloads<V2>>, v3: Arc<Downloads<V3>>) -> Self {
        OpenApi { proxy, v2, v3, made: ArcSwapOption::empty() }
    }
}

impl Remote for OpenApi {
    fn current(&self) -> Arc<RemoteDocuments> {
        let (v2, v3) = (self.v2.kept(), self.v3.kept());
        if let Some(made) = &*self.made.load()
            && Arc::ptr_eq(&made.v2, &v2)
            && Arc::ptr_eq(&made.v3, &v3)
        {
            return made.documents.clone();
        }
        let mut tag = DefaultHasher::new();
        let mut documents = RemoteDocuments::default();
        for root in v3.values() {
            root.hash(&mut tag);
            let paths = root.iter().map(|(name, url)| (name.clone(), url.clone()));
            documents.v3.extend(paths);
        }
        // Documents of the same group beside each other, by priority.
        let services = self.proxy.services.all().clone();
        let mut parts: Vec<_> = v2.iter().collect();
        parts.sort_by_key(|(name, _)| {
            let priority = services.get(*name).map(|one| one.service.group_priority);
            (std::cmp::Reverse(priority), *name)
        });
        for (_, part) in parts {
            part.text.hash(&mut tag);
            documents.v2.push(part.text.clone());
        }
        if !(v2.is_empty() && v3.is_empty()) {
            documents.tag = format!("{:016X}", tag.finish());
        }
        let documents = Arc::new(documents);
        let made = Made { v2, v3, documents: documents.clone() };
        self.made.store(Some(Arc::new(made)));
        documents
    }

    fn serve<'a>(&'a self, name: &str, request: Request) -> Pending<'a, Response> {
        let roots = self.v3.kept();
        let service = roots.iter().find(|(_, root)| root.contains_key(name));
        let one =
            service.and_then(|(service, _)| self.proxy.services.remote().get(service).cloned());
        Box::pin(async move {
            match one {
                Some(one) => self.proxy.pass_on(&one, request).await,
                None => not_found(&request),
            }
        })
    }
}

/// User of OpenAPI requests. The documents are public.
fn aggregator() -> User {
    User { name: "system:aggregator".to_owned(), ..User::default() }
}
