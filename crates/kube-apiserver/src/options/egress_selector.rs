//! Flags of the ways out of the server.

use super::files::read_error;
use crate::flags::{EFFECTIVE, section};

section! {
    /// Options of the ways out of the server.
    EgressSelector, "egress selector" {
        /// File that says through which proxies the server reaches the cluster, etcd and the
        /// control plane. Without it, it connects directly.
        egress_selector_config_file: String, EFFECTIVE;
    }
}

impl EgressSelector {
    /// Validation error of these options alone.
    pub(super) fn validate(&self) -> Option<String> {
        let file = &self.egress_selector_config_file;
        read_error(file).filter(|_| !file.is_empty())?;
        Some(format!("egress-selector-config-file {file} does not exist"))
    }
}
