//! Component statuses.

use crate::columns;
use crate::kind::Kind;

/// `componentstatuses`
pub static COMPONENT_STATUS: Kind =
    Kind { columns: columns::core::COMPONENT_STATUS, ..Kind::new("", "componentstatuses") };
