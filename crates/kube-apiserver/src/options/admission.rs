//! Flags of the admission chain.

use crate::flags::{EFFECTIVE, Given, Strings, section};
use kevel_admission_plugins::{PLUGINS, Registration};
use kevel_api::quote::quote;

section! {
    /// Options of the admission chain.
    Admission, "admission" {
        /// Plugins of the chain, comma separated; no others run. Their order does not matter.
        admission_control: Strings, EFFECTIVE
            .deprecated("Use --enable-admission-plugins or --disable-admission-plugins instead. \
                         Will be removed in a future version.");
        /// File with the configuration of the admission plugins.
        admission_control_config_file: String, EFFECTIVE;
        /// Seconds for which a pod tolerates that its node is not ready, unless it says so itself.
        default_not_ready_toleration_seconds: i64 = "300", EFFECTIVE;
        /// Seconds for which a pod tolerates that its node is unreachable, unless it says so itself.
        default_unreachable_toleration_seconds: i64 = "300", EFFECTIVE;
        /// Admission plugins to switch off that are on by default, comma separated.
        disable_admission_plugins: Strings, EFFECTIVE;
        /// Admission plugins to switch on beside those that are on by default, comma separated.
        /// Their order does not matter.
        enable_admission_plugins: Strings, EFFECTIVE;
    }
}

impl Admission {
    /// The plugins that run, in order.
    pub fn enabled_plugins(&self, given: &Given) -> Vec<&'static str> {
        let has = |list: &Strings, name: &str| list.iter().any(|listed| listed == name);
        let runs = |plugin: &&Registration| {
            if given.has("admission_control") {
                return has(&self.admission_control, plugin.name);
            }
            has(&self.enable_admission_plugins, plugin.name)
                || (plugin.on_by_default && !has(&self.disable_admission_plugins, plugin.name))
        };
        PLUGINS.iter().filter(runs).map(|plugin| plugin.name).collect()
    }

    /// Validation errors of these options alone.
    pub(super) fn validate(&self, given: &Given) -> Vec<String> {
        let mut errors = Vec::new();
        if given.has("admission_control")
            && given.has_any(&["enable_admission_plugins", "disable_admission_plugins"])
        {
            errors.push(
                "admission-control and enable-admission-plugins/disable-admission-plugins flags \
                 are mutually exclusive"
                    .to_owned(),
            );
        }
        let find = |name: &str| PLUGINS.iter().find(|plugin| plugin.name == name);
        for (flag, names) in [
            ("admission-control", &self.admission_control),
            ("enable-admission-plugins", &self.enable_admission_plugins),
            ("disable-admission-plugins", &self.disable_admission_plugins),
        ] {
            let unknown = names.iter().filter(|name| find(name).is_none());
            errors.extend(unknown.map(|name| format!("{flag} plugin {} is unknown", quote(name))));
        }
        let disabled = &self.disable_admission_plugins;
        let mut both: Vec<&str> =
            self.enable_admission_plugins.iter().map(String::as_str).collect();
        both.retain(|name| disabled.iter().any(|disabled| disabled == name));
        both.sort_unstable();
        both.dedup();
        if !both.is_empty() {
            errors.push(format!(
                "[{}] in enable-admission-plugins and disable-admission-plugins overlapped",
                both.join(" ")
            ));
        }
        errors
    }
}
