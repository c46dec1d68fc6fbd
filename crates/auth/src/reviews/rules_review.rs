//! `SelfSubjectRulesReview`: all rules that apply to the requesting user in a namespace.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::resource::{CreateRequest, Created, Creater};
use kevel_server::authorization::{Authorizer, Rules};

use crate::rbac::aggregate;

/// Creater of `selfsubjectrulesreviews`.
pub struct RulesReview {
    authorizer: Arc<dyn Authorizer>,
}

impl std::fmt::Debug for RulesReview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RulesReview")
    }
}

impl RulesReview {
    /// Makes the creater; `authorizer` is the server's.
    pub fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        RulesReview { authorizer }
    }
}

impl Creater for RulesReview {
    fn create<'a>(
        &'a self,
        request: &'a CreateRequest<'a>,
        object: Value,
    ) -> Pending<'a, Result<Created, StatusError>> {
        let namespace = object.str_at(&["spec", "namespace"]);
        let answer = match namespace {
            "" => Err(StatusError::bad_request("no namespace on request")),
            namespace => {
                let status = status(self.authorizer.rules_for(request.user, namespace));
                // The answer has no spec.
                let head = ["apiVersion", "kind"].map(|field| (field, object.str_at(&[field])));
                let head = head.into_iter().filter(|(_, text)| !text.is_empty());
                let mut review: Map = head.map(|(field, text)| (field, text.into())).collect();
                review.insert("status", status);
                Ok(Created::Object(review.into()))
            }
        };
        Box::pin(std::future::ready(answer))
    }
}

fn status(rules: Rules) -> Value {
    let on_resources = rules.resource_rules.into_iter().map(|rule| {
        fields([
            ("verbs", rule.verbs),
            ("apiGroups", rule.api_groups),
            ("resources", rule.resources),
            ("resourceNames", rule.resource_names),
        ])
    });
    let on_paths = rules
        .non_resource_rules
        .into_iter()
        .map(|rule| fields([("verbs", rule.verbs), ("nonResourceURLs", rule.non_resource_urls)]));
    let mut status = Map::from_iter([
        ("resourceRules", Value::List(on_resources.collect())),
        ("nonResourceRules", Value::List(on_paths.collect())),
    ]);
    if rules.incomplete {
        status.insert("incomplete", true.into());
    }
    if let Some(error) = aggregate(rules.errors.into_iter()) {
        status.insert("evaluationError", error.as_str().into());
    }
    status.into()
}

fn fields<const N: usize>(lists: [(&str, Vec<String>); N]) -> Value {
    let list = |texts: Vec<String>| texts.iter().map(|text| text.as_str().into()).collect();
    let lists = lists.into_iter().filter(|(name, texts)| *name == "verbs" || !texts.is_empty());
    Map::from_iter(lists.map(|(name, texts)| (name, Value::List(list(texts))))).into()
}
