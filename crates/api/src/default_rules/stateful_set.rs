//! Default rules of StatefulSets.

use super::{set_missing, string};
use crate::value::{Map, Value};

pub(super) fn update_strategy(strategy: &mut Map, field: &str) {
    if string(strategy, field).is_empty() {
        strategy.insert(field, "RollingUpdate".into());
        set_missing(strategy, "rollingUpdate", Map::new());
    }
    if string(strategy, field) == "RollingUpdate"
        && let Some(Value::Map(rolling)) = strategy.get_mut("rollingUpdate")
    {
        set_missing(rolling, "partition", 0_i64);
    }
}
