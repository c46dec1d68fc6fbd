//! Impersonation (`Impersonate-User` and its like): a permitted user acts as another one.
//!
//! There are five ways to be permitted, from the narrowest to the widest. The constrained ones ask
//! twice: whether the user may do *this* while impersonating (`impersonate-on:<mode>:<verb>`),
//! and whether the user may impersonate this one (`impersonate:<mode>`). The oldest, `impersonate`, lets
//! the user do whatever the other one may. The first way that permits counts; if none does, the
//! client is told what the first one that applies said.

mod headers;

use std::borrow::Cow;
use std::sync::Arc;

use kevel_api::field_error::{Path, aggregate};
use kevel_api::name::{is_domain_prefixed_path, name_is_dns_label, name_is_dns_subdomain};
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_clock::Stopwatch;

use super::authorization::refused;
use super::plain;
use crate::authorization::{Attributes, Authorizer, Decision, forbidden};
use crate::handler::{Filter, Handler, Response};
use crate::latency_trackers::LatencyTrackers;
use crate::metrics::Metrics;
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::latency::Phase;
use kevel_registry::selectors::NO_SELECTORS;
use kevel_registry::user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, PRIVILEGED, User};

/// Replaces the user of a request by the one that its headers name, if that is permitted.
pub(super) struct Impersonation {
    pub authorizer: Arc<dyn Authorizer>,
    pub metrics: Arc<Metrics>,
    /// The constrained ways are there, too.
    pub constrained: bool,
}

impl Filter for Impersonation {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let wanted = match headers::take(&mut request.parts.headers) {
            Ok(None) => return next.handle(request),
            Ok(Some(wanted)) => wanted,
            Err(error) => return Box::pin(std::future::ready(refused(&request, error))),
        };
        Box::pin(async move {
            let Some(requestor) = request.user.clone() else {
                return plain::internal_error(&request.parts.uri, "no User found in the context");
            };
            let started = Stopwatch::start();
            let attributes = Attributes::of(&request.info, &requestor);
            let found = self.impersonated(&wanted, &attributes).await;
            let took = started.elapsed();
            let name = if self.constrained { "constrainedimpersonation" } else { "impersonation" };
            let filter = self.metrics.filter_duration.with(&[name]);
            filter.observe(took.as_secs_f64());
            LatencyTrackers::add_to(&request, Phase::Impersonation, took);
            match found {
                Ok((user, constraint)) => {
                    tracing::debug!("{} is impersonating {}", shown(&requestor), shown(&user));
                    request.audit.impersonate(&user, &constraint);
                    request.user = Some(Arc::new(user));
                    next.handle(request).await
                }
                Err(error) => {
                    tracing::debug!(URI = %request.parts.uri, err = %error, "Forbidden");
                    refused(&request, error)
                }
            }
        })
    }
}

impl Impersonation {
    /// The user that the request is from now on, and the verb that permitted it if it is a
    /// constrained one.
    async fn impersonated(
        &self,
        wanted: &User,
        attributes: &Attributes<'_>,
    ) -> Result<(User, String), StatusError> {
        let mut first = None;
        let known = |mode: &&Mode| self.constrained || !mode.constrained;
        for mode in MODES.iter().filter(known) {
            if !(mode.applies)(wanted, attributes.user) {
                continue;
            }
            match self.check(mode, wanted, attributes).await {
                Ok(user) => return Ok((user, mode.constraint())),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| StatusError::internal("all impersonation modes failed")))
    }

    async fn check(
        &self,
        mode: &Mode,
        wanted: &User,
        attributes: &Attributes<'_>,
    ) -> Result<User, StatusError> {
        let requestor = mode.requestor(attributes.user);
        if mode.constrained {
            let verb = format!("impersonate-on:{}:{}", mode.name, attributes.verb);
            self.ask(&Attributes { user: &requestor, verb: &verb, ..*attributes }).await?;
        }
        let check = Check { filter: self, mode, requestor: &requestor, verb: mode.verb() };
        let mut user = wanted.clone();
        check.username(wanted, &mut user).await?;
        check.uid(wanted).await?;
        check.groups(wanted).await?;
        check.extra(wanted).await?;
        if user.name == ANONYMOUS {
            join(&mut user, ALL_UNAUTHENTICATED);
        } else if !user.groups.iter().any(|group| group == ALL_UNAUTHENTICATED) {
            join(&mut user, ALL_AUTHENTICATED);
        }
        Ok(user)
    }

