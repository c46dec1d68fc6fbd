//! Authorization by the cluster that the server belongs to (upstream: `DelegatingAuthorizationOptions`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kevel_auth::authorization::{
    AuthorizationMetrics, MatchConditions, ReviewVersion, Webhook, WebhookConfig,
};
use kevel_clock::Clock;
use kevel_server::authorization::{Authorizer, Decision, PrivilegedGroups, Union};
use kevel_server::metrics::Metrics;
use kevel_server::webhook::{Backoff, Client, Endpoint};

use crate::error::ApiServerError;

/// Path of reviews at the cluster's API server.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Cache time of the cluster's decisions (upstream: `NewDelegatingAuthorizationOptions`).
const CACHED: Duration = Duration::from_secs(10);
/// Timeout of a review.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Authorizer that allows members of `system:masters` and asks the cluster of a kubeconfig about all others.
pub(crate) fn delegated(
    kubeconfig: &Path,
    metrics: &Metrics,
    clock: &Clock,
) -> Result<Arc<dyn Authorizer>, ApiServerError> {
    let failed = |reason| ApiServerError::Delegated(kubeconfig.to_owned(), reason);
    let endpoint = Endpoint::from_kubeconfig(kubeconfig).map_err(failed)?;
    let url = format!("{}{REVIEWS}", endpoint.url.trim_end_matches('/'));
    let client = Client::new(Endpoint { url, ..endpoint }).map_err(failed)?;
    let config = WebhookConfig {
        name: "delegated".to_owned(),
        version: ReviewVersion::V1,
        timeout: TIMEOUT,
        backoff: Backoff::default(),
        authorized_ttl: CACHED,
        unauthorized_ttl: CACHED,
        on_error: Decision::Deny,
        match_conditions: MatchConditions::default(),
    };
    let metrics = Arc::new(AuthorizationMetrics::new(metrics, ""));
    let webhook = Webhook::new(client, config, metrics, clock);
    Ok(Arc::new(Union::new(vec![Arc::new(PrivilegedGroups::default()), Arc::new(webhook)])))
}
