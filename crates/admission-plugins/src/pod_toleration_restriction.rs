//! `PodTolerationRestriction` admission plug-in: default and allowed tolerations of the pods of a namespace.

use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any};
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;
use super::{Context, configuration, tolerations};
use kevel_controlplane::lister::{Facts, Lister};
use kevel_controlplane::qos;

const KINDS: [(&str, &str); 1] =
    [("podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration")];
const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

/// Registration of the `PodTolerationRestriction` admission plug-in.
pub const REGISTRATION: Registration = Registration::off("PodTolerationRestriction", |context| {
    Ok(Arc::new(PodTolerationRestriction::new(context)?))
});

/// The `PodTolerationRestriction` admission plug-in.
#[derive(Debug)]
pub struct PodTolerationRestriction {
    namespaces: Lister<NamespaceTolerations>,
    /// Tolerations of the configuration, for namespaces without annotations.
    defaults: Vec<Value>,
    allowed: Vec<Value>,
}

impl PodTolerationRestriction {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let text = (context.configuration)("PodTolerationRestriction")?;
        let value = match text {
            Some(text) => configuration::decode(&text, &KINDS)?,
            None => Value::Null,
        };
        Ok(PodTolerationRestriction {
            namespaces: context.lister("", "namespaces")?,
            defaults: value.list_at(&["default"]).to_vec(),
            allowed: value.list_at(&["whitelist"]).to_vec(),
        })
    }

    async fn namespace(&self, name: &str) -> Result<Arc<NamespaceTolerations>, StatusError> {
        let found = self.namespaces.find("", name).await?;
        let namespaces = GroupResource::from_static("", "namespaces");
        found.ok_or_else(|| StatusError::not_found(&namespaces, name))
    }

    async fn complete(
        &self,
        attributes: &Attributes<'_>,
        pod: &mut Value,
    ) -> Result<(), StatusError> {
        let mut more = Vec::new();
        if attributes.operation == Operation::Create {
            let namespace = self.namespace(attributes.namespace).await?;
            more = said(&namespace.defaults)?.unwrap_or(&self.defaults).to_vec();
        }
        if qos::class(pod) != "BestEffort" {
            more.push(tolerations::exists(MEMORY_PRESSURE, "NoSchedule", None));
        }
        if !more.is_empty() {
            let merged = tolerations::merge(pod.list_at(&["spec", "tolerations"]), &more);
            let merged = Value::List(merged.into_iter().collect());
            pod.make_map(&["spec"]).insert("tolerations", merged);
        }
        self.check(attributes, pod).await
    }

    async fn check(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), StatusError> {
        let asked = pod.list_at(&["spec", "tolerations"]);
        if asked.is_empty() {
            return Ok(());
        }
        let namespace = self.namespace(attributes.namespace).await?;
        let (allowed, scope) = match said(&namespace.allowed)? {
            Some(allowed) => (allowed, "namespace"),
            None => (self.allowed.as_slice(), "cluster"),
        };
        match tolerations::allowed(asked, allowed) {
            true => Ok(()),
            false => Err(StatusError::unknown(
                500,
                format!(
                    "pod tolerations (possibly merged with namespace default tolerations) \
                     conflict with its {scope} whitelist"
                ),
            )),
        }
    }
}

impl Plugin for PodTolerationRestriction {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        match object.filter(|_| concerns(attributes)) {
            Some(pod) => Box::pin(self.complete(attributes, pod)),
            None => ready(Ok(())),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        match object.filter(|_| concerns(attributes)) {
            Some(pod) => Box::pin(self.check(attributes, pod)),
            None => ready(Ok(())),
        }
    }
}

fn concerns(attributes: &Attributes<'_>) -> bool {
    matches!(attributes.operation, Operation::Create | Operation::Update)
        && attributes.is("", "pods")
}

/// Tolerations in an annotation of a namespace: `None` if absent, an error if it cannot be decoded.
type Said = Result<Option<Vec<Value>>, String>;

/// Default and allowed tolerations in a namespace's annotations.
#[derive(Debug)]
struct NamespaceTolerations {
    defaults: Said,
    allowed: Said,
}

impl Facts for NamespaceTolerations {
    fn read(namespace: &Value) -> Self {
        let said = |key: &str| {
            let text = namespace.at(&["metadata", "annotations", key]).and_then(Value::as_str);
            match text {
                None => Ok(None),
                Some("") => Ok(Some(Vec::new())),
                Some(text) => {
                    let decoded = decode_any(text.as_bytes(), Unknown::Ignore);
                    let value = decoded.map_err(|error| error.to_string())?.value;
                    Ok(Some(value.as_list().unwrap_or_default().to_vec()))
                }
            }
        };
        NamespaceTolerations { defaults: said(DEFAULTS), allowed: said(ALLOWED) }
    }
}

fn said(said: &Said) -> Result<Option<&[Value]>, StatusError> {
    let said = said.as_ref().map_err(|error| StatusError::unknown(500, error))?;
    Ok(said.as_deref())
}
