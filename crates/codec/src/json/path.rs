//! Position of the decoder in a document, and Go's names for the expected types.
//!
//! A frame lives on the decoder's stack and is read only for errors.

use std::fmt::Write;

use kevel_api::field_error::{MAX_PATH_BYTES, cut};
use kevel_api::schema::{
    Field, FieldFlags, Role, Scalar, Schema, StructFlags, StructSchema, Type, go_element_type,
};

/// A step down from the document's root.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'f> {
    Root,
    Field(StructSchema<'f>, Field<'f>),
    Index(usize),
    Key(&'f str),
    /// Step into a type with its own decoder, which forgets the inner structs in error messages.
    Union,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'f> {
    parent: Option<&'f Frame<'f>>,
    step: Step<'f>,
}

impl<'f> Frame<'f> {
    pub(crate) const ROOT: Frame<'static> = Frame { parent: None, step: Step::Root };

    #[inline]
    pub(crate) fn down(&'f self, step: Step<'f>) -> Frame<'f> {
        Frame { parent: Some(self), step }
    }

    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Key of this step.
    pub(super) fn key(&self) -> &'f str {
        if let Step::Key(key) = self.step { key } else { "" }
    }

    /// Path of a key below here, as strict errors have it: `spec.containers[0].foo`. Limited like paths in errors; many
    /// unknown fields may be below one long key.
    pub(super) fn path_to(&self, key: &str) -> String {
        self.path_below(key, false)
    }

    /// Path of an unknown key. In embedded metadata it is found by another decoder, which writes keys of maps as field
    /// errors do.
    pub(super) fn unknown_path(&self, key: &str) -> String {
        self.path_below(key, self.is_in_embedded_metadata())
    }

    fn path_below(&self, key: &str, bracketed: bool) -> String {
        let mut path = self.path(bracketed);
        if path.len() <= MAX_PATH_BYTES {
            push_key(&mut path, key);
        }
        path
    }

    /// Path of this position, as field errors have it: `spec.map[key].field`.
    pub(super) fn field_path(&self) -> String {
        self.path(true)
    }

    fn path(&self, bracketed: bool) -> String {
        let mut path = String::new();
        for step in self.steps() {
            match step {
                _ if path.len() > MAX_PATH_BYTES => return path,
                Step::Root | Step::Union => {}
                Step::Field(_, field) => push_key(&mut path, field.name()),
                Step::Key(key) if bracketed => {
                    _ = write!(path, "[{}]", cut(MAX_PATH_BYTES, key));
                }
                Step::Key(key) => push_key(&mut path, key),
                Step::Index(i) => _ = write!(path, "[{i}]"),
            }
        }
        path
    }

    /// Whether this is in the metadata of an embedded resource of a custom resource, whose errors are reported apart.
    pub(super) fn is_in_embedded_metadata(&self) -> bool {
        let is_metadata = |step: &Step<'_>| match step {
            Step::Field(structure, field) => {
                structure.flags().has(StructFlags::EMBEDDED) && field.name() == "metadata"
            }
            _ => false,
        };
        // The root and its own fields come first.
        self.steps().iter().skip(2).any(is_metadata)
    }

    /// Go's error for a value that does not fit the Go type `go` here.
    pub(super) fn type_error(&self, value: &str, go: &str) -> String {
        let mut names = Vec::new();
        let mut owner = None;
        let mut inside = false;
        for step in self.steps() {
            inside |= matches!(step, Step::Union);
            if let Step::Field(structure, field) = step {
                // Of a custom object only the metadata has a Go type.
                if structure.name().is_empty() {
                    continue;
                }
                embedding(structure, field, &mut names);
                names.push(field.name());
                owner = owner.filter(|_| inside).or(Some(structure.name()));
            }
        }
        match owner {
            Some(owner) => format!(
                "json: cannot unmarshal {value} into Go struct field {owner}.{} of type {go}",
                names.join(".")
            ),
            None => format!("json: cannot unmarshal {value} into Go value of type {go}"),
        }
    }

    /// Go type of the value here, with this schema, as Go prints it.
    pub(crate) fn go_type(&self, schema: Schema<'_>) -> String {
        let (mut frame, mut down) = (self, 0);
        while let (Step::Index(_) | Step::Key(_), Some(parent)) = (frame.step, frame.parent) {
            (frame, down) = (parent, down + 1);
        }
        let Step::Field(_, field) = frame.step else { return go_type_of(schema) };
        match field.go().and_then(|go| go_element_type(go, down)) {
            Some(go) => go.to_owned(),
            None => go_type_of(schema),
        }
    }

    fn steps(&self) -> Vec<Step<'f>> {
        let mut steps = vec![self.step];
        let mut parent = self.parent;
        while let Some(frame) = parent {
            steps.push(frame.step);
            parent = frame.parent;
        }
        steps.reverse();
        steps
    }
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&cut(MAX_PATH_BYTES, key));
}

/// Names of the inlined structs that a field comes from, outermost first.
fn embedding<'t>(structure: StructSchema<'t>, field: Field<'t>, names: &mut Vec<&'t str>) {
    if field.flags().has(FieldFlags::TYPE_META) {
        names.push("TypeMeta");
        return;
    }
    for member in structure.members() {
        let Role::Inline(id) = member.role else { continue };
        let Some(inner) = structure.other(id).as_struct() else { continue };
        if inner.position(field.name()).is_some() {
            names.push(inner.name());
            return embedding(inner, field, names);
        }
    }
}

/// Go type that follows from a schema alone.
fn go_type_of(schema: Schema<'_>) -> String {
    let name = match schema.ty() {
        Type::Struct(_) => match schema.as_struct() {
            Some(s) if !s.name().is_empty() => return format!("{}.{}", s.package(), s.name()),
            _ => "map[string]interface {}",
        },
        Type::List { item, .. } => return format!("[]{}", go_type_of(schema.other(*item))),
        Type::Map { value, .. } => {
            return format!("map[string]{}", go_type_of(schema.other(*value)));
        }
        Type::Scalar(scalar) => match scalar {
            Scalar::String => "string",
            Scalar::Bool => "bool",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Double => "float64",
            Scalar::Bytes => "[]uint8",
            Scalar::Time => "v1.Time",
            Scalar::MicroTime => "v1.MicroTime",
            Scalar::Duration => "v1.Duration",
            Scalar::Quantity => "resource.Quantity",
            Scalar::IntOrString => "intstr.IntOrString",
            Scalar::Raw => "runtime.RawExtension",
            Scalar::Json => "v1.JSON",
            Scalar::FieldsV1 => "v1.FieldsV1",
            Scalar::Number | Scalar::Integer => "interface {}",
        },
        Type::Union { .. } | Type::Any => "interface {}",
    };
    name.to_owned()
}
