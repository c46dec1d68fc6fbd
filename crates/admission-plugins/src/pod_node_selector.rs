//! `PodNodeSelector` admission plug-in: pods get the node selector of their namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json::Unknown;
use kevel_codec::yaml;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::{Context, Registration};
use kevel_controlplane::lister::{Facts, Lister};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
const CLUSTER_DEFAULT: &str = "clusterDefaultNodeSelector";

type Labels = BTreeMap<String, String>;

/// Registration of the `PodNodeSelector` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::off("PodNodeSelector", |context| Ok(Arc::new(PodNodeSelector::new(context)?)));

/// The `PodNodeSelector` admission plug-in.
#[derive(Debug)]
pub struct PodNodeSelector {
    namespaces: Lister<NamespaceSelector>,
    /// Selectors of the configuration: by namespace, and the cluster default.
    selectors: BTreeMap<String, String>,
}

/// Node-selector annotation of a namespace.
#[derive(Debug)]
struct NamespaceSelector(Option<String>);

impl Facts for NamespaceSelector {
    fn read(namespace: &Value) -> Self {
        let annotation = namespace.at(&["metadata", "annotations", ANNOTATION]);
        NamespaceSelector(annotation.and_then(Value::as_str).map(str::to_owned))
    }
}

impl PodNodeSelector {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let text = (context.configuration)("PodNodeSelector")?.unwrap_or_default();
        // A configuration that cannot be decoded counts as empty, as in the reference.
        let decoded = yaml::decode_any(text.as_bytes(), Unknown::Ignore);
        let value = decoded.map(|decoded| decoded.value).unwrap_or_default();
        let selectors = value.at(&["podNodeSelectorPluginConfig"]).and_then(Value::as_map);
        let selectors = selectors.into_iter().flat_map(|selectors| selectors.iter());
        let selectors = selectors
            .filter_map(|(name, selector)| Some((name.to_owned(), selector.as_str()?.to_owned())));
        Ok(PodNodeSelector {
            namespaces: context.lister("", "namespaces")?,
            selectors: selectors.collect(),
        })
    }

    /// Node selector of a namespace: its annotation, or the default.
    async fn of_namespace(&self, name: &str) -> Result<Labels, StatusError> {
        let Some(namespace) = self.namespaces.find("", name).await? else {
            return Err(StatusError::not_found(
                &GroupResource::from_static("", "namespaces"),
                name,
            ));
        };
        let text = match &namespace.0 {
            Some(text) => text,
            None => self.selectors.get(CLUSTER_DEFAULT).map_or("", String::as_str),
        };
        parse(text)
    }

    async fn complete(
        &self,
        attributes: &Attributes<'_>,
        pod: &mut Value,
    ) -> Result<(), StatusError> {
        let wanted = self.of_namespace(attributes.namespace).await?;
        check_conflicts(attributes, pod, &wanted)?;
        for (key, value) in &wanted {
            let selector = pod.make_map(&["spec", "nodeSelector"]);
            selector.entry_or_insert_with(key, || value.as_str().into());
        }
        self.check_allowed(attributes, pod)
    }

    async fn check(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), StatusError> {
        let wanted = self.of_namespace(attributes.namespace).await?;
        check_conflicts(attributes, pod, &wanted)?;
        self.check_allowed(attributes, pod)
    }

    fn check_allowed(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), StatusError> {
        let allowed = self.selectors.get(attributes.namespace);
        let allowed = parse(allowed.map_or("", String::as_str))?;
        let mut asked = selector(pod);
        if allowed.is_empty() || asked.all(|(k, v)| allowed.get(k).is_some_and(|a| a == v)) {
            return Ok(());
        }
        let error = "pod node label selector labels conflict with its namespace whitelist";
        Err(attributes.forbidden(Some(pod), error))
    }
}

impl Plugin for PodNodeSelector {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let new = attributes.operation == Operation::Create && attributes.is("", "pods");
        match object.filter(|_| new) {
            Some(pod) => Box::pin(self.complete(attributes, pod)),
            None => ready(Ok(())),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let new = attributes.operation == Operation::Create && attributes.is("", "pods");
        match object.filter(|_| new) {
            Some(pod) => Box::pin(self.check(attributes, pod)),
            None => ready(Ok(())),
        }
    }
}

fn selector(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let selector = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_map);
    let selector = selector.into_iter().flat_map(|selector| selector.iter());
    selector.map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

fn check_conflicts(
    attributes: &Attributes<'_>,
    pod: &Value,
    wanted: &Labels,
) -> Result<(), StatusError> {
    let conflicts = |(key, value): (&str, &str)| wanted.get(key).is_some_and(|w| w != value);
    match selector(pod).any(conflicts) {
        true => {
            let error = "pod node label selector conflicts with its namespace node label selector";
            Err(attributes.forbidden(Some(pod), error))
        }
        false => Ok(()),
    }
}

/// Parses a selector: `a=b,c=d`.
fn parse(text: &str) -> Result<Labels, StatusError> {
    let entries = text.split(',').filter(|_| !text.is_empty());
    entries
        .map(|entry| match entry.split('=').collect::<Vec<_>>().as_slice() {
            [key, value] => Ok((key.trim().to_owned(), value.trim().to_owned())),
            _ => Err(StatusError::unknown(500, format!("invalid selector: {entry}"))),
        })
        .collect()
}
