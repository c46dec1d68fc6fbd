//! How a kind is served, where kinds differ: facts of its row. What follows from the type of its objects
//! ([`TypeRef::is_unstructured`](crate::type_ref::TypeRef::is_unstructured)), from its strategy, columns
//! or scale is said there.

use bytes::Bytes;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::quote::quote;

use crate::negotiate::Cbor;

/// The conventions that a kind is served by.
#[derive(Clone, Debug)]
pub struct Conventions {
    /// Which requests lead to it, and what the others are told.
    pub routing: Routing,
    /// Whether its objects have a protobuf form.
    pub protobuf: bool,
    /// Whether its objects are spoken of in CBOR.
    pub cbor: Cbor,
    /// Whether its objects take strategic merge patches: what lists and maps are merged by is known of
    /// types alone.
    pub strategic_merge_patch: bool,
    /// How field selectors are converted (`AddFieldLabelConversionFunc`), told by what is said of labels
    /// that are not known.
    pub field_labels: FieldLabels,
    /// What discovery and OpenAPI make their documents of.
    pub published: Published,
    /// Annotations that stand for fields which a version does not have: whoever asks for nothing but metadata
    /// is not shown them.
    pub converted_annotations: &'static [&'static str],
}

/// The conversions of field labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLabels {
    /// That of kinds without one: name and namespace.
    Metadata,
    /// One of the kind's own.
    Own,
    /// The same, which names the kind.
    OwnNamed,
    /// The same, which quotes the label.
    OwnQuoted,
}

impl FieldLabels {
    /// The message about a label that is not known.
    pub(crate) fn unknown(self, label: &str, kind: &GroupVersionKind) -> String {
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

/// Which requests lead to a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// A route for each method and form of path, as `APIInstaller` registers them: what has none is
    /// refused before the kind is looked at (404, 405, 406, 415).
    Routes,
    /// One handler for all methods and paths below the resource, as the reference's `crdHandler`: it goes
    /// by the verb alone, and passes on what has not the scope of the kind.
    Verbs,
}

/// What the documents about a kind are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// Its routes and types.
    Routes,
    /// Its definition, of which a version's OpenAPI schema is kept as JSON.
    Definition(Bytes),
}

impl Conventions {
    /// The conventions of kinds whose types are part of the program.
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
        }
    }
}

impl Published {
    /// The schema of the definition, where the documents are made of one.
    pub fn definition(&self) -> Option<&Bytes> {
        match self {
            Published::Routes => None,
            Published::Definition(schema) => Some(schema),
        }
    }

    /// Whether the documents are made of a definition.
    pub fn by_definition(&self) -> bool {
        self.definition().is_some()
    }
}
