//! Search over all stored kinds, in the watch caches.

mod query;
mod rights;
mod scan;
mod tops;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use kevel_api::value::{Map, Value};
use kevel_clock::Stopwatch;
use kevel_component::future::Pending;
use kevel_registry::resource::Resources;
use kevel_registry::{query as url_query, user::User};
use kevel_server::authorization::Authorizer;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::Request;
use tokio::sync::Semaphore;

pub use rights::SearchAuthorizer;

use crate::answers::{json, refusal};
use query::SearchQuery;
use rights::ListRights;
use scan::{Scan, SearchedKind};

/// Path of the endpoint.
pub const SEARCH_PATH: &str = "/ui/search";
/// Time for one search: a later answer is too late while the user types. The results until then are shown.
const TIME: Duration = Duration::from_millis(800);
/// Objects in an answer: more are not read; the user types another letter.
const MAX_RESULTS: usize = 60;
/// Searches at a time: each computes for as long as it may.
const MAX_AT_A_TIME: usize = 8;

/// Answers searches (`GET /ui/search?q=WORDS`).
pub struct ObjectSearch {
    tables: Vec<Arc<Resources>>,
    authorizer: Arc<dyn Authorizer>,
    permits: Semaphore,
}

impl std::fmt::Debug for ObjectSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ObjectSearch")
    }
}

impl ObjectSearch {
    /// Searches the stored resources of these tables. The authorizer says what a user may list.
    pub fn new(tables: Vec<Arc<Resources>>, authorizer: Arc<dyn Authorizer>) -> Self {
        ObjectSearch { tables, authorizer, permits: Semaphore::new(MAX_AT_A_TIME) }
    }

    async fn answer(&self, query: &SearchQuery, user: &User) -> Response {
        let started = Stopwatch::start();
        let Ok(Ok(_permit)) = tokio::time::timeout(TIME, self.permits.acquire()).await else {
            return refusal(StatusCode::TOO_MANY_REQUESTS, "too many searches at a time");
        };
        let mut rights = ListRights::new(&*self.authorizer, user);
        let mut scan = Scan::new(query, started, TIME, MAX_RESULTS);
        let candidates = self.candidates(query);
        for with_text in [false, true] {
            if with_text && !scan.wants_text() {
                break;
            }
            for candidate in &candidates {
                scan.look_at(candidate, with_text, &mut rights).await;
            }
        }
        let (results, complete) = scan.finish();
        let mut fields = Map::new();
        fields.insert("complete", Value::Bool(complete));
        fields.insert("results", Value::List(results.into_iter().collect()));
        json(StatusCode::OK, fields)
    }

    /// The kinds to look at: each cache once, with the resources that show its objects.
    fn candidates(&self, query: &SearchQuery) -> Vec<SearchedKind> {
        let mut candidates: Vec<SearchedKind> = Vec::new();
        for table in &self.tables {
            for row in table.current().all() {
                kevel_compute::charge(1);
                let Some(storage) = row.storage.as_ref().filter(|_| query.admits(row)) else {
                    continue;
                };
                let known = candidates.iter_mut().find(|found| found.is_of(&storage.cache));
                match known {
                    Some(candidate) => candidate.add(row),
                    None => candidates.push(SearchedKind::new(row, storage)),
                }
            }
        }
        candidates
    }
}

impl Handler for ObjectSearch {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            let Some(user) = request.user.as_deref() else {
                return refusal(StatusCode::UNAUTHORIZED, "no user");
            };
            let text = url_query::first(&request.info.query, "q").unwrap_or_default();
            match SearchQuery::parse(text) {
                Ok(query) => self.answer(&query, user).await,
                Err(error) => refusal(StatusCode::BAD_REQUEST, &error.to_string()),
            }
        })
    }
}
