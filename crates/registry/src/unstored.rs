//! Creation of objects that are not stored, such as reviews, tokens, bindings and evictions (upstream: `rest.Creater`
//! without a store).

use kevel_api::status::StatusError;
use kevel_api::value::Value;

use crate::admission::Operation;
use crate::context::WriteOptions;
use crate::metadata;
use crate::owner_references::Sent;
use crate::resource::{CreateRequest, Created, Creater, Resources};
use crate::scope::RequestScope;
use crate::store::wipe_system_fields;

impl RequestScope<'_> {
    /// Has a [`Creater`] handle an object, as sent and defaulted.
    pub async fn create_unstored(
        &self,
        creater: &dyn Creater,
        resources: &Resources,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Created, StatusError> {
        self.fill_in_namespace(&mut object)?;
        // The body of a subresource may name the object by its UID
        // (`PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate`).
        if self.subresource.is_none() {
            wipe_system_fields(&mut object);
        }
        self.dedup_owner_references(&mut object, Sent::ByClient);
        self.record_unstored(&mut object, options);
        let mut attributes = self.attributes(Operation::Create, options.dry_run);
        let name = metadata::text(&object, "name").to_owned();
        if attributes.name.is_empty() {
            attributes.name = &name;
        }
        self.admission.admit(&attributes, Some(&mut object)).await?;
        self.dedup_owner_references(&mut object, Sent::AfterAdmission);
        let request = CreateRequest {
            resource: self.resource,
            resources,
            subresource: self.context.subresource,
            namespace: self.namespace(),
            name: self.name(),
            user: self.context.user,
            dry_run: options.dry_run,
            warnings: self.context.warnings,
            audit: self.context.audit,
            clock: self.context.clock,
        };
        let object = creater.prepare(&request, object).await?;
        self.admission.validate(&attributes, Some(&object)).await?;
        creater.create(&request, object).await
    }
}
