//! Priority and fairness: who waits for whom.

use kevel_server::strategy::STATUS_METADATA;

use crate::columns;
use crate::kind::Kind;

/// `flowschemas`
pub static FLOW_SCHEMA: Kind = Kind {
    kept_by_status: &STATUS_METADATA,
    counts_generation: true,
    columns: columns::flowcontrol::FLOW_SCHEMA,
    ..Kind::new("flowcontrol.apiserver.k8s.io", "flowschemas")
};

/// `prioritylevelconfigurations`
pub static PRIORITY_LEVEL_CONFIGURATION: Kind = Kind {
    kept_by_status: &STATUS_METADATA,
    counts_generation: true,
    columns: columns::flowcontrol::PRIORITY_LEVEL_CONFIGURATION,
    ..Kind::new("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations")
};
