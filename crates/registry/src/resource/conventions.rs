//! Facts of serving that differ between resources. Facts that follow from the type of the objects
//! ([`TypeRef::is_unstructured`](crate::type_ref::TypeRef::is_unstructured)), or belong to strategy, columns or scale,
//! are defined there.

use bytes::Bytes;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::quote::quote;

/// Whether CBOR is supported (`CBORServingAndStorage`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cbor(pub bool);

/// Facts of serving that differ between resources.
#[derive(Clone, Debug)]
pub struct Conventions {
    /// Routing of requests, and the errors of those without a route.
    pub routing: Routing,
    /// Whether protobuf is supported.
    pub protobuf: bool,
    /// Whether CBOR is supported.
    pub cbor: Cbor,
    /// Whether strategic merge patches are supported: merge keys are known for built-in types only.
    pub strategic_merge_patch: bool,
    /// Conversion of field selectors (upstream: `AddFieldLabelConversionFunc`), by the message about unknown labels.
    pub field_labels: FieldLabels,
    /// Source of the resource's discovery and OpenAPI documents.
    pub published: Published,
    /// Annotations that stand for fields which a version does not have; left out of PartialObjectMetadata.
    pub converted_annotations: &'static [&'static str],
    /// Whether discovery shows the hash of the storage version (`StorageVersionHash`).
    pub storage_version_hash: bool,
}

/// Conversions of field labels, which differ in the message about unknown labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLabels {
    /// The default one: name and namespace.
    Metadata,
    /// The kind's own.
    Own,
    /// The kind's own, whose message names the kind.
    OwnNamed,
    /// The kind's own, whose message quotes the label.
    OwnQuoted,
}

impl FieldLabels {
    /// Message about an unknown label.
    pub fn unknown(self, label: &str, kind: &GroupVersionKind) -> String {
        match self {
            FieldLabels::Metadata => format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                quote(label)
            ),
            FieldLabels::Own => format!("field label not supported: {label}"),
            FieldLabels::OwnNamed => format!("field label not supported for {kind}: {label}"),
            FieldLabels::OwnQuoted => {
                format!("field label {} not supported for {}", quote(label), kind.kind)
            }
        }
    }
}

/// Routing of requests to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// A route for each method and form of path (upstream: `APIInstaller`): a request without a route is refused before
    /// anything else (404, 405, 406, 415).
    Routes,
    /// One handler for all methods and paths below the resource (upstream: `crdHandler`): routing uses the verb alone,
    /// and requests of another scope are passed on.
    Verbs,
}

/// Source of a resource's discovery and OpenAPI documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// Its routes and types.
    Routes,
    /// Its CustomResourceDefinition, with the OpenAPI schema of the version as JSON.
    Definition(Bytes),
}

impl Conventions {
    /// Conventions of built-in resources.
    pub fn typed(field_label_conversion: bool) -> Self {
        Conventions {
            routing: Routing::Routes,
            protobuf: true,
            cbor: Cbor(false),
            strategic_merge_patch: true,
            field_labels: match field_label_conversion {
                true => FieldLabels::Own,
                false => FieldLabels::Metadata,
            },
            published: Published::Routes,
            converted_annotations: &[],
            storage_version_hash: true,
        }
    }
}

impl Published {
    /// The schema of the CustomResourceDefinition, if the resource has one.
    pub fn definition(&self) -> Option<&Bytes> {
        match self {
            Published::Routes => None,
            Published::Definition(schema) => Some(schema),
        }
    }

    /// Whether the resource comes from a CustomResourceDefinition.
    pub fn by_definition(&self) -> bool {
        self.definition().is_some()
    }
}
