//! Long-running requests (upstream: `BasicLongRunningRequestCheck`).

use crate::request_info::RequestInfo;
use kevel_registry::verb::Verb;

const VERBS: [Verb; 2] = [Verb::Watch, Verb::Proxy];
const SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// Whether a request has no time limit: a watch, a connection into a Pod, a profile.
pub fn is_long_running(info: &RequestInfo) -> bool {
    VERBS.contains(&info.verb)
        || (info.is_resource && SUBRESOURCES.contains(&info.subresource.as_str()))
        || (!info.is_resource && info.path.starts_with("/debug/pprof/"))
}
