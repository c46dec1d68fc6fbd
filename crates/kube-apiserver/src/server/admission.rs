//! Admission of all servers of the chain, from the options.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kevel_admission::cel::MatchConditionMetrics;
use kevel_admission::manifest::ManifestMetrics;
use kevel_admission::predicates::Matcher;
use kevel_admission::webhook::WebhookMetrics;
use kevel_admission_plugins::{self as admission_plugins, Context, TolerationSeconds};
use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_auth::Escalation;
use kevel_codec::json::{Unknown, encode_any};
use kevel_codec::yaml;
use kevel_extensions::Extensions;
use kevel_features::Feature;
use kevel_registry::admission::Admission;
use kevel_registry::resource::Resources;
use kevel_server::lifecycle::HookContext;

use super::admission_metrics::AdmissionMetrics;
use super::aggregator::service_resolver;
use super::authorization::Authorization;
use super::config::Config;
use super::csr_durations::CsrDurations;

/// The kinds that the file of `--admission-control-config-file` may be of.
const KINDS: [(&str, &str); 2] = [
    ("apiserver.config.k8s.io/v1", "AdmissionConfiguration"),
    ("apiserver.k8s.io/v1alpha1", "AdmissionConfiguration"),
];
/// Plug-ins whose configuration may be the flag's file itself, with the field that it is in then.
const LEGACY: [(&str, &str); 2] =
    [("ImagePolicyWebhook", "imagePolicy"), ("PodNodeSelector", "podNodeSelectorPluginConfig")];

/// Hook that starts the plug-ins' background tasks.
const HOOK: &str = "start-apiserver-admission-initializer";

/// The plug-ins, in order.
pub fn admission(
    config: &Config,
    kube: &Arc<Resources>,
    extensions: &Extensions,
) -> Result<Admission, String> {
    let Authorization { rbac, authorizer, .. } = &config.authorization;
    let feature = |gate: Feature| config.options.feature_gates.enabled(gate);
    let flags = &config.options.flags.admission;
    let file = ConfigurationFile::load(Path::new(&flags.admission_control_config_file))?;
    let tables = vec![kube.clone(), extensions.definitions.clone(), extensions.custom.clone()];
    let namespaces = config.storages.required("", "namespaces")?;
    let resolver = service_resolver(config)?;
    let followers = Mutex::new(Vec::new());
    let follow = |name, follower| {
        followers.lock().unwrap_or_else(PoisonError::into_inner).push((name, follower));
    };
    let context = Context {
        rows: &kube.current(),
        authorizer,
        feature: &feature,
        emulation: config.options.effective_version.emulation,
        configuration: &|name| file.of(name),
        toleration_seconds: TolerationSeconds {
            not_ready: flags.default_not_ready_toleration_seconds,
            unreachable: flags.default_unreachable_toleration_seconds,
        },
        matcher: Arc::new(Matcher::new(namespaces, tables.clone())),
        tables,
        client: config.client.clone(),
        metrics: config.metrics.clone(),
        match_conditions: MatchConditionMetrics::new(&config.metrics),
        webhooks: WebhookMetrics::new(&config.metrics),
        manifests: ManifestMetrics::new(&config.metrics, &config.options.server_id()),
        resolve: Arc::new(move |namespace, name, port| {
            resolver.resolve(namespace, name, port).map_err(String::from)
        }),
        egress: config.egress.clone(),
        follow: &follow,
    };
    let names = &config.options.admission_plugins;
    let mut plugins = admission_plugins::plugins(names, &context)?;
    plugins.extend(admission_plugins::always(&context)?);
    plugins.push(Arc::new(Escalation::new(rbac.clone(), authorizer.clone())));
    plugins.push(extensions.admission());
    if !config.options.controllers().is_empty() {
        plugins.push(config.controllers.admission(config.options.clock.clone()));
    }
    plugins.push(Arc::new(CsrDurations::new(&config.metrics)));
    let followers = followers.into_inner().unwrap_or_else(PoisonError::into_inner);
    config.lifecycle.hooks.add_post_start(HOOK, |context: HookContext| async move {
        followers.into_iter().for_each(|(name, follower)| context.spawn(name, follower));
        Ok(())
    })?;
    let names = plugins.iter().map(|plugin| plugin.name());
    let observer = AdmissionMetrics::new(&config.metrics, names);
    Ok(Admission::new(plugins).observed_by(Arc::new(observer)))
}

/// Contents of the admission configuration file.
#[derive(Debug, Default)]
struct ConfigurationFile {
    path: PathBuf,
    value: Value,
    /// The plug-in that the whole file is about.
    legacy: Option<&'static str>,
}

impl ConfigurationFile {
    fn load(path: &Path) -> Result<Self, String> {
        if path.as_os_str().is_empty() {
            return Ok(Self::default());
        }
        let text = std::fs::read(path).map_err(|error| {
            let path = quote(&path.display().to_string());
            format!("unable to read admission control configuration from {path} [{error}]")
        })?;
        let decoded = yaml::decode_any(&text, Unknown::Report);
        let decoded = decoded.map_err(|error| error.to_string())?;
        if let [problem, ..] = decoded.strict.as_slice() {
            return Err(format!("strict decoding error: {problem}"));
        }
        let (version, kind) =
            (decoded.value.str_at(&["apiVersion"]), decoded.value.str_at(&["kind"]));
        let legacy = LEGACY.iter().find(|(_, field)| decoded.value.at(&[field]).is_some());
        let legacy = legacy.map(|(name, _)| *name);
        if !KINDS.contains(&(version, kind)) && legacy.is_none() {
            return Err(match (version, kind) {
                (_, "") => {
                    format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(&text))
                }
                (version, kind) => {
                    format!("no kind {} is registered for version {}", quote(kind), quote(version))
                }
            });
        }
        Ok(ConfigurationFile { path: path.to_owned(), value: decoded.value, legacy })
    }

    /// The configuration of a plug-in: what stands in the file, or in the one that it names.
    fn of(&self, name: &str) -> Result<Option<String>, String> {
        let read = |path: &Path| {
            let read = std::fs::read_to_string(path);
            read.map(Some).map_err(|error| format!("open {}: {error}", path.display()))
        };
        if self.legacy == Some(name) {
            return read(&self.path);
        }
        let mut plugins = self.value.list_at(&["plugins"]).iter();
        let Some(plugin) = plugins.find(|plugin| plugin.str_at(&["name"]) == name) else {
            return Ok(None);
        };
        if let Some(configuration) = plugin.at(&["configuration"]).filter(|value| !value.is_null())
        {
            let mut text = Vec::new();
            encode_any(configuration, &mut text);
            return Ok(Some(String::from_utf8_lossy(&text).into_owned()));
        }
        match plugin.str_at(&["path"]) {
            "" => Ok(None),
            path => read(&self.path.parent().unwrap_or(Path::new("")).join(path)),
        }
    }
}
