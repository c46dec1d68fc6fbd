//! `authorizer` of CEL expressions: the server's authorizer with a cache per request (upstream: cachingAuthorizer).

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use kevel_cel::{Authorizer as Answers, Decision, ResourceCheck};
use kevel_registry::selectors::{NO_SELECTORS, Selectors};
use kevel_registry::user::User;
use kevel_server::authorization::{Attributes, Authorizer, Decision as Verdict, Opinion};

use super::Error;

/// Limit on the authorization checks that one evaluation may wait for. A check costs 350,000 of an expression's
/// 1,000,000 and of a policy's 10,000,000, so that one evaluation can pay for 28; the rest is for checks that variables
/// repeat.
const MAX_ROUNDS: usize = 100;

/// Authorizer that caches its decisions while one request is admitted.
pub struct CachingAuthorizer<'a> {
    authorizer: &'a dyn Authorizer,
    user: &'a User,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<Question, Decision>,
    /// The check that the authorizer could not decide without waiting.
    open: Option<Question>,
}

/// An authorization check of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    /// Namespace and name of a service account; `None` for a check of the requesting user.
    service_account: Option<(String, String)>,
    subject: Subject,
    verb: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Path(String),
    Resource(ResourceCheck),
}

impl std::fmt::Debug for CachingAuthorizer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachingAuthorizer").field("user", &self.user).finish_non_exhaustive()
    }
}

impl<'a> CachingAuthorizer<'a> {
    /// Makes an authorizer for the user whose request is admitted.
    pub fn new(authorizer: &'a dyn Authorizer, user: &'a User) -> Self {
        CachingAuthorizer { authorizer, user, state: Mutex::default() }
    }

    /// Result of `evaluate` once all its authorization checks are decided. `evaluate` is called again after each check
    /// that had to wait, so it must start from the beginning each time; its result is discarded while a check is open.
    pub async fn settle<T>(&self, mut evaluate: impl FnMut() -> T + Send) -> Result<T, Error> {
        for _ in 0..MAX_ROUNDS {
            if let Some(result) = self.round(&mut evaluate) {
                return Ok(result);
            }
            let Some(question) = self.state().open.take() else { continue };
            let decision = self.ask(&question).await;
            self.state().answers.insert(question, decision);
        }
        Err(Error::internal("too many questions to the authorizer"))
    }

    /// Evaluates once; `None` if a check is still open.
    fn round<T>(&self, evaluate: &mut impl FnMut() -> T) -> Option<T> {
        let result = evaluate();
        self.state().open.is_none().then_some(result)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, question: &Question) -> Decision {
        let service_account = question.service_account.as_ref().map(service_account_user);
        let user = service_account.as_ref().unwrap_or(self.user);
        let selectors = match &question.subject {
            Subject::Resource(check) if is_narrowed(check) => {
                Selectors::parse(&check.field_selector, &check.label_selector)
            }
            _ => NO_SELECTORS.clone(),
        };
        decision(self.authorizer.authorize(&question.attributes(user, &selectors)).await)
    }

    fn answer(&self, question: Question) -> Option<Decision> {
        if let Some(known) = self.state().answers.get(&question) {
            return Some(known.clone());
        }
        let mut context = Context::from_waker(Waker::noop());
        let polled = pin!(self.ask(&question)).poll(&mut context);
        match polled {
            Poll::Ready(decision) => {
                self.state().answers.insert(question, decision.clone());
                Some(decision)
            }
            Poll::Pending => {
                self.state().open = Some(question);
                None
            }
        }
    }
}

impl Answers for CachingAuthorizer<'_> {
    fn authorize_path(
        &self,
        service_account: Option<(&str, &str)>,
        path: &str,
        verb: &str,
    ) -> Option<Decision> {
        self.answer(Question::new(service_account, Subject::Path(path.to_owned()), verb))
    }

    fn authorize_resource(
        &self,
        service_account: Option<(&str, &str)>,
        check: &ResourceCheck,
        verb: &str,
    ) -> Option<Decision> {
        self.answer(Question::new(service_account, Subject::Resource(check.clone()), verb))
    }
}

impl Question {
    fn new(service_account: Option<(&str, &str)>, subject: Subject, verb: &str) -> Self {
        let service_account = service_account.map(|(ns, name)| (ns.to_owned(), name.to_owned()));
        Question { service_account, subject, verb: verb.to_owned() }
    }

    fn attributes<'q>(&'q self, user: &'q User, selectors: &'q Selectors) -> Attributes<'q> {
        let nothing = Attributes {
            user,
            verb: &self.verb,
            is_resource: false,
            path: "",
            group: "",
            version: "",
            namespace: "",
            resource: "",
            subresource: "",
            name: "",
            selectors,
        };
        match &self.subject {
            Subject::Path(path) => Attributes { path, ..nothing },
            Subject::Resource(check) => Attributes {
                is_resource: true,
                group: &check.group,
                version: "*",
                namespace: &check.namespace,
                resource: &check.resource,
                subresource: &check.subresource,
                name: &check.name,
                ..nothing
            },
        }
    }
}

fn is_narrowed(check: &ResourceCheck) -> bool {
    !check.field_selector.is_empty() || !check.label_selector.is_empty()
}

fn service_account_user((namespace, name): &(String, String)) -> User {
    let groups =
        vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    let name = format!("system:serviceaccount:{namespace}:{name}");
    User { name, groups, ..User::default() }
}

fn decision(opinion: Opinion) -> Decision {
    Decision {
        allowed: opinion.decision == Verdict::Allow,
        reason: opinion.reason,
        error: opinion.error,
    }
}
