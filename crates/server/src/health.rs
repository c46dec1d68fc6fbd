//! Health endpoints `/healthz`, `/livez` and `/readyz`.
//!
//! Each is a list of named checks. The path itself runs all checks (`?verbose` shows each result, `?exclude=name`
//! leaves one out), a path below it a single check.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue, StatusCode, header};
use kevel_clock::monotonic_now;

use crate::body::Body;
use crate::handler::{Handler, Response};
use crate::metrics::Slis;
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_component::signals::Signals;
use kevel_registry::query;

/// A named check.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use kevel_server::health::Check;
/// let check = Check::new("disk", || Err("full".to_owned()));
/// assert_eq!(check.check().await, Err("full".to_owned()));
/// # });
/// ```
#[derive(Clone)]
pub struct Check {
    name: Arc<str>,
    group: Option<&'static str>,
    question: Question,
}

#[derive(Clone)]
enum Question {
    Now(Arc<dyn Fn() -> Result<(), String> + Send + Sync>),
    Later(Arc<dyn Fn() -> Pending<'static, Result<(), String>> + Send + Sync>),
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Check({})", self.name)
    }
}

impl Check {
    /// A check that completes at once.
    pub fn new(
        name: impl Into<Arc<str>>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Check { name: name.into(), group: None, question: Question::Now(Arc::new(check)) }
    }

    /// An asynchronous check; it should have a time limit of its own.
    pub fn later(
        name: impl Into<Arc<str>>,
        check: impl Fn() -> Pending<'static, Result<(), String>> + Send + Sync + 'static,
    ) -> Self {
        Check { name: name.into(), group: None, question: Question::Later(Arc::new(check)) }
    }

    /// The check that passes as long as the server answers (`ping`).
    pub fn ping() -> Self {
        Check::new("ping", || Ok(()))
    }

    /// The check of the log. Writing to it does not block the server, so it is always green.
    pub fn log() -> Self {
        Check::new("log", || Ok(()))
    }

    /// Puts the check into a group, by whose name it can be excluded as well.
    pub fn in_group(self, group: &'static str) -> Self {
        Check { group: Some(group), ..self }
    }

    /// Name of the check.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the check.
    pub async fn check(&self) -> Result<(), String> {
        match &self.question {
            Question::Now(check) => check(),
            Question::Later(check) => check().await,
        }
    }
}

/// The checks of a server, while it is built.
#[derive(Debug)]
pub struct Health {
    started: Instant,
    livez_grace_period: Duration,
    healthz: Vec<Check>,
    livez: Vec<Check>,
    readyz: Vec<Check>,
}

impl Health {
    /// No checks yet. `livez_grace_period` is `--livez-grace-period`: the time in which `/livez` ignores an incomplete
    /// start.
    pub fn new(livez_grace_period: Duration) -> Self {
        let started = monotonic_now();
        let (healthz, livez, readyz) = Default::default();
        Health { started, livez_grace_period, healthz, livez, readyz }
    }

    /// Adds a check to all three endpoints.
    pub fn add(&mut self, check: Check) {
        self.healthz.push(check.clone());
        self.livez.push(check.clone());
        self.readyz.push(check);
    }

    /// Adds a check that fails until the start is complete: `/livez` ignores it during the grace period.
    pub fn add_boot(&mut self, check: Check) {
        self.healthz.push(check.clone());
        self.livez.push(check.clone().minded_from(self.started + self.livez_grace_period));
        self.readyz.push(check);
    }

    /// Adds a check to `/readyz` only.
    pub fn add_readyz(&mut self, check: Check) {
        self.readyz.push(check);
    }

    /// Adds a check to `/healthz` only: a problem that neither a restart nor another server would solve.
    pub fn add_healthz(&mut self, check: Check) {
        self.healthz.push(check);
    }

    /// Adds a check to `/livez` only, ignored for `delay` after the start.
    pub fn add_livez(&mut self, delay: Duration, check: Check) {
        self.livez.push(check.minded_from(self.started + delay));
    }

    /// The handler of the checks. `/readyz` fails as soon as the shutdown is initiated.
    pub fn install(mut self, signals: &Signals) -> HealthHandler {
        let shutdown = signals.shutdown_initiated.clone();
        self.add_readyz(Check::new("shutdown", move || match shutdown.is_signaled() {
            true => Err("process is shutting down".to_owned()),
            false => Ok(()),
        }));
        let endpoints = [("healthz", self.healthz), ("livez", self.livez), ("readyz", self.readyz)]
            .map(|(name, checks)| Endpoint { name, checks });
        HealthHandler { endpoints, signals: signals.clone(), slis: Arc::default() }
    }
}

