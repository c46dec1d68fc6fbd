//! Autoscalers.

use crate::columns;
use crate::kind::Kind;

/// `horizontalpodautoscalers`
pub static HORIZONTAL_POD_AUTOSCALER: Kind = Kind {
    columns: columns::autoscaling::HORIZONTAL_POD_AUTOSCALER,
    ..Kind::new("autoscaling", "horizontalpodautoscalers")
};
