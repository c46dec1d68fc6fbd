//! Work estimates of requests.

use kevel_flowcontrol::{FlowSchema, ListRequest, WorkEstimate, WorkEstimator, WorkKind};

use super::ResourceFacts;
use crate::request_info::RequestInfo;
use kevel_registry::verb::Verb;

/// Estimates a request; `watches` counts the watches that would see its change.
pub(super) fn estimate(
    estimator: &WorkEstimator,
    info: &RequestInfo,
    flow_schema: &FlowSchema,
    resources: &dyn ResourceFacts,
    watches: impl FnOnce() -> usize,
) -> WorkEstimate {
    let most = flow_schema.max_seats();
    match WorkKind::of(info.verb.as_str(), &info.resource, &info.subresource) {
        WorkKind::List => estimator.list(&list_request(info), resources.stats(info), most),
        WorkKind::Mutation => {
            let watches = watches();
            flow_schema.observer().watch_count(watches);
            estimator.mutation(watches, most)
        }
        WorkKind::Other => estimator.other(),
    }
}

fn list_request(info: &RequestInfo) -> ListRequest<'_> {
    let watch = info.verb == Verb::Watch;
    let options = match &info.list_options {
        Some(Ok(options)) if options.validate(true).is_ok() => options,
        _ => return ListRequest { watch, invalid: true, ..ListRequest::default() },
    };
    ListRequest {
        watch,
        invalid: false,
        single: !info.name.is_empty(),
        selects: !options.fields.is_empty() || !options.labels.is_empty(),
        limit: options.limit,
        resource_version: &options.resource_version,
        resource_version_match: &options.resource_version_match,
        continues: !options.continue_token.is_empty(),
        send_initial_events: options.send_initial_events == Some(true),
    }
}
