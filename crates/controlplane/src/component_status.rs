//! Component statuses.

use crate::columns;
use crate::kind::Kind;

/// `componentstatuses`
pub static COMPONENT_STATUS: Kind = Kind {
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    columns: columns::core::COMPONENT_STATUS,
    ..Kind::new("", "componentstatuses")
};
