//! `DefaultIngressClass` admission plug-in: sets the class of ingresses that name none.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::default_class::{ClassDefaults, default_class};
use super::{Context, Registration};
use kevel_controlplane::lister::Lister;

const GROUP: &str = "networking.k8s.io";
/// Annotation that marks an IngressClass as the default.
const DEFAULT: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];
/// Deprecated annotation of ingresses that names their class.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Registration of the `DefaultIngressClass` admission plug-in.
pub const REGISTRATION: Registration = Registration::on("DefaultIngressClass", |context| {
    Ok(Arc::new(DefaultIngressClass::new(context)?))
});

/// The `DefaultIngressClass` admission plug-in.
#[derive(Debug)]
pub struct DefaultIngressClass {
    classes: Lister<ClassDefaults>,
}

impl DefaultIngressClass {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        Ok(DefaultIngressClass { classes: context.lister(GROUP, "ingressclasses")? })
    }
}

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let new = attributes.operation == Operation::Create && attributes.is(GROUP, "ingresses");
        let Some(ingress) = object.filter(|_| new) else { return ready(Ok(())) };
        if ingress.at(&["spec", "ingressClassName"]).is_some()
            || ingress.at(&["metadata", "annotations", CLASS_ANNOTATION]).is_some()
        {
            return ready(Ok(()));
        }
        Box::pin(async move {
            if let Some(class) = default_class(&self.classes, &DEFAULT).await? {
                let name = class.name.as_str();
                ingress.make_map(&["spec"]).insert("ingressClassName", name.into());
            }
            Ok(())
        })
    }
}
