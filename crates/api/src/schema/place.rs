//! Lookup of a field path in a schema.

use super::{Field, Schema};
use crate::field_error::Path;

/// Position in the schema of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Place<'t> {
    /// Type at the position.
    pub schema: Schema<'t>,
    /// Field, unless the position is a list item, a map entry or the object itself.
    pub field: Option<Field<'t>>,
}

impl<'t> Schema<'t> {
    /// Position of a path that begins here; `None` if the path does not exist.
    ///
    /// ```
    /// use kevel_api::field_error::Path;
    /// let pod = kevel_api::builtin::schema("", "v1", "Pod").unwrap();
    /// let containers = Path::new("spec.containers");
    /// let place = pod.place(&containers.index(0).child("image")).unwrap();
    /// assert_eq!(place.field.unwrap().name(), "image");
    /// assert!(pod.place(&containers.child("image")).is_none());
    /// ```
    pub fn place(self, path: &Path<'_>) -> Option<Place<'t>> {
        path.walk(
            Some(Place { schema: self, field: None }),
            |place, name| {
                let field = place?.schema.field(name)?;
                Some(Place { schema: field.schema(), field: Some(field) })
            },
            |place| Some(Place { schema: place?.schema.item()?, field: None }),
            |place, _| Some(Place { schema: place?.schema.value()?, field: None }),
        )
    }
}
