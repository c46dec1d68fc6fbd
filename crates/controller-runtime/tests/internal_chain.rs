//! Requests of controllers through the internal chain.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_controller_runtime::Client;
use kevel_server::authorization::AlwaysDeny;
use kevel_server::chain::internal;
use kevel_server::handler::{Handler, Response};
use kevel_server::metrics::Metrics;
use kevel_server::request::Request;
use kevel_server::responses;

/// Responds to every request that arrives.
struct Served;

impl Handler for Served {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        let error = kevel_api::status::StatusError::bad_request("served");
        Box::pin(std::future::ready(responses::failure_to(&request, error)))
    }
}

#[tokio::test]
async fn controllers_are_authorized_and_the_server_itself_is_not() {
    let metrics = Arc::new(Metrics::default());
    let server = internal(None, Arc::new(AlwaysDeny), &metrics, Arc::new(Served));
    let own = Client::new(server);
    let path = "/api/v1/namespaces/a/pods";
    let pod = Value::Map(Map::new());
    assert_eq!(own.create(path, &pod).await.unwrap_err().to_string(), "served");
    let refused = own.as_controller("garbage").create(path, &pod).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "pods is forbidden: User \"system:serviceaccount:kube-system:garbage\" cannot create \
         resource \"pods\" in API group \"\" in the namespace \"a\": Everything is forbidden.",
    );
}
