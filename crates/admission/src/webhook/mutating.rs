//! `MutatingAdmissionWebhook`: webhooks that may change what is written, asked one after the other.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_clock::Stopwatch;
use kevel_server::admission::{Attributes, Plugin, Reinvocation, ready};
use kevel_server::future::Pending;

use crate::cel::CachingAuthorizer;

use super::annotations::Place;
use super::call::call;
use super::definition::{Step, Webhook};
use super::versions::Versions;
use super::{Config, Follow, Webhooks, patch};

/// Its name in `--enable-admission-plugins`.
pub const NAME: &str = "MutatingAdmissionWebhook";

/// The plug-in of that name.
#[derive(Debug)]
pub struct MutatingAdmissionWebhook(Webhooks);

impl MutatingAdmissionWebhook {
    /// The plug-in, and what keeps its webhooks up to date.
    pub fn new(config: Config) -> (Self, Follow) {
        let (webhooks, follow) = Webhooks::new(config, Step::Admit);
        (MutatingAdmissionWebhook(webhooks), follow)
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
            // Who was not asked in the first round is not asked in the second.
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

/// What is remembered from the first round for the second.
#[derive(Debug, Default)]
struct Memory {
    /// What the webhooks left, where somebody may have to see what became of it.
    last_output: Option<Value>,
    /// Those that want to see later changes, and have not seen all of them.
    invoked: HashSet<String>,
    /// Those that are asked again.
    due: HashSet<String>,
}

impl Memory {
    fn reinvoke_invoked(&mut self) {
        self.due.extend(self.invoked.drain());
    }
}

/// A round of webhooks.
struct Round<'a>(&'a Reinvocation);

impl<'a> Round<'a> {
    fn begin(reinvocation: &'a Reinvocation, object: Option<&Value>) -> Self {
        if reinvocation.is_reinvoke() {
            reinvocation.with(NAME, |memory: &mut Memory| {
                // Other plug-ins changed it since.
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

    /// Notes that a webhook was asked, and whether it changed the object: those before it may have to be asked again.
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
        // Without a second round nobody looks at it.
        if self.0.is_requested() && !self.0.is_reinvoke() {
            self.0.with(NAME, |memory: &mut Memory| {
                if !memory.invoked.is_empty() {
                    memory.last_output = object.cloned();
                }
            });
        }
    }
}