    async fn ask(&self, attributes: &Attributes<'_>) -> Result<(), StatusError> {
        let opinion = self.authorizer.authorize(attributes).await;
        if opinion.decision == Decision::Allow {
            return Ok(());
        }
        let reason = match (opinion.error, opinion.reason) {
            (Some(error), reason) if reason.is_empty() => error,
            (Some(error), reason) => format!("{error}: {reason}"),
            (None, reason) => reason,
        };
        Err(forbidden(attributes, &reason))
    }
}

/// Mode of impersonation, with a permission of its own.
struct Mode {
    name: &'static str,
    constrained: bool,
    /// Whether the mode applies to this requestor and impersonated user.
    applies: fn(wanted: &User, requestor: &User) -> bool,
}

const MODES: [Mode; 5] = [
    // A service account's token says on which node it is used: it may be that node.
    Mode {
        name: ASSOCIATED_NODE,
        constrained: true,
        applies: |wanted, requestor| {
            let node = node_name(&wanted.name).filter(|_| has_only_a_name(wanted));
            service_account(&requestor.name).is_some()
                && node.is_some_and(|node| runs_on(requestor) == Some(node))
        },
    },
    Mode {
        name: "arbitrary-node",
        constrained: true,
        applies: |wanted, _| has_only_a_name(wanted) && node_name(&wanted.name).is_some(),
    },
    Mode {
        name: "serviceaccount",
        constrained: true,
        applies: |wanted, _| has_only_a_name(wanted) && service_account(&wanted.name).is_some(),
    },
    Mode {
        name: "user-info",
        constrained: true,
        applies: |wanted, _| {
            node_name(&wanted.name).is_none() && service_account(&wanted.name).is_none()
        },
    },
    Mode { name: "", constrained: false, applies: |_, _| true },
];

const ASSOCIATED_NODE: &str = "associated-node";

impl Mode {
    fn verb(&self) -> String {
        if self.constrained { self.constraint() } else { "impersonate".to_owned() }
    }

    fn constraint(&self) -> String {
        if self.constrained { format!("impersonate:{}", self.name) } else { String::new() }
    }

    /// Requestor for the authorizer: without the node name, which was checked against the requestor's own before and
    /// does not matter to the permission.
    fn requestor<'a>(&self, requestor: &'a User) -> Cow<'a, User> {
        if self.name != ASSOCIATED_NODE {
            return Cow::Borrowed(requestor);
        }
        let mut keys: Vec<_> = requestor.extra.iter().map(|(key, _)| key.clone()).collect();
        keys.sort();
        let extra = vec![("authentication.kubernetes.io/associated-node-keys".to_owned(), keys)];
        Cow::Owned(User { extra, ..requestor.clone() })
    }
}

/// Whether the requestor may be each part of the wanted user.
struct Check<'a> {
    filter: &'a Impersonation,
    mode: &'a Mode,
    requestor: &'a User,
    verb: String,
}

/// Number of extra values from which permission for all of them at once is checked first.
const MANY: usize = 4;

