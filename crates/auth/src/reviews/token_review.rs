//! `TokenReview`: authentication of a token by API.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::resource::{CreateRequest, Created, Creater};
use kevel_server::authentication::{TokenAuthenticator, common_audiences};

use super::self_subject_review::user_info;

const INVALID: &str = "invalid bearer token";

/// Creater of `tokenreviews`.
pub struct TokenReview {
    tokens: Arc<dyn TokenAuthenticator>,
    audiences: Vec<String>,
}

impl std::fmt::Debug for TokenReview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenReview for {:?}", self.audiences)
    }
}

impl TokenReview {
    /// Makes the creater; `audiences`, the server's own, apply to reviews that name none.
    pub fn new(tokens: Arc<dyn TokenAuthenticator>, audiences: &[String]) -> Self {
        TokenReview { tokens, audiences: audiences.to_vec() }
    }

    async fn review(&self, mut review: Value) -> Result<Value, StatusError> {
        let token = review.str_at(&["spec", "token"]).to_owned();
        if token.is_empty() {
            let problem = "token is required for TokenReview in authentication";
            return Err(StatusError::bad_request(problem));
        }
        let named = review.at(&["spec", "audiences"]).and_then(Value::as_list).unwrap_or_default();
        let named: Vec<_> = named.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let audiences = if named.is_empty() { &self.audiences } else { &named };
        let mut status = Map::new();
        match self.tokens.authenticate_token(&token, audiences).await {
            Err(error) => {
                status.insert("error", refusal(&error.0).as_str().into());
            }
            Ok(None) => {
                status.insert("error", INVALID.into());
            }
            Ok(Some(known)) => {
                if !audiences.is_empty() && common_audiences(audiences, &known.audiences).is_empty()
                {
                    return Err(StatusError::internal("error validating audiences"));
                }
                status.insert("authenticated", true.into());
                status.insert("user", user_info(&known.user));
                let good_for = known.audiences.iter().map(|one| Value::from(one.as_str()));
                status.insert("audiences", Value::List(good_for.collect()));
            }
        }
        if let Some(review) = review.as_map_mut() {
            review.insert("status", status.into());
        }
        Ok(review)
    }
}

/// Error of a refused token, in the reference's words. The reference tries a token of the server's own first, so that
/// every error begins with that token's.
fn refusal(error: &str) -> String {
    let several = error.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match several.unwrap_or(error) {
        INVALID => INVALID.to_owned(),
        errors => format!("[{INVALID}, {errors}]"),
    }
}

impl Creater for TokenReview {
    fn create<'a>(
        &'a self,
        _request: &'a CreateRequest<'a>,
        object: Value,
    ) -> Pending<'a, Result<Created, StatusError>> {
        Box::pin(async move { self.review(object).await.map(Created::Object) })
    }
}
