//! Providers of values, by the resource of their storage keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use kevel_api::field_error::aggregate;
use kevel_api::gvk::GroupResource;
use kevel_api::quote::quote;
use kevel_clock::Clock;

use crate::config::{EncryptionConfiguration, KmsConfiguration, group_resource};
use crate::kms::{Kms, Plugin, Timing, timeout_of, v1};
use crate::metrics::EncryptionMetrics;
use crate::transformer::{Provider, Providers};

/// Storage prefix of a built-in kind.
#[derive(Clone, Debug)]
pub struct Location {
    /// `/registry/secrets/`
    pub prefix: String,
    /// API group; empty for the core.
    pub group: &'static str,
    /// Plural name.
    pub resource: &'static str,
}

/// Settings that are not in the configuration file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Prefix of all storage keys: `/registry/`.
    pub root: String,
    /// Prefixes of built-in kinds. Keys below a folder with a dot in its name are custom resources:
    /// `/registry/GROUP/RESOURCE/`.
    pub locations: Vec<Location>,
    /// Whether v1 plug-ins are allowed (`--feature-gates=KMSv1`).
    pub kms_v1: bool,
    /// The server's ID, for metrics.
    pub server_id: String,
    /// Intervals of checks of plug-ins and the file.
    pub timing: Timing,
    /// Clock of the server, by which keys expire.
    pub clock: Clock,
}

/// Transformers of a configuration.
#[derive(Debug)]
pub struct Transformers {
    rules: HashMap<GroupResource, Arc<Providers>>,
    /// By prefix. Built-in kinds without providers are included: no custom resource may be taken for them.
    built_in: BTreeMap<String, (String, Option<Arc<Providers>>)>,
    root: String,
    plugins: Vec<Kms>,
    grace_period: Duration,
}

const KMS_V1_IS_OFF: &str = "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 \
     instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.";
/// Log message if the feature gate allows KMS v1.
const KMS_V1_IS_DEPRECATED: &str = "KMSv1 is deprecated and will only receive security updates going forward. Use \
     KMSv2 instead.";

impl Transformers {
    /// Transformers of a validated configuration. Plug-ins are not called yet.
    pub fn new(
        config: &EncryptionConfiguration,
        options: &Options,
        metrics: &Arc<EncryptionMetrics>,
    ) -> Result<Self, String> {
        let built = Transformers::build(config, options, metrics);
        built.map_err(|error| format!("error while building transformers: {error}"))
    }

    fn build(
        config: &EncryptionConfiguration,
        options: &Options,
        metrics: &Arc<EncryptionMetrics>,
    ) -> Result<Self, String> {
        let mut rules: HashMap<GroupResource, Providers> = HashMap::new();
        let mut plugins = Vec::new();
        let mut grace_period = Duration::ZERO;
        let mut plugin = |config: &KmsConfiguration| {
            let (timing, server_id, metrics) =
                (options.timing, &options.server_id, metrics.clone());
            let plugin = match (config.api_version.as_str(), options.kms_v1) {
                ("v2", _) => {
                    grace_period += 2 * timeout_of(config);
                    Kms::V2(Arc::new(Plugin::new(
                        config,
                        timing,
                        server_id,
                        metrics,
                        &options.clock,
                    )?))
                }
                (_, false) => return Err(KMS_V1_IS_OFF.to_owned()),
                (_, true) => {
                    tracing::info!("{KMS_V1_IS_DEPRECATED}");
                    // Its health check makes two calls, one after the other.
                    grace_period += 4 * timeout_of(config);
                    Kms::V1(Arc::new(v1::Plugin::new(config, timing, metrics)?))
                }
            };
            plugins.push(plugin.clone());
            Ok(plugin)
        };
        for entry in &config.resources {
            let providers = entry.providers.iter();
            let providers: Vec<Arc<Provider>> = providers
                .map(|provider| Provider::new(provider, &mut plugin).map(Arc::new))
                .collect::<Result<_, String>>()?;
            for name in &entry.resources {
                let resource = group_resource(name);
                let group = GroupResource::new(resource.group.clone(), "*");
                let all = GroupResource::from_static("*", "*");
                let mask = [group, all].into_iter().find(|mask| rules.contains_key(mask));
                if let Some(mask) = mask {
                    let (resource, mask) = (quote(&shown(&resource)), quote(&shown(&mask)));
                    return Err(format!("resource {resource} is masked by earlier rule {mask}"));
                }
                rules.entry(resource).or_default().extend(&providers);
            }
        }
        let rules = rules.into_iter().map(|(rule, providers)| (rule, Arc::new(providers)));
        let mut transformers = Transformers {
            rules: rules.collect(),
            built_in: BTreeMap::new(),
            root: options.root.clone(),
            plugins,
            grace_period,
        };
        for Location { prefix, group, resource } in &options.locations {
            let named = GroupResource::from_static(group, resource);
            let providers = transformers.rule(named.clone()).cloned();
            transformers.built_in.insert(prefix.clone(), (named.to_string(), providers));
        }
        Ok(transformers)
    }