impl Check {
    fn minded_from(self, from: Instant) -> Self {
        if from <= monotonic_now() {
            return self;
        }
        let (name, group) = (self.name.clone(), self.group);
        let check = Check::later(name, move || {
            let check = self.clone();
            Box::pin(
                async move { if monotonic_now() > from { check.check().await } else { Ok(()) } },
            )
        });
        Check { group, ..check }
    }
}

/// Serves `/healthz`, `/livez` and `/readyz`, and each check below them.
#[derive(Debug)]
pub struct HealthHandler {
    endpoints: [Endpoint; 3],
    signals: Signals,
    slis: Arc<Slis>,
}

#[derive(Debug)]
struct Endpoint {
    name: &'static str,
    checks: Vec<Check>,
}

impl HealthHandler {
    /// Served paths, for the index of all paths.
    pub fn paths(&self) -> Vec<String> {
        let below = |endpoint: &Endpoint| {
            let name = endpoint.name;
            let checks = endpoint.checks.iter().map(|check| format!("/{name}/{}", check.name()));
            [format!("/{name}")].into_iter().chain(checks.collect::<Vec<_>>())
        };
        self.endpoints.iter().flat_map(below).collect()
    }

    /// Metrics of the checks' results.
    pub fn slis(&self) -> Arc<Slis> {
        self.slis.clone()
    }

    /// Response to a path and query, if the path is one of these.
    pub async fn answer(&self, path: &str, query: &str) -> Option<Response> {
        let path = path.strip_prefix('/')?;
        let (name, check) = path.split_once('/').map_or((path, None), |(n, c)| (n, Some(c)));
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.name == name)?;
        match check {
            Some(check) => {
                let check = endpoint.checks.iter().find(|known| known.name() == check)?;
                Some(endpoint.single(check, &self.slis).await)
            }
            None => {
                let (healthy, response) = endpoint.all(&query::pairs(query), &self.slis).await;
                if healthy && name == "readyz" {
                    self.signals.has_been_ready.signal();
                }
                Some(response)
            }
        }
    }
}

impl Handler for HealthHandler {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            let answer = self.answer(&request.info.path, request.query()).await;
            answer.unwrap_or_else(|| error(StatusCode::NOT_FOUND, "404 page not found".to_owned()))
        })
    }
}

impl Endpoint {
    /// Runs all checks; returns whether all passed, and the response.
    async fn all(&self, query: &[(String, String)], slis: &Slis) -> (bool, Response) {
        let excluded = query.iter().filter(|(key, _)| key == "exclude");
        let excluded: BTreeSet<&str> = excluded.map(|(_, value)| value.as_str()).collect();
        let mut unknown = excluded.clone();
        let mut report = String::new();
        let mut failed = String::new();
        for check in &self.checks {
            let name = check.name();
            let group = check.group.filter(|group| excluded.contains(group));
            // Writing to a String cannot fail.
            if excluded.contains(name) {
                unknown.remove(name);
                let _ = writeln!(report, "[+]{name} excluded: ok");
            } else if let Some(group) = group {
                unknown.remove(group);
                let _ = writeln!(report, "[+]{name} excluded with {group}: ok");
            } else if let Err(error) = self.ask(check, slis).await {
                // This path is public; the reason is shown only at the check's own path, to authorized users.
                let _ = writeln!(report, "[-]{name} failed: reason withheld");
                let _ = writeln!(failed, "[-]{name} failed: {error}");
            } else {
                let _ = writeln!(report, "[+]{name} ok");
            }
        }
        if !unknown.is_empty() {
            let names: Vec<_> = unknown.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            let _ = writeln!(
                report,
                "warn: some health checks cannot be excluded: no matches for {names}"
            );
        }
        let name = self.name;
        if !failed.is_empty() {
            tracing::info!("{name} check failed:\n{failed}");
            report.push_str(&format!("{name} check failed"));
            return (false, error(StatusCode::INTERNAL_SERVER_ERROR, report));
        }
        if !query.iter().any(|(key, _)| key == "verbose") {
            return (true, text(StatusCode::OK, "ok".to_owned(), true));
        }
        report.push_str(&format!("{name} check passed\n"));
        (true, text(StatusCode::OK, report, true))
    }

