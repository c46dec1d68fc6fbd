//! `PodSecurity`: pods do no more than the standard that their namespace asks for.

mod baseline;
mod checks;
mod configuration;
mod existing;
mod policy;
mod restricted;

use std::sync::Arc;

use kevel_admission::pod_security::{PodSecurityMetrics, PolicyEvaluation};
use kevel_api::field_error::aggregate;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use self::checks::{Pod, describe, violations};
use self::configuration::Configuration;
use self::policy::{Level, Policy};
use super::{Context, Registration};
use kevel_controlplane::lister::Lister;

/// Prefix of audit annotations.
const AUDIT: &str = "pod-security.kubernetes.io/";

/// Paths of the pod templates of workload kinds.
const TEMPLATES: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
];

/// Subresources of pods that no level restricts.
const HARMLESS: [&str; 8] =
    ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"];

/// `PodSecurity`, as the command line knows it.
pub const REGISTRATION: Registration =
    Registration::on("PodSecurity", |context| Ok(Arc::new(PodSecurity::new(context)?)));

/// The admission plug-in of that name.
#[derive(Debug)]
pub struct PodSecurity {
    configuration: Configuration,
    namespaces: Lister,
    pods: Lister,
    metrics: PodSecurityMetrics,
    /// Minor version of the newest standards: those of the emulated version.
    newest: u32,
}

