//! How a kind is served, where kinds differ: facts of its row. What follows from the type of its objects
//! ([`TypeRef::is_unstructured`](crate::type_ref::TypeRef::is_unstructured)), from its strategy, columns
//! or scale is said there.

use bytes::Bytes;

/// The conventions that a kind is served by.
#[derive(Clone, Debug)]
pub struct Conventions {
    /// Which requests lead to it, and what the others are told.
    pub routing: Routing,
    /// Whether its objects have a protobuf form.
    pub protobuf: bool,
    /// Whether its objects take strategic merge patches: what lists and maps are merged by is known of
    /// types alone.
    pub strategic_merge_patch: bool,
    /// Whether field selectors have a conversion of the kind's own, which has other words for fields that
    /// it does not know (`AddFieldLabelConversionFunc`).
    pub field_label_conversion: bool,
    /// What discovery and OpenAPI make their documents of.
    pub published: Published,
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
            strategic_merge_patch: true,
            field_label_conversion,
            published: Published::Routes,
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