    async fn single(&self, check: &Check, slis: &Slis) -> Response {
        match self.ask(check, slis).await {
            Ok(()) => text(StatusCode::OK, "ok".to_owned(), false),
            Err(reason) => {
                let message = format!("internal server error: {reason}");
                error(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
        }
    }

    async fn ask(&self, check: &Check, slis: &Slis) -> Result<(), String> {
        let result = check.check().await;
        slis.record(self.name, check.name(), result.is_ok());
        result
    }
}

fn error(status: StatusCode, mut message: String) -> Response {
    message.push('\n');
    text(status, message, true)
}

fn text(status: StatusCode, text: String, nosniff: bool) -> Response {
    const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, plain);
    if nosniff {
        headers.insert(NOSNIFF, HeaderValue::from_static("nosniff"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(handler: &HealthHandler, target: &str) -> (u16, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match handler.answer(path, query).await {
            Some(response) => {
                let text = response.body().bytes().unwrap();
                (response.status().as_u16(), String::from_utf8(text.to_vec()).unwrap())
            }
            None => (404, String::new()),
        }
    }

    fn health(livez_grace_period: Duration) -> Health {
        let mut health = Health::new(livez_grace_period);
        health.add(Check::ping());
        health.add(Check::new("etcd", || Err("no leader".to_owned())).in_group("storage"));
        health
    }

    #[tokio::test]
    async fn the_texts_are_those_of_the_reference() {
        let handler = health(Duration::ZERO).install(&Signals::default());
        for (target, status, text) in [
            (
                "/healthz",
                500,
                "[+]ping ok\n[-]etcd failed: reason withheld\nhealthz check failed\n",
            ),
            ("/healthz?exclude=etcd", 200, "ok"),
            (
                "/healthz?exclude=etcd&verbose",
                200,
                "[+]ping ok\n[+]etcd excluded: ok\nhealthz check passed\n",
            ),
            (
                "/livez?exclude=storage&verbose=1",
                200,
                "[+]ping ok\n[+]etcd excluded with storage: ok\nlivez check passed\n",
            ),
            (
                "/readyz?exclude=etcd&exclude=foo&exclude=bar&verbose",
                200,
                "[+]ping ok\n[+]etcd excluded: ok\n[+]shutdown ok\n\
                 warn: some health checks cannot be excluded: no matches for \"bar\",\"foo\"\n\
                 readyz check passed\n",
            ),
            ("/readyz/ping", 200, "ok"),
            ("/readyz/etcd", 500, "internal server error: no leader\n"),
            ("/healthz/shutdown", 404, ""),
            ("/healthz/", 404, ""),
            ("/other", 404, ""),
        ] {
            assert_eq!(ask(&handler, target).await, (status, text.to_owned()), "{target}");
        }
    }

    #[tokio::test]
    async fn only_readyz_fails_once_shutdown_begins() {
        let signals = Signals::default();
        let mut health = Health::new(Duration::ZERO);
        health.add(Check::ping());
        let handler = health.install(&signals);
        assert_eq!(ask(&handler, "/livez").await.0, 200);
        assert!(!signals.has_been_ready.is_signaled());
        assert_eq!(ask(&handler, "/readyz").await.0, 200);
        assert!(signals.has_been_ready.is_signaled());
        signals.shutdown_initiated.signal();
        assert_eq!(ask(&handler, "/livez").await.0, 200);
        assert_eq!(
            ask(&handler, "/readyz").await,
            (500, "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n".into()),
        );
    }

    #[tokio::test]
    async fn livez_ignores_a_slow_start_within_its_grace_period() {
        let slow = || Check::new("poststarthook/x", || Err("not finished".to_owned()));
        let mut patient = Health::new(Duration::from_secs(3600));
        patient.add_boot(slow());
        let patient = patient.install(&Signals::default());
        assert_eq!(ask(&patient, "/livez").await.0, 200);
        assert_eq!(ask(&patient, "/readyz").await.0, 500);
        assert_eq!(ask(&patient, "/readyz/poststarthook/x").await.0, 500);

        let mut impatient = Health::new(Duration::ZERO);
        impatient.add_boot(slow());
        assert_eq!(ask(&impatient.install(&Signals::default()), "/livez").await.0, 500);
    }

    #[tokio::test]
    async fn answers_are_plain_text() {
        let handler = health(Duration::ZERO).install(&Signals::default());
        for (target, nosniff) in [("/healthz", true), ("/livez/ping", false)] {
            let response = handler.answer(target, "").await.unwrap();
            assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
            assert_eq!(response.headers().contains_key("x-content-type-options"), nosniff);
        }
    }
}
