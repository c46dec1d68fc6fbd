//! Rights of a search: who may search, and which objects a user may list.

use std::collections::HashMap;
use std::sync::Arc;

use kevel_component::future::Pending;
use kevel_registry::resource::Resource;
use kevel_registry::selectors::Selectors;
use kevel_registry::user::{ALL_AUTHENTICATED, User};
use kevel_server::authorization::{Attributes, Authorizer, Decision, Opinion, Rules};

use super::SEARCH_PATH;

/// Most questions to the authorizer in one search, whose answers are remembered: a few MiB. A user with rights in all
/// namespaces causes one for each resource, others one for each resource and namespace.
const MAX_QUESTIONS: usize = 20_000;

/// Allows all authenticated users to search: what is found is what they may list. Other requests are another
/// authorizer's.
pub struct SearchAuthorizer {
    others: Arc<dyn Authorizer>,
}

impl std::fmt::Debug for SearchAuthorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SearchAuthorizer")
    }
}

impl SearchAuthorizer {
    /// An authorizer in front of the server's own.
    pub fn before(others: Arc<dyn Authorizer>) -> Self {
        SearchAuthorizer { others }
    }
}

impl Authorizer for SearchAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        let is_search = !attributes.is_resource
            && attributes.path == SEARCH_PATH
            && attributes.verb == "get"
            && attributes.user.groups.iter().any(|group| group == ALL_AUTHENTICATED);
        if is_search {
            return Box::pin(std::future::ready(Opinion::allow()));
        }
        self.others.authorize(attributes)
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.others.rules_for(user, namespace)
    }
}

/// Rights of a user to list, asked once for each resource and namespace.
pub(super) struct ListRights<'a> {
    authorizer: &'a dyn Authorizer,
    user: &'a User,
    selectors: Selectors,
    known: HashMap<(String, String, String), bool>,
}

impl<'a> ListRights<'a> {
    pub(super) fn new(authorizer: &'a dyn Authorizer, user: &'a User) -> Self {
        ListRights { authorizer, user, selectors: Selectors::default(), known: HashMap::new() }
    }

    /// Whether the user may list a resource in a namespace, or in all if it is empty; `None` if too much was asked.
    pub(super) async fn may_list(&mut self, row: &Resource, namespace: &str) -> Option<bool> {
        let key = (row.kind.group.to_string(), row.plural.clone(), namespace.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        if self.known.len() >= MAX_QUESTIONS {
            return None;
        }
        let path = path(row, namespace);
        let attributes = Attributes {
            user: self.user,
            verb: "list",
            is_resource: true,
            path: &path,
            group: &row.kind.group,
            version: &row.kind.version,
            namespace,
            resource: &row.plural,
            subresource: "",
            name: "",
            selectors: &self.selectors,
        };
        let opinion = self.authorizer.authorize(&attributes).await;
        let may = opinion.decision == Decision::Allow;
        self.known.insert(key, may);
        Some(may)
    }
}

/// Path of a list, as authorizers see it.
fn path(row: &Resource, namespace: &str) -> String {
    let (group, version, plural) = (&row.kind.group, &row.kind.version, &row.plural);
    let root = match group.is_empty() {
        true => format!("/api/{version}"),
        false => format!("/apis/{group}/{version}"),
    };
    match namespace {
        "" => format!("{root}/{plural}"),
        namespace => format!("{root}/namespaces/{namespace}/{plural}"),
    }
}
