//! `OwnerReferencesPermissionEnforcement` admission plug-in: changing `ownerReferences` needs the right to delete the
//! object, and `blockOwnerDeletion` the right to update the owner's finalizers.

use std::collections::HashMap;
use std::sync::Arc;

use kevel_api::gvk::GroupVersion;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_registry::resource::Resources;
use kevel_registry::selectors::NO_SELECTORS;
use kevel_server::authorization::{self, Authorizer, Decision, Opinion};

use super::{Context, Registration};

/// Registration of the `OwnerReferencesPermissionEnforcement` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::off("OwnerReferencesPermissionEnforcement", |context| {
        Ok(Arc::new(OwnerReferencesPermissionEnforcement::new(context)))
    });

/// The `OwnerReferencesPermissionEnforcement` admission plug-in.
pub struct OwnerReferencesPermissionEnforcement {
    authorizer: Arc<dyn Authorizer>,
    /// Tables of served resources, to find the resource of an owner's kind.
    tables: Vec<Arc<Resources>>,
}

impl OwnerReferencesPermissionEnforcement {
    pub fn new(context: &Context<'_>) -> Self {
        OwnerReferencesPermissionEnforcement {
            authorizer: context.authorizer.clone(),
            tables: context.tables.clone(),
        }
    }

    async fn check(&self, write: &Attributes<'_>, object: &Value) -> Result<(), StatusError> {
        if write.operation != Operation::Create {
            let resource = write.resource;
            let deletion = authorization::Attributes {
                verb: "delete",
                namespace: write.namespace,
                group: &resource.kind.group,
                version: &resource.kind.version,
                resource: &resource.plural,
                subresource: write.subresource,
                name: write.name,
                ..anything(write)
            };
            let opinion = self.authorizer.authorize(&deletion).await;
            if opinion.decision != Decision::Allow {
                let why = why(opinion);
                let error = format!("cannot set an ownerRef on a resource you can't delete: {why}");
                return Err(write.forbidden(Some(object), error));
            }
        }
        let blocking = blocking(object, write.old);
        if blocking.is_empty() {
            return Ok(());
        }
        let anything = authorization::Attributes { name: "*", ..anything(write) };
        if self.authorizer.authorize(&anything).await.decision == Decision::Allow {
            return Ok(());
        }
        for owner in blocking {
            self.check_blocking(write, object, owner).await?;
        }
        Ok(())
    }

    async fn check_blocking(
        &self,
        write: &Attributes<'_>,
        object: &Value,
        owner: &Value,
    ) -> Result<(), StatusError> {
        let (version, kind) = (owner.str_at(&["apiVersion"]), owner.str_at(&["kind"]));
        let unknown = |error: String| {
            let error = format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
                 APIVersion {version} Kind {kind}: {error}"
            );
            write.forbidden(Some(object), error)
        };
        let parsed: GroupVersion = version.parse().map_err(|error| unknown(format!("{error}")))?;
        let rows = self.tables.iter().map(|table| table.current());
        let found = rows.into_iter().find_map(|rows| {
            let resources = rows.version(&parsed.group, &parsed.version)?.values();
            resources.into_iter().find(|row| row.kind.kind == *kind).cloned()
        });
        let Some(resource) = found else {
            let error = format!("no matches for kind \"{kind}\" in version \"{version}\"");
            return Err(unknown(error));
        };
        let finalizing = authorization::Attributes {
            group: &resource.kind.group,
            version: &resource.kind.version,
            resource: &resource.plural,
            name: owner.str_at(&["name"]),
            namespace: if resource.namespaced { write.namespace } else { "" },
            ..anything(write)
        };
        let opinion = self.authorizer.authorize(&finalizing).await;
        if opinion.decision == Decision::Allow {
            return Ok(());
        }
        let why = why(opinion);
        let error = format!(
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set \
             finalizers on: {why}"
        );
        Err(write.forbidden(Some(object), error))
    }
}

impl Plugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        // A pod status update by a kubelet sets no owner references.
        let status = attributes.subresource == "status" && attributes.concerns("", "pods");
        let old = attributes.old.map(owners).unwrap_or_default();
        match object.filter(|object| writes && !status && owners(object) != old) {
            Some(object) => Box::pin(self.check(attributes, object)),
            None => ready(Ok(())),
        }
    }
}

/// Check of `update` on the finalizers of every resource, for the user of the write.
fn anything<'a>(write: &'a Attributes<'a>) -> authorization::Attributes<'a> {
    authorization::Attributes {
        user: write.user,
        verb: "update",
        is_resource: true,
        path: "",
        group: "*",
        version: "*",
        namespace: "",
        resource: "*",
        subresource: "finalizers",
        name: "",
        selectors: &NO_SELECTORS,
    }
}

fn why(opinion: Opinion) -> String {
    let error = opinion.error.map_or("<nil>".to_owned(), |error| error.to_string());
    format!("{}, {error}", opinion.reason)
}

fn owners(object: &Value) -> &[Value] {
    object.list_at(&["metadata", "ownerReferences"])
}

/// Owners for which the write newly sets `blockOwnerDeletion`.
fn blocking<'a>(object: &'a Value, old: Option<&Value>) -> Vec<&'a Value> {
    let blocks = |owner: &Value| owner.at(&["blockOwnerDeletion"]) == Some(&Value::Bool(true));
    let old = old.map(owners).unwrap_or_default().iter();
    let old: HashMap<&str, &Value> = old.map(|owner| (owner.str_at(&["uid"]), owner)).collect();
    let known = |owner: &Value| old.get(owner.str_at(&["uid"])).is_some_and(|old| blocks(old));
    owners(object).iter().filter(|owner| blocks(owner) && !known(owner)).collect()
}
