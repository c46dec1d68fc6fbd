//! Server options by section: parsed, completed, validated.

mod admission;
mod api_enablement;
mod audit;
mod authentication;
mod authorization;
mod complete;
mod egress_selector;
mod etcd;
mod feature_gates;
mod features;
mod files;
mod generic;
mod global;
mod kevel;
mod logs;
mod metrics;
mod misc;
mod resource_config;
mod secure_serving;
mod service_ip;
mod suggestions;
mod traces;
mod validate;

pub use admission::Admission;
pub use api_enablement::ApiEnablement;
pub use audit::Audit;
pub(crate) use audit::Backend as AuditBackend;
pub use authentication::Authentication;
pub use authorization::Authorization;
pub use complete::{CompletedOptions, ComponentGlobalsError, GeneratedCert};
pub(crate) use complete::{has_address, loopback};
pub use egress_selector::EgressSelector;
pub use etcd::Etcd;
pub use feature_gates::FlagError;
pub use features::Features;
pub(crate) use files::file_problem;
pub use generic::GenericServerRun;
pub use global::{Global, VersionRequest};
pub use kevel::{Kevel, StorageKind};
pub use logs::{Level, Logs, VModule};
pub use metrics::Metrics;
pub use misc::Misc;
pub use resource_config::{Emulation, EmulationError, ResourceConfig};
pub use secure_serving::{SecureServing, cipher_suite};
pub use service_ip::ServiceIps;
pub use suggestions::Suggestion;
pub use traces::Traces;

use crate::flags::{Flag, Given, Parsed, Section, State, Value, parse};

/// All options, as the command line gives them.
///
/// ```
/// use kube_apiserver::options::ServerRunOptions;
/// let mut options = ServerRunOptions::default();
/// options.parse(vec!["--secure-port=7443".to_owned()])?;
/// assert_eq!(options.secure_serving.secure_port, 7443);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct ServerRunOptions {
    pub generic: GenericServerRun,
    pub etcd: Etcd,
    pub secure_serving: SecureServing,
    pub audit: Audit,
    pub features: Features,
    pub authentication: Authentication,
    pub authorization: Authorization,
    pub api_enablement: ApiEnablement,
    pub egress_selector: EgressSelector,
    pub admission: Admission,
    pub metrics: Metrics,
    pub logs: Logs,
    pub traces: Traces,
    pub misc: Misc,
    pub kevel: Kevel,
    pub global: Global,
    /// The flags that stood on the command line.
    pub given: Given,
}

macro_rules! sections {
    ($options:expr, $($borrow:tt)+) => {
        [
            $($borrow)+ $options.generic,
            $($borrow)+ $options.etcd,
            $($borrow)+ $options.secure_serving,
            $($borrow)+ $options.audit,
            $($borrow)+ $options.features,
            $($borrow)+ $options.authentication,
            $($borrow)+ $options.authorization,
            $($borrow)+ $options.api_enablement,
            $($borrow)+ $options.egress_selector,
            $($borrow)+ $options.admission,
            $($borrow)+ $options.metrics,
            $($borrow)+ $options.logs,
            $($borrow)+ $options.traces,
            $($borrow)+ $options.misc,
            $($borrow)+ $options.kevel,
            $($borrow)+ $options.global,
        ]
    };
}

impl ServerRunOptions {
    /// Reads the arguments of the command.
    pub fn parse(&mut self, arguments: Vec<String>) -> Result<Parsed, String> {
        let mut sections: [&mut dyn Section; 16] = sections!(self, &mut);
        let parsed = parse(&mut sections, arguments)?;
        self.given = parsed.given.clone();
        Ok(parsed)
    }

    /// The sections, in the order of the help.
    pub fn sections(&self) -> [&dyn Section; 16] {
        sections!(self, &)
    }

    /// Every flag with its value, sorted by name.
    pub fn flags(&self) -> Vec<(&'static Flag, &dyn Value)> {
        let sections = self.sections().into_iter();
        let mut flags: Vec<(&'static Flag, &dyn Value)> =
            sections.flat_map(|section| section.flags().iter().zip(section.values())).collect();
        flags.sort_by_key(|(flag, _)| flag.name());
        flags
    }

    /// Errors of flags on which security rests and that have no effect yet: only their fixed behaviour may be
    /// requested.
    pub(super) fn refused(&self) -> Vec<String> {
        let defaults = ServerRunOptions::default();
        let flags = self.flags().into_iter().zip(defaults.flags());
        flags
            .filter(|((_, value), (_, default))| value.text() != default.text())
            .filter_map(|((flag, _), _)| match flag.facts.state {
                State::Refused(why) => {
                    Some(format!("--{} is not supported by this server yet: {why}", flag.name()))
                }
                _ => None,
            })
            .collect()
    }

    /// The flags that were given but have no effect yet.
    pub fn without_effect(&self) -> Vec<String> {
        let flags = self.flags().into_iter().map(|(flag, _)| flag);
        flags
            .filter(|flag| flag.facts.state == State::Pending && self.given.has(flag.field))
            .map(|flag| format!("--{}", flag.name()))
            .collect()
    }
}
