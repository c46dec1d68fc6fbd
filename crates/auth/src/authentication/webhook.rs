//! Authentication of tokens by a webhook (`--authentication-token-webhook-*`).

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use kevel_api::value::{Map, Value};
use kevel_codec::json;
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::authentication::{
    AuthError, Known, TokenAuthenticated, TokenAuthenticator, common_audiences,
};
use kevel_server::webhook::{Backoff, Client, REQUEST_TIMEOUT, succeeded};

/// Version of the TokenReview sent to a webhook. Both have the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `authentication.k8s.io/v1`
    V1,
    /// `authentication.k8s.io/v1beta1`
    V1Beta1,
}

impl ReviewVersion {
    const fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "authentication.k8s.io/v1",
            ReviewVersion::V1Beta1 => "authentication.k8s.io/v1beta1",
        }
    }
}

impl FromStr for ReviewVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "v1" => Ok(ReviewVersion::V1),
            "v1beta1" => Ok(ReviewVersion::V1Beta1),
            other => Err(format!(
                "unsupported authentication webhook version {other:?}, supported versions are \
                 \"v1\", \"v1beta1\""
            )),
        }
    }
}

/// Authenticator that sends TokenReviews to a webhook. Callers cache the results.
#[derive(Debug)]
pub struct TokenWebhook {
    client: Client,
    version: ReviewVersion,
    audiences: Vec<String>,
    backoff: Backoff,
}

impl TokenWebhook {
    /// Makes the authenticator; `audiences` apply to tokens for which the webhook returns none.
    pub fn new(client: Client, version: ReviewVersion, audiences: &[String]) -> Self {
        let audiences = audiences.to_vec();
        TokenWebhook { client, version, audiences, backoff: Backoff::default() }
    }

    async fn ask(&self, token: &str, audiences: &[String]) -> Result<Value, String> {
        let review = Bytes::from(self.review(token, audiences));
        let answer = self.backoff.call(|| async {
            succeeded(self.client.post_json("", review.clone(), REQUEST_TIMEOUT).await?)
        });
        let answer = answer.await.map_err(|error| error.to_string());
        let answer = answer.inspect_err(|error| {
            tracing::error!("Failed to make webhook authenticator request: {error}");
        })?;
        let decoded = json::decode_any(&answer, json::Unknown::Ignore);
        let review = decoded.map_err(|error| format!("the webhook's answer: {error}"))?.value;
        let (expected, kind) = (self.version.api_version(), "TokenReview");
        let (said, said_kind) = (review.str_at(&["apiVersion"]), review.str_at(&["kind"]));
        if said != expected || said_kind != kind {
            return Err(format!(
                "the webhook's answer is a {said_kind:?} of {said:?}, expected {kind} of {expected}"
            ));
        }
        Ok(review)
    }

    fn review(&self, token: &str, audiences: &[String]) -> Vec<u8> {
        let mut spec = Map::from_iter([("token", Value::from(token))]);
        if !audiences.is_empty() {
            let audiences = audiences.iter().map(|one| Value::from(one.as_str()));
            spec.insert("audiences", Value::List(audiences.collect()));
        }
        let review = Map::from_iter([
            ("kind", Value::from("TokenReview")),
            ("apiVersion", self.version.api_version().into()),
            ("metadata", Map::new().into()),
            ("spec", spec.into()),
            ("status", Map::from_iter([("user", Map::new().into())]).into()),
        ]);
        let mut text = Vec::new();
        json::encode_any(&review.into(), &mut text);
        text
    }

    async fn known(&self, token: &str, audiences: &[String]) -> Result<Option<Known>, String> {
        let review = self.ask(token, audiences).await?;
        let mut common = Vec::new();
        if !audiences.is_empty() {
            let said = strings(review.at(&["status", "audiences"]));
            let good_for = if said.is_empty() { &self.audiences } else { &said };
            common = common_audiences(audiences, good_for);
            if common.is_empty() {
                return Ok(None);
            }
        }
        if review.at(&["status", "authenticated"]) != Some(&Value::Bool(true)) {
            return match review.str_at(&["status", "error"]) {
                "" => Ok(None),
                error => Err(error.to_owned()),
            };
        }
        Ok(Some(Known::new(user(&review), common)))
    }
}

impl TokenAuthenticator for TokenWebhook {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(async move {
            let known = self.known(token, audiences).await.map_err(AuthError)?;
            Ok(known.map(Arc::new))
        })
    }
}

fn user(review: &Value) -> User {
    let text = |field| review.str_at(&["status", "user", field]).to_owned();
    let extra = review.at(&["status", "user", "extra"]).and_then(Value::as_map);
    let extra = extra.into_iter().flat_map(Map::iter);
    User {
        name: text("username"),
        uid: text("uid"),
        groups: strings(review.at(&["status", "user", "groups"])),
        extra: extra.map(|(key, values)| (key.to_owned(), strings(Some(values)))).collect(),
    }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
