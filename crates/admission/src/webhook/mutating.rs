//! `MutatingAdmissionWebhook`: webhooks that may change the object, called in sequence.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_clock::Stopwatch;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Plugin, Reinvocation, ready};

use crate::cel::CachingAuthorizer;
use crate::manifest::ManifestError;

use super::annotations::Place;
use super::call::call;
use super::definition::{Step, Webhook};
use super::versions::Versions;
use super::{Config, Follow, Webhooks, patch};

/// Name in `--enable-admission-plugins`.
pub const NAME: &str = "MutatingAdmissionWebhook";

/// Admission plug-in of that name.
#[derive(Debug)]
pub struct MutatingAdmissionWebhook(Webhooks);

impl MutatingAdmissionWebhook {
    /// Makes the plug-in, and the task that keeps its webhooks up to date. Manifests that cannot be loaded are an error.
    pub fn new(config: Config) -> Result<(Self, Follow), ManifestError> {
        let (webhooks, follow) = Webhooks::new(config, Step::Admit)?;
        Ok((MutatingAdmissionWebhook(webhooks), follow))
    }

    async fn dispatch(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<(), StatusError> {
        let hooks = self.0.hooks(attributes).await?;
        let one_round = Reinvocation::default();
        let round = Round::begin(attributes.reinvocation.unwrap_or(&one_round), object.as_deref());
        let result = self.ask_all(&hooks, attributes, object.as_deref_mut(), &round).await;
        round.end(object.as_deref());
        result
    }

    async fn ask_all(
        &self,
        hooks: &[Arc<Webhook>],
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        round: &Round<'_>,
    ) -> Result<(), StatusError> {
        let subject = self.0.config.matcher.subject(attributes);
        let authorizer = CachingAuthorizer::new(&*self.0.config.authorizer, attributes.user);
        let mut versions = Versions::new(attributes, object);
        for (index, webhook) in hooks.iter().enumerate() {
            let matched = webhook.criteria.matches(&subject, versions.current()).await?;
            let Some(matched) = matched else { continue };
            if !webhook.conditions.is_empty() {
                let versioned = versions.as_matched(&matched).await?;
                let hold = self.0.conditions_hold(webhook, attributes, &authorizer, &versioned);
                if !hold.await? {
                    continue;
                }
            }
            // The second round calls only webhooks that the first round called.
            if !round.is_due(webhook) {
                continue;
            }
            let versioned = versions.as_matched(&matched).await?;
            let place = Place { round: round.number(), index };
            let started = Stopwatch::start();
            let encoded = versioned.encode();
            let asked = call(webhook, &self.0.config.clients, attributes, &encoded);
            let changed = asked.await.and_then(|response| {
                let changed = patch::apply(&webhook.name, &response, &versioned, attributes)?;
                Ok(changed.map(|changed| (response, changed)))
            });
            let mutated = match &changed {
                Ok(Some((_, changed))) => versioned.object != Some(changed),
                _ => false,
            };
            if let Ok(Some((response, _))) = &changed {
                place.patch(webhook, &response.patch, attributes);
            }
            place.mutation(webhook, mutated, attributes);
            self.0.observe(webhook, attributes, started.elapsed(), &changed);
            round.asked(webhook, mutated);
            match changed {
                Ok(Some((_, changed))) => versions.replace(changed),
                Ok(None) => {}
                Err(failure) => self.0.judge(webhook, attributes, place, failure)?,
            }
        }
        versions.settle().await
    }
}

impl Plugin for MutatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        NAME
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        match self.0.is_idle(attributes) {
            true => ready(Ok(())),
            false => Box::pin(self.dispatch(attributes, object)),
        }
    }
}

/// State that is kept from the first round of plug-ins to the second (upstream: webhookReinvokeContext).
#[derive(Debug, Default)]
struct Memory {
    /// Object at the end of the first round, if an `IfNeeded` webhook may have to see it.
    last_output: Option<Value>,
    /// `IfNeeded` webhooks called since the last change.
    invoked: HashSet<String>,
    /// `IfNeeded` webhooks to call again.
    due: HashSet<String>,
}

impl Memory {
    fn reinvoke_invoked(&mut self) {
        self.due.extend(self.invoked.drain());
    }
}

/// One of the two rounds of calls.
struct Round<'a>(&'a Reinvocation);

impl<'a> Round<'a> {
    fn begin(reinvocation: &'a Reinvocation, object: Option<&Value>) -> Self {
        if reinvocation.is_reinvoke() {
            reinvocation.with(NAME, |memory: &mut Memory| {
                // Other plug-ins changed the object since.
                if !memory.invoked.is_empty() && memory.last_output.as_ref() != object {
                    memory.reinvoke_invoked();
                }
            });
        }
        Round(reinvocation)
    }

    fn number(&self) -> u32 {
        self.0.round()
    }

    fn is_due(&self, webhook: &Webhook) -> bool {
        !self.0.is_reinvoke()
            || self.0.with(NAME, |memory: &mut Memory| memory.due.contains(&webhook.uid))
    }

    /// Records that a webhook was called, and whether it changed the object, in which case the webhooks before it are
    /// due.
    fn asked(&self, webhook: &Webhook, mutated: bool) {
        if !mutated && !webhook.reinvoke_if_needed {
            return;
        }
        self.0.with(NAME, |memory: &mut Memory| {
            if mutated {
                memory.reinvoke_invoked();
                self.0.request();
            }
            if webhook.reinvoke_if_needed {
                memory.invoked.insert(webhook.uid.clone());
            }
        });
    }

    fn end(&self, object: Option<&Value>) {
        // Without a second round the object is not needed.
        if self.0.is_requested() && !self.0.is_reinvoke() {
            self.0.with(NAME, |memory: &mut Memory| {
                if !memory.invoked.is_empty() {
                    memory.last_output = object.cloned();
                }
            });
        }
    }
}