impl Check<'_> {
    async fn username(&self, wanted: &User, user: &mut User) -> Result<(), StatusError> {
        let mut attributes = self.attributes(self.names_group(), "users", &wanted.name);
        if self.mode.constrained
            && let Some(node) = node_name(&wanted.name)
        {
            attributes.resource = "nodes";
            attributes.name = if self.mode.name == ASSOCIATED_NODE { "*" } else { node };
            self.has_no_groups(wanted, &attributes, "node")?;
            user.groups = vec!["system:nodes".to_owned()];
        }
        if let Some((namespace, name)) = service_account(&wanted.name) {
            attributes.resource = "serviceaccounts";
            (attributes.namespace, attributes.name) = (namespace, name);
            if self.mode.constrained {
                self.has_no_groups(wanted, &attributes, "service account")?;
            }
            if wanted.groups.is_empty() {
                let own = format!("system:serviceaccounts:{namespace}");
                user.groups = vec!["system:serviceaccounts".to_owned(), own];
            }
        }
        self.filter.ask(&attributes).await
    }

    fn has_no_groups(
        &self,
        wanted: &User,
        attributes: &Attributes<'_>,
        what: &str,
    ) -> Result<(), StatusError> {
        if wanted.groups.is_empty() {
            return Ok(());
        }
        let groups: Vec<_> = wanted.groups.iter().map(|group| quote(group)).collect();
        let groups = groups.join(" ");
        let reason = format!("when impersonating a {what}, cannot impersonate groups [{groups}]");
        Err(forbidden(attributes, &reason))
    }

    async fn uid(&self, wanted: &User) -> Result<(), StatusError> {
        if wanted.uid.is_empty() {
            return Ok(());
        }
        self.filter.ask(&self.attributes(AUTHENTICATION, "uids", &wanted.uid)).await
    }

    async fn groups(&self, wanted: &User) -> Result<(), StatusError> {
        let attributes = self.attributes(self.names_group(), "groups", "");
        let about = |name| Attributes { name, ..attributes };
        if self.mode.constrained {
            for (group, name) in [("", ""), (PRIVILEGED, PRIVILEGED)] {
                if wanted.groups.iter().any(|wanted| wanted == group) {
                    let what = if group.is_empty() { "empty string" } else { group };
                    let reason = format!("impersonating the {what} group is not allowed");
                    return Err(forbidden(&about(name), &reason));
                }
            }
            let all = wanted.groups.len() >= MANY && self.filter.ask(&about("*")).await.is_ok();
            if all {
                return Ok(());
            }
        }
        for group in &wanted.groups {
            self.filter.ask(&about(group)).await?;
        }
        Ok(())
    }

    async fn extra(&self, wanted: &User) -> Result<(), StatusError> {
        let attributes = self.attributes(AUTHENTICATION, "userextras", "");
        let about = |subresource, name| Attributes { subresource, name, ..attributes };
        if self.mode.constrained {
            check_extra(wanted).map_err(|reason| forbidden(&attributes, &reason))?;
            let count: usize = wanted.extra.iter().map(|(_, values)| values.len()).sum();
            let many = wanted.extra.len() >= MANY || count >= MANY;
            if many && self.filter.ask(&about("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in &wanted.extra {
            for value in values {
                self.filter.ask(&about(key, value)).await?;
            }
        }
        Ok(())
    }

    fn attributes<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        name: &'a str,
    ) -> Attributes<'a> {
        Attributes {
            user: self.requestor,
            verb: &self.verb,
            is_resource: true,
            path: "",
            group,
            version: "v1",
            namespace: "",
            resource,
            subresource: "",
            name,
            selectors: &NO_SELECTORS,
        }
    }

    /// The group of users and groups: once they were thought to be of the core.
    fn names_group(&self) -> &'static str {
        if self.mode.constrained { AUTHENTICATION } else { "" }
    }
}

const AUTHENTICATION: &str = "authentication.k8s.io";

fn check_extra(wanted: &User) -> Result<(), String> {
    for (key, values) in &wanted.extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let path = Path::new("extra");
        let problems = is_domain_prefixed_path(&path.child("key"), key);
        if let Some(problems) = aggregate(&problems) {
            return Err(format!(
                "impersonating an invalid key in extra is not allowed: {problems}"
            ));
        }
        if *key != key.to_lowercase() {
            let key = quote(key);
            return Err(format!(
                "impersonating a non-lowercase key in extra is not allowed: {key}"
            ));
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    Ok(())
}

fn node_name(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    name_is_dns_subdomain(name, false).is_empty().then_some(name)
}

fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = name_is_dns_label(namespace, false).is_empty()
        && name_is_dns_subdomain(name, false).is_empty();
    valid.then_some((namespace, name))
}

/// The node that a service account's token is bound to.
fn runs_on(user: &User) -> Option<&str> {
    let is_node = |key: &String| key == "authentication.kubernetes.io/node-name";
    let (_, values) = user.extra.iter().find(|(key, _)| is_node(key))?;
    match values.as_slice() {
        [node] => Some(node),
        _ => None,
    }
}

fn has_only_a_name(user: &User) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

fn join(user: &mut User, group: &str) {
    if !user.groups.iter().any(|known| known == group) {
        user.groups.push(group.to_owned());
    }
}

/// A user, for the log.
fn shown(user: &User) -> String {
    let name = if user.name.is_empty() { "<empty>" } else { &user.name };
    match user.groups.is_empty() {
        true => name.to_owned(),
        false => format!("{name}[{}]", user.groups.join(",")),
    }
}
