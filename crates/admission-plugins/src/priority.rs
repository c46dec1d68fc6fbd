//! `Priority`: what a pod's class says about its turn.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use super::{Context, Registration};
use kevel_controlplane::lister::{Facts, Lister};
use kevel_features::Feature;

const GROUP: &str = "scheduling.k8s.io";

/// `Priority`, as the command line knows it.
pub const REGISTRATION: Registration =
    Registration::on("Priority", |context| Ok(Arc::new(Priority::new(context)?)));

/// The admission plug-in of that name.
#[derive(Debug)]
pub struct Priority {
    classes: Lister<PriorityFacts>,
    /// `WorkloadAwarePreemption`
    pod_groups: bool,
}

/// Values of a PriorityClass.
struct Computed {
    class: String,
    value: i64,
    preemption_policy: Option<String>,
}

impl Priority {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        Ok(Priority {
            classes: context.lister(GROUP, "priorityclasses")?,
            pod_groups: (context.feature)(Feature::WorkloadAwarePreemption),
        })
    }

    async fn admit_pod(
        &self,
        attributes: &Attributes<'_>,
        pod: &mut Value,
    ) -> Result<(), StatusError> {
        let Computed { class, value, preemption_policy } = self.compute(attributes, pod).await?;
        let spec = |field: &str| pod.at(&["spec", field]);
        if let Some(given) = spec("priority").and_then(Value::as_int).filter(|p| *p != value) {
            return Err(attributes.forbidden(
                Some(pod),
                format!(
                    "the integer value of priority ({given}) must not be provided in pod spec; \
                     priority admission controller computed {value} from the given PriorityClass \
                     name"
                ),
            ));
        }
        let given = spec("preemptionPolicy").and_then(Value::as_str);
        if let (Some(given), Some(policy)) = (given, &preemption_policy)
            && given != policy
        {
            return Err(attributes.forbidden(
                Some(pod),
                format!(
                    "the string value of PreemptionPolicy ({given}) must not be provided in pod \
                     spec; priority admission controller computed {policy} from the given \
                     PriorityClass name"
                ),
            ));
        }
        let spec = pod.make_map(&["spec"]);
        spec.insert("priority", value.into());
        if !class.is_empty() {
            spec.insert("priorityClassName", class.as_str().into());
        }
        if let Some(policy) = preemption_policy {
            spec.insert("preemptionPolicy", policy.as_str().into());
        }
        Ok(())
    }

    async fn admit_pod_group(
        &self,
        attributes: &Attributes<'_>,
        group: &mut Value,
    ) -> Result<(), StatusError> {
        let Computed { class, value, .. } = self.compute(attributes, group).await?;
        let given = group.at(&["spec", "priority"]).and_then(Value::as_int);
        if let Some(given) = given.filter(|given| *given != value) {
            return Err(attributes.forbidden(
                Some(group),
                format!(
                    "priority set in the pod group ({given}) must match the priority computed \
                     ({value}) based on the priority class set in the spec"
                ),
            ));
        }
        let spec = group.make_map(&["spec"]);
        spec.insert("priority", value.into());
        if !class.is_empty() {
            spec.insert("priorityClassName", class.as_str().into());
        }
        Ok(())
    }

    /// Values of an object's class, or of the default class if it names none.
    async fn compute(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<Computed, StatusError> {
        let name = object.str_at(&["spec", "priorityClassName"]);
        let class = match name {
            "" => self.default().await?,
            name => {
                let class = self.classes.get("", name, At::Any).await?;
                let class = match class {
                    None => self.classes.get("", name, At::Consistent).await?,
                    found => found,
                };
                let error = || format!("no PriorityClass with name {name} was found");
                Some(class.ok_or_else(|| attributes.forbidden(Some(object), error()))?)
            }
        };
        let Some(class) = class else {
            let policy = Some("PreemptLowerPriority".to_owned());
            return Ok(Computed { class: String::new(), value: 0, preemption_policy: policy });
        };
        Ok(Computed {
            class: class.name.clone(),
            value: class.value,
            preemption_policy: class.preemption_policy.clone(),
        })
    }

    /// The class of those that name none: the lowest of those that say to be it.
    async fn default(&self) -> Result<Option<Arc<PriorityFacts>>, StatusError> {
        let classes = self.classes.list("", At::Any).await?.into_iter();
        Ok(classes.filter(|class| class.global_default).min_by_key(|class| class.value))
    }

    async fn check_class(
        &self,
        attributes: &Attributes<'_>,
        class: &Value,
    ) -> Result<(), StatusError> {
        let Some(default) = self.default().await? else { return Ok(()) };
        let name = &default.name;
        let same = *name == class.str_at(&["metadata", "name"]);
        if attributes.operation == Operation::Update && same {
            return Ok(());
        }
        let error = format!(
            "PriorityClass {name} is already marked as default. Only one default can exist"
        );
        Err(attributes.forbidden(Some(class), error))
    }
}

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let Some(object) = object else { return ready(Ok(())) };
        let (create, update) = (Operation::Create, Operation::Update);
        match attributes.operation {
            operation if operation == create && attributes.is("", "pods") => {
                Box::pin(self.admit_pod(attributes, object))
            }
            operation if operation == update && attributes.is("", "pods") => {
                keep(object, attributes.old);
                ready(Ok(()))
            }
            operation
                if operation == create && self.pod_groups && attributes.is(GROUP, "podgroups") =>
            {
                Box::pin(self.admit_pod_group(attributes, object))
            }
            _ => ready(Ok(())),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        match object {
            Some(class)
                if attributes.is(GROUP, "priorityclasses")
                    && class.at(&["globalDefault"]) == Some(&Value::Bool(true)) =>
            {
                Box::pin(self.check_class(attributes, class))
            }
            _ => ready(Ok(())),
        }
    }
}

/// Facts about a PriorityClass.
#[derive(Debug)]
struct PriorityFacts {
    name: String,
    value: i64,
    preemption_policy: Option<String>,
    global_default: bool,
}

impl Facts for PriorityFacts {
    fn read(class: &Value) -> Self {
        let policy = class.at(&["preemptionPolicy"]).and_then(Value::as_str);
        PriorityFacts {
            name: class.str_at(&["metadata", "name"]).to_owned(),
            value: class.at(&["value"]).and_then(Value::as_int).unwrap_or(0),
            preemption_policy: policy.map(str::to_owned),
            global_default: class.at(&["globalDefault"]) == Some(&Value::Bool(true)),
        }
    }
}

/// Keeps computed fields that an update leaves out.
fn keep(pod: &mut Value, old: Option<&Value>) {
    for field in ["priority", "preemptionPolicy"] {
        let kept = old.and_then(|old| old.at(&["spec", field]));
        if let Some(kept) = kept.filter(|_| pod.at(&["spec", field]).is_none()) {
            pod.make_map(&["spec"]).insert(field, kept.clone());
        }
    }
}
