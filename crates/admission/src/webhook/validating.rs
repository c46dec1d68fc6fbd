//! `ValidatingAdmissionWebhook`: webhooks that may refuse requests, called in parallel.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_clock::{Stopwatch, monotonic_now};
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Plugin, ready};
use kevel_registry::resource::Resource;

use crate::cel::CachingAuthorizer;
use crate::manifest::ManifestError;
use crate::predicates::Matched;

use super::annotations::Place;
use super::call::call;
use super::definition::{Step, Webhook};
use super::failure::timed_out;
use super::versions::{Encoded, Versioned, as_requested, equivalent};
use super::{Config, Follow, Webhooks};

/// Name in `--enable-admission-plugins`.
pub const NAME: &str = "ValidatingAdmissionWebhook";

/// Admission plug-in of that name.
#[derive(Debug)]
pub struct ValidatingAdmissionWebhook(Webhooks);

/// A webhook to call, and the index of the version that it matched.
struct Invocation<'h> {
    webhook: &'h Webhook,
    version: usize,
}

/// Objects of a request in a version that a webhook matched.
enum Version {
    AsRequested,
    Equivalent { resource: Arc<Resource>, object: Option<Value>, old: Option<Value> },
}

impl Version {
    fn is(&self, matched: &Matched) -> bool {
        match (self, matched) {
            (Version::AsRequested, Matched::AsRequested) => true,
            (Version::Equivalent { resource, .. }, Matched::Equivalent(other)) => {
                resource.kind == other.kind
            }
            _ => false,
        }
    }

    fn objects<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Versioned<'a> {
        match self {
            Version::AsRequested => as_requested(attributes, object),
            Version::Equivalent { resource, object, old } => {
                let subresource = attributes.subresource;
                Versioned::new(resource, subresource, object.as_ref(), old.as_ref())
            }
        }
    }
}

impl ValidatingAdmissionWebhook {
    /// Makes the plug-in, and the task that keeps its webhooks up to date. Manifests that cannot be loaded are an error.
    pub fn new(config: Config) -> Result<(Self, Follow), ManifestError> {
        let (webhooks, follow) = Webhooks::new(config, Step::Validate)?;
        Ok((ValidatingAdmissionWebhook(webhooks), follow))
    }

    async fn dispatch(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), StatusError> {
        let hooks = self.0.hooks(attributes).await?;
        let mut versions = Vec::new();
        let invocations = self.invocations(&hooks, attributes, object, &mut versions).await?;
        if invocations.is_empty() {
            return Ok(());
        }
        if attributes.deadline.is_some_and(|deadline| monotonic_now() >= deadline) {
            return Err(timed_out());
        }
        let encoded = versions.iter().map(|version| version.objects(attributes, object).encode());
        let encoded: Vec<Encoded<'_>> = encoded.collect();
        self.ask_all(&invocations, attributes, &encoded).await
    }

    /// Webhooks that match a request, and the versions that they matched.
    async fn invocations<'h>(
        &self,
        hooks: &'h [Arc<Webhook>],
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        versions: &mut Vec<Version>,
    ) -> Result<Vec<Invocation<'h>>, StatusError> {
        let subject = self.0.config.matcher.subject(attributes);
        let authorizer = CachingAuthorizer::new(&*self.0.config.authorizer, attributes.user);
        let mut invocations = Vec::new();
        for webhook in hooks {
            let Some(matched) = webhook.criteria.matches(&subject, object).await? else { continue };
            let version = match versions.iter().position(|version| version.is(&matched)) {
                Some(known) => known,
                None => {
                    versions.push(version(attributes, matched, object).await?);
                    versions.len() - 1
                }
            };
            let versioned = versions[version].objects(attributes, object);
            if self.0.conditions_hold(webhook, attributes, &authorizer, &versioned).await? {
                invocations.push(Invocation { webhook, version });
            }
        }
        Ok(invocations)
    }

    /// Calls all webhooks and waits for all of them; the first refusal is returned.
    async fn ask_all(
        &self,
        invocations: &[Invocation<'_>],
        attributes: &Attributes<'_>,
        encoded: &[Encoded<'_>],
    ) -> Result<(), StatusError> {
        let ask = async |index: usize, invocation: &Invocation<'_>| {
            let Invocation { webhook, version } = invocation;
            let started = Stopwatch::start();
            let asked = call(webhook, &self.0.config.clients, attributes, &encoded[*version]).await;
            self.0.observe(webhook, attributes, started.elapsed(), &asked);
            let place = Place { round: 0, index };
            asked.map(drop).or_else(|failure| self.0.judge(webhook, attributes, place, failure))
        };
        let calls = invocations.iter().enumerate();
        let mut calls: FuturesUnordered<_> =
            calls.map(|(index, invocation)| ask(index, invocation)).collect();
        let mut first = Ok(());
        while let Some(judged) = calls.next().await {
            match (&first, judged) {
                (Ok(()), judged) => first = judged,
                (Err(_), Err(other)) => tracing::warn!("refused as well: {other}"),
                (Err(_), Ok(())) => {}
            }
        }
        first
    }
}

async fn version(
    attributes: &Attributes<'_>,
    matched: Matched,
    object: Option<&Value>,
) -> Result<Version, StatusError> {
    match matched {
        Matched::AsRequested => Ok(Version::AsRequested),
        Matched::Equivalent(resource) => {
            let (object, old) = equivalent(attributes, &resource, object).await?;
            Ok(Version::Equivalent { resource, object, old })
        }
    }
}

impl Plugin for ValidatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        NAME
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        match self.0.is_idle(attributes) {
            true => ready(Ok(())),
            false => Box::pin(self.dispatch(attributes, object)),
        }
    }
}