impl PodSecurity {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        Ok(PodSecurity {
            configuration: Configuration::read((context.configuration)("PodSecurity")?)?,
            namespaces: context.lister("", "namespaces")?,
            pods: context.lister("", "pods")?,
            metrics: PodSecurityMetrics::new(&context.metrics),
            newest: context.emulation.1,
        })
    }

    /// Evaluates a pod, or the pod template of a workload, against the namespace's policy.
    async fn check(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        template: Option<&[&str]>,
    ) -> Result<(), StatusError> {
        let Configuration { usernames, namespaces, .. } = &self.configuration;
        for (exempt, names, name) in [
            ("namespace", namespaces, attributes.namespace),
            ("user", usernames, attributes.user.name.as_str()),
        ] {
            if names.iter().any(|listed| listed == name) {
                attributes.audit.annotate(&format!("{AUDIT}exempt"), exempt);
                self.metrics.exempted(attributes);
                return Ok(());
            }
        }
        let enforces = template.is_none();
        let found = self.namespace(attributes.namespace).await;
        if found.is_err() {
            self.metrics.failed(true, attributes);
        }
        let (policy, errors) = match found {
            Ok(found) => found,
            Err(_) if !enforces => return Ok(()),
            Err(error) => return Err(error),
        };
        let errors = aggregate(errors);
        if errors.is_none() && policy.is_privileged() {
            if enforces {
                let key = format!("{AUDIT}enforce-policy");
                attributes.audit.annotate(&key, "privileged:latest");
                self.count(attributes, policy.enforce, "enforce", true);
            }
            return Ok(());
        }
        let Some(template) = object.at(template.unwrap_or_default()) else { return Ok(()) };
        if let Some(old) = attributes.old.filter(|_| enforces)
            && !existing::changes(object, old)
        {
            return Ok(());
        }
        let (metadata, spec) = (template.at(&["metadata"]), template.at(&["spec"]));
        let nothing = &Value::Null;
        let pod = Pod { metadata: metadata.unwrap_or(nothing), spec: spec.unwrap_or(nothing) };
        self.judge(attributes, &policy, errors, &pod, enforces)
    }

    fn judge(
        &self,
        attributes: &Attributes<'_>,
        policy: &Policy,
        errors: Option<String>,
        pod: &Pod<'_>,
        enforces: bool,
    ) -> Result<(), StatusError> {
        let annotate = |key: &str, value: &str| {
            attributes.audit.annotate(&format!("{AUDIT}{key}"), value);
        };
        let class = pod.spec.str_at(&["runtimeClassName"]);
        if self.is_exempt_class(class) {
            annotate("exempt", "runtimeClass");
            self.metrics.exempted(attributes);
            return Ok(());
        }
        if let Some(errors) = errors {
            self.metrics.failed(false, attributes);
            annotate("error", &format!("Failed to parse policy: {errors}"));
        }
        let mut refused = None;
        if enforces {
            let of = policy.enforce;
            annotate("enforce-policy", &of.to_string());
            let found = violations(of, self.newest, pod);
            self.count(attributes, of, "enforce", found.is_empty());
            if !found.is_empty() {
                let (of, found) = (quote(&of.to_string()), describe(&found));
                refused = Some(format!("violates PodSecurity {of}: {found}"));
            }
        }
        let would = |of: policy::LevelVersion| {
            let found = violations(of, self.newest, pod);
            let of = quote(&of.to_string());
            (!found.is_empty())
                .then(|| format!("would violate PodSecurity {of}: {}", describe(&found)))
        };
        if let Some(found) = would(policy.audit) {
            annotate("audit-violations", &found);
            self.count(attributes, policy.audit, "audit", false);
        }
        if let Some(error) = refused {
            let resource = attributes.resource.group_resource();
            return Err(StatusError::forbidden(&resource, attributes.name, error));
        }
        if let Some(found) = would(policy.warn) {
            attributes.warnings.add(found);
            self.count(attributes, policy.warn, "warn", false);
        }
        Ok(())
    }

    fn count(
        &self,
        attributes: &Attributes<'_>,
        of: policy::LevelVersion,
        mode: &'static str,
        allowed: bool,
    ) {
        let (level, minor) = (of.level.name(), of.version);
        self.metrics.evaluated(PolicyEvaluation { allowed, level, minor, mode }, attributes);
    }

    /// Policy of a namespace, from its labels.
    async fn namespace(
        &self,
        name: &str,
    ) -> Result<(Policy, Vec<kevel_api::field_error::FieldError>), StatusError> {
        let mut snapshot = self.namespaces.snapshot(At::Any).await?;
        if snapshot.get(name).is_none() {
            snapshot = self.namespaces.snapshot(At::Consistent).await?;
        }
        let Some(namespace) = snapshot.get(name) else {
            let error = format!("failed to lookup namespace {}", quote(name));
            return Err(StatusError::internal(error));
        };
        Ok(self.configuration.defaults.of(|label| namespace.label(label)))
    }

    /// Refuses a namespace with invalid labels; warns of existing pods that violate a new policy.
    async fn check_namespace(
        &self,
        attributes: &Attributes<'_>,
        namespace: &Value,
    ) -> Result<(), StatusError> {
        let policy_of = |namespace: &Value| {
            let labels = namespace.at(&["metadata", "labels"]).and_then(Value::as_map);
            self.configuration.defaults.of(|label| labels?.get(label)?.as_str())
        };
        let name = namespace.str_at(&["metadata", "name"]);
        let (policy, errors) = policy_of(namespace);
        let old = attributes.old.map(policy_of);
        let told = |known: &[_]| errors.is_empty() || (!known.is_empty() && errors == known);
        if !told(old.as_ref().map_or(&[], |(_, known)| known)) {
            let kind = attributes.resource.group_kind();
            return Err(StatusError::invalid(&kind, attributes.name, errors));
        }
        let Some((old, _)) = old else {
            if self.is_exempt(name) {
                self.warn_of_exemption(attributes, namespace, &policy);
            }
            return Ok(());
        };
        let (enforce, before) = (policy.enforce, old.enforce);
        if enforce.level == Level::Privileged
            || (enforce.version == before.version && enforce.level <= before.level)
        {
            return Ok(());
        }
        if self.is_exempt(name) {
            self.warn_of_exemption(attributes, namespace, &policy);
            return Ok(());
        }
        for warning in self.warn_of_pods(name, enforce).await {
            attributes.warnings.add(warning);
        }
        Ok(())
    }

    fn is_exempt(&self, namespace: &str) -> bool {
        self.configuration.namespaces.iter().any(|listed| listed == namespace)
    }

    fn is_exempt_class(&self, class: &str) -> bool {
        let classes = &self.configuration.runtime_classes;
        !class.is_empty() && classes.iter().any(|listed| listed == class)
    }

    /// Warns that the policy of an exempt namespace is not enforced.
    fn warn_of_exemption(&self, attributes: &Attributes<'_>, namespace: &Value, policy: &Policy) {
        if policy.is_privileged() || policy.is_like(&self.configuration.defaults) {
            return;
        }
        let says = |mode: &str| {
            let label = |name: &str| {
                let key = format!("{AUDIT}{name}");
                namespace.at(&["metadata", "labels", &key]).is_some()
            };
            label(mode) || label(&format!("{mode}-version"))
        };
        let modes = [("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn)]
            .into_iter();
        let ignored = modes.filter(|(mode, of)| of.level != Level::Privileged && says(mode));
        let ignored: Vec<String> = ignored.map(|(mode, of)| format!("{mode}={of}")).collect();
        attributes.warnings.add(format!(
            "namespace {} is exempt from Pod Security, and the policy ({}) will be ignored",
            quote(namespace.str_at(&["metadata", "name"])),
            ignored.join(", ")
        ));
    }
}

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let Some(object) = object.filter(|_| writes) else { return ready(Ok(())) };
        if attributes.concerns("", "pods") {
            return match HARMLESS.contains(&attributes.subresource) {
                true => ready(Ok(())),
                false => Box::pin(self.check(attributes, object, None)),
            };
        }
        if attributes.is("", "namespaces") {
            return Box::pin(self.check_namespace(attributes, object));
        }
        let makes = |(group, plural, _): &&(&str, &str, &[&str])| attributes.is(group, plural);
        match TEMPLATES.iter().find(makes) {
            Some((_, _, path)) => Box::pin(self.check(attributes, object, Some(path))),
            None => ready(Ok(())),
        }
    }
}
