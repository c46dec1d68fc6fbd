//! Admission of pod groups: `PodGroupProtection`, `PodGroupWorkloadExists`, `JobValidation`. No effect while the gate
//! `GenericWorkload` is off.

use std::collections::HashSet;
use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use super::storage_object_in_use_protection::add_finalizer;
use super::{Context, Registration};
use kevel_controlplane::lister::{Facts, Lister};
use kevel_features::Feature;

const GROUP: &str = "scheduling.k8s.io";
const VERSION: &str = "v1alpha2";
const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

fn enabled(context: &Context<'_>) -> bool {
    (context.feature)(Feature::GenericWorkload)
}

/// The objects of a resource, where the gate is on and it is served.
fn lister<F>(context: &Context<'_>, plural: &str) -> Option<Lister<F>> {
    let row = context.rows.get(GROUP, VERSION, plural).filter(|_| enabled(context))?;
    row.storage.clone().map(Lister::new)
}

/// `PodGroupProtection`, as the command line knows it.
pub const POD_GROUP_PROTECTION: Registration = Registration::on("PodGroupProtection", |context| {
    Ok(Arc::new(PodGroupProtection::new(context)))
});

/// Adds the finalizer that keeps a pod group while it is used.
#[derive(Clone, Copy, Debug)]
pub struct PodGroupProtection {
    enabled: bool,
}

impl PodGroupProtection {
    pub fn new(context: &Context<'_>) -> Self {
        PodGroupProtection { enabled: enabled(context) }
    }
}

impl Plugin for PodGroupProtection {
    fn name(&self) -> &'static str {
        POD_GROUP_PROTECTION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let new = attributes.operation == Operation::Create && attributes.is(GROUP, "podgroups");
        if let Some(group) = object.filter(|_| self.enabled && new) {
            add_finalizer(group, FINALIZER);
        }
        ready(Ok(()))
    }
}

/// `PodGroupWorkloadExists`, as the command line knows it.
pub const POD_GROUP_WORKLOAD_EXISTS: Registration =
    Registration::on("PodGroupWorkloadExists", |context| {
        Ok(Arc::new(PodGroupWorkloadExists::new(context)))
    });

/// Groups are made of templates that are there.
#[derive(Debug)]
pub struct PodGroupWorkloadExists {
    workloads: Option<Lister<WorkloadTemplates>>,
}

/// The templates of a workload.
#[derive(Debug)]
struct WorkloadTemplates {
    deleting: bool,
    names: HashSet<String>,
}

impl Facts for WorkloadTemplates {
    fn read(workload: &Value) -> Self {
        let templates = workload.list_at(&["spec", "podGroupTemplates"]).iter();
        WorkloadTemplates {
            deleting: !workload.str_at(&["metadata", "deletionTimestamp"]).is_empty(),
            names: templates.map(|template| template.str_at(&["name"]).to_owned()).collect(),
        }
    }
}

impl PodGroupWorkloadExists {
    pub fn new(context: &Context<'_>) -> Self {
        PodGroupWorkloadExists { workloads: lister(context, "workloads") }
    }
}

impl Plugin for PodGroupWorkloadExists {
    fn name(&self) -> &'static str {
        POD_GROUP_WORKLOAD_EXISTS.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let new = attributes.operation == Operation::Create && attributes.is(GROUP, "podgroups");
        let reference =
            object.and_then(|group| group.at(&["spec", "podGroupTemplateRef", "workload"]));
        let (Some(workloads), Some(reference)) = (&self.workloads, reference.filter(|_| new))
        else {
            return ready(Ok(()));
        };
        Box::pin(async move {
            let (name, template) =
                (reference.str_at(&["workloadName"]), reference.str_at(&["podGroupTemplateName"]));
            let refused = |error: String| {
                Err(attributes.forbidden(object, format!("PodGroup rejected: {error}")))
            };
            let Some(workload) = workloads.find(attributes.namespace, name).await? else {
                return refused(format!("Workload {} not found", quote(name)));
            };
            if workload.deleting {
                return refused(format!("Workload {} is being deleted", quote(name)));
            }
            if workload.names.contains(template) {
                return Ok(());
            }
            let (template, name) = (quote(template), quote(name));
            refused(format!("PodGroupTemplate {template} not found in Workload {name}"))
        })
    }
}

/// `JobValidation`, as the command line knows it.
pub const JOB_VALIDATION: Registration =
    Registration::on("JobValidation", |context| Ok(Arc::new(JobValidation::new(context))));

/// A job whose pods are scheduled all or none keeps their number.
#[derive(Debug)]
pub struct JobValidation {
    groups: Option<Lister<GroupPolicy>>,
}

/// Facts about a group that a job needs.
#[derive(Debug)]
struct GroupPolicy {
    name: String,
    /// Whether its pods are scheduled all or none.
    gang: bool,
    /// UID of the controlling owner.
    controller: Option<String>,
}

impl Facts for GroupPolicy {
    fn read(group: &Value) -> Self {
        let mut owners = group.list_at(&["metadata", "ownerReferences"]).iter();
        let controller = owners.find(|owner| owner.at(&["controller"]) == Some(&Value::Bool(true)));
        GroupPolicy {
            name: group.str_at(&["metadata", "name"]).to_owned(),
            gang: group.at(&["spec", "schedulingPolicy", "gang"]).is_some(),
            controller: controller.map(|owner| owner.str_at(&["uid"]).to_owned()),
        }
    }
}

impl JobValidation {
    pub fn new(context: &Context<'_>) -> Self {
        JobValidation { groups: lister(context, "podgroups") }
    }
}

impl Plugin for JobValidation {
    fn name(&self) -> &'static str {
        JOB_VALIDATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let update = attributes.operation == Operation::Update && attributes.is("batch", "jobs");
        let (Some(groups), Some(job), Some(old)) =
            (&self.groups, object.filter(|_| update), attributes.old)
        else {
            return ready(Ok(()));
        };
        if job.at(&["spec", "parallelism"]) == old.at(&["spec", "parallelism"]) {
            return ready(Ok(()));
        }
        Box::pin(async move {
            let group = old.at(&["spec", "template", "spec", "schedulingGroup", "podGroupName"]);
            let groups = match group.and_then(Value::as_str) {
                Some(name) => groups.find(attributes.namespace, name).await?.into_iter().collect(),
                None => {
                    let mut groups = groups.list(attributes.namespace, At::Any).await?;
                    let uid = old.str_at(&["metadata", "uid"]);
                    groups.retain(|group| group.controller.as_deref() == Some(uid));
                    groups
                }
            };
            match groups.iter().find(|group| group.gang) {
                None => Ok(()),
                Some(group) => {
                    let name = quote(&group.name);
                    let error = format!(
                        "cannot change parallelism for a Job referencing gang-scheduled PodGroup \
                         {name}"
                    );
                    Err(attributes.forbidden(object, error))
                }
            }
        })
    }
}