    /// The most specific rule for a resource.
    fn rule(&self, resource: GroupResource) -> Option<&Arc<Providers>> {
        let group = GroupResource::new(resource.group.clone(), "*");
        let all = GroupResource::from_static("*", "*");
        [resource, group, all].iter().find_map(|rule| self.rules.get(rule))
    }

    /// Resource and providers of a storage key; `None` if its value is not encrypted: other resources, and the server's
    /// bookkeeping.
    pub fn of(&self, key: &[u8]) -> Option<(Cow<'_, str>, &Providers)> {
        let key = std::str::from_utf8(key).ok()?;
        let nearest = self.built_in.range::<str, _>((Unbounded, Included(key))).next_back();
        if let Some((prefix, (resource, providers))) = nearest
            && key.starts_with(prefix.as_str())
        {
            return Some((Cow::Borrowed(resource), providers.as_deref()?));
        }
        let mut parts = key.strip_prefix(&self.root)?.splitn(3, '/');
        let (group, resource, _) = (parts.next()?, parts.next()?, parts.next()?);
        if !group.contains('.') {
            return None;
        }
        let resource = GroupResource::new(group, resource);
        let shown = resource.to_string();
        Some((Cow::Owned(shown), self.rule(resource)?))
    }

    /// Calls the plug-ins for their keys, and starts polling their status.
    pub async fn start(&self) {
        for plugin in &self.plugins {
            plugin.start().await;
        }
    }

    /// Number of plug-ins, if each has a health check of its own: if one of them is v1.
    pub(crate) fn checks_apart(&self) -> Option<usize> {
        let is_v1 = |plugin: &Kms| matches!(plugin, Kms::V1(_));
        self.plugins.iter().any(is_v1).then_some(self.plugins.len())
    }

    /// Health of one plug-in.
    pub(crate) async fn check_one(&self, index: usize) -> Result<(), String> {
        match self.plugins.get(index) {
            Some(plugin) => plugin.check().await,
            None => Ok(()),
        }
    }

    /// Health of all plug-ins.
    pub async fn check(&self) -> Result<(), String> {
        let mut errors = Vec::new();
        for (index, plugin) in self.plugins.iter().enumerate() {
            if let Err(error) = plugin.check().await {
                errors.push(format!("kms-provider-{index}: {error}"));
            }
        }
        aggregate(errors).map_or(Ok(()), Err)
    }

    /// Whether there are plug-ins.
    pub fn has_plugins(&self) -> bool {
        !self.plugins.is_empty()
    }

    /// Sum of the plug-ins' timeouts, with a margin.
    pub(crate) fn grace_period(&self) -> Duration {
        self.grace_period
    }
}

/// A rule in the notation of the file.
fn shown(rule: &GroupResource) -> String {
    match (rule.group.as_str(), rule.resource.as_str()) {
        ("", "*") => "*.".to_owned(),
        _ => rule.to_string(),
    }
}
