//! Default rules of dynamic resource allocation.

use kevel_clock::Clock;

use super::{set_missing, string};
use crate::time::Time;
use crate::value::Map;

/// Defaults of a v1beta1 device request with a class; one with subrequests has no count itself.
pub(super) fn device_request(request: &mut Map, field: &str) {
    if !string(request, "deviceClassName").is_empty() {
        set_missing(request, field, "ExactCount");
        if string(request, field) == "ExactCount" {
            set_missing(request, "count", 1_i64);
        }
    }
}

pub(super) fn now(map: &mut Map, field: &str, clock: &Clock) {
    if !map.contains_key(field) {
        map.insert(field, Time::now(clock).to_string().as_str().into());
    }
}
