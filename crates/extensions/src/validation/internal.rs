//! Parts of definitions as messages print them: the reference prints its internal types, with all fields, by the names
//! of their Go fields.

use kevel_api::field_error::{BadValue, MAX_VALUE_BYTES};
use kevel_api::json_string::write_json_string;
use kevel_api::value::Value;
use kevel_codec::json::encode_any;

/// Prints a list of versions.
pub(crate) fn versions(list: &[Value]) -> BadValue {
    show(&Value::List(list.iter().cloned().collect()), &Shape::List(&VERSION))
}

/// Prints a schema.
pub(crate) fn schema(schema: &Value) -> BadValue {
    show(schema, &SCHEMA)
}

/// Prints `items` of a schema.
pub(crate) fn items(items: &Value) -> BadValue {
    show(items, &ITEMS)
}

/// Prints a validation rule.
pub(crate) fn rule(rule: &Value) -> BadValue {
    show(rule, &RULE)
}

/// Go and JSON names of a schema's fields, in the order of the reference's type.
pub(crate) fn schema_fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCHEMA_FIELDS.iter().map(|(go, json, _)| (*go, *json))
}

fn show(value: &Value, shape: &Shape) -> BadValue {
    let mut out = Vec::new();
    write(Some(value), shape, &mut out);
    BadValue::Text(String::from_utf8_lossy(&out).into_owned())
}

/// Printed form of a Go type.
enum Shape {
    /// Scalar with the text of its zero value.
    Scalar(&'static str),
    Struct(&'static [Field]),
    List(&'static Shape),
    Map(&'static Shape),
    /// A schema or another value (`JSONSchemaPropsOrBool`, `JSONSchemaPropsOrArray`): the Go fields of each.
    Either {
        schema: &'static str,
        other: &'static str,
        schema_first: bool,
    },
}

/// Go name, JSON name and type.
type Field = (&'static str, &'static str, &'static Shape);

static TEXT: Shape = Shape::Scalar("\"\"");
static BOOL: Shape = Shape::Scalar("false");
static INT: Shape = Shape::Scalar("0");
static POINTER: Shape = Shape::Scalar("null");

static VERSION: Shape = Shape::Struct(&[
    ("Name", "name", &TEXT),
    ("Served", "served", &BOOL),
    ("Storage", "storage", &BOOL),
    ("Deprecated", "deprecated", &BOOL),
    ("DeprecationWarning", "deprecationWarning", &POINTER),
    ("Schema", "schema", &Shape::Struct(&[("OpenAPIV3Schema", "openAPIV3Schema", &SCHEMA)])),
    (
        "Subresources",
        "subresources",
        &Shape::Struct(&[
            ("Status", "status", &Shape::Struct(&[])),
            (
                "Scale",
                "scale",
                &Shape::Struct(&[
                    ("SpecReplicasPath", "specReplicasPath", &TEXT),
                    ("StatusReplicasPath", "statusReplicasPath", &TEXT),
                    ("LabelSelectorPath", "labelSelectorPath", &POINTER),
                ]),
            ),
        ]),
    ),
    (
        "AdditionalPrinterColumns",
        "additionalPrinterColumns",
        &Shape::List(&Shape::Struct(&[
            ("Name", "name", &TEXT),
            ("Type", "type", &TEXT),
            ("Format", "format", &TEXT),
            ("Description", "description", &TEXT),
            ("Priority", "priority", &INT),
            ("JSONPath", "jsonPath", &TEXT),
        ])),
    ),
    (
        "SelectableFields",
        "selectableFields",
        &Shape::List(&Shape::Struct(&[("JSONPath", "jsonPath", &TEXT)])),
    ),
]);

static RULE: Shape = Shape::Struct(&[
    ("Rule", "rule", &TEXT),
    ("Message", "message", &TEXT),
    ("MessageExpression", "messageExpression", &TEXT),
    ("Reason", "reason", &POINTER),
    ("FieldPath", "fieldPath", &TEXT),
    ("OptionalOldSelf", "optionalOldSelf", &POINTER),
]);

static ITEMS: Shape = Shape::Either { schema: "Schema", other: "JSONSchemas", schema_first: true };
static OR_BOOL: Shape = Shape::Either { schema: "Schema", other: "Allows", schema_first: false };
static OR_NAMES: Shape = Shape::Either { schema: "Schema", other: "Property", schema_first: true };

static SCHEMA: Shape = Shape::Struct(SCHEMA_FIELDS);

static SCHEMA_FIELDS: &[Field] = &[
    ("ID", "id", &TEXT),
    ("Schema", "$schema", &TEXT),
    ("Ref", "$ref", &POINTER),
    ("Description", "description", &TEXT),
    ("Type", "type", &TEXT),
    ("Nullable", "nullable", &BOOL),
    ("Format", "format", &TEXT),
    ("Title", "title", &TEXT),
    ("Default", "default", &POINTER),
    ("Maximum", "maximum", &POINTER),
    ("ExclusiveMaximum", "exclusiveMaximum", &BOOL),
    ("Minimum", "minimum", &POINTER),
    ("ExclusiveMinimum", "exclusiveMinimum", &BOOL),
    ("MaxLength", "maxLength", &POINTER),
    ("MinLength", "minLength", &POINTER),
    ("Pattern", "pattern", &TEXT),
    ("MaxItems", "maxItems", &POINTER),
    ("MinItems", "minItems", &POINTER),
    ("UniqueItems", "uniqueItems", &BOOL),
    ("MultipleOf", "multipleOf", &POINTER),
    ("Enum", "enum", &POINTER),
    ("MaxProperties", "maxProperties", &POINTER),
    ("MinProperties", "minProperties", &POINTER),
    ("Required", "required", &POINTER),
    ("Items", "items", &ITEMS),
    ("AllOf", "allOf", &Shape::List(&SCHEMA)),
    ("OneOf", "oneOf", &Shape::List(&SCHEMA)),
    ("AnyOf", "anyOf", &Shape::List(&SCHEMA)),
    ("Not", "not", &SCHEMA),
    ("Properties", "properties", &Shape::Map(&SCHEMA)),
    ("AdditionalProperties", "additionalProperties", &OR_BOOL),
    ("PatternProperties", "patternProperties", &Shape::Map(&SCHEMA)),
    ("Dependencies", "dependencies", &Shape::Map(&OR_NAMES)),
    ("AdditionalItems", "additionalItems", &OR_BOOL),
    ("Definitions", "definitions", &Shape::Map(&SCHEMA)),
    (
        "ExternalDocs",
        "externalDocs",
        &Shape::Struct(&[("Description", "description", &TEXT), ("URL", "url", &TEXT)]),
    ),
    ("Example", "example", &POINTER),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", &POINTER),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", &BOOL),
    ("XIntOrString", "x-kubernetes-int-or-string", &BOOL),
    ("XListMapKeys", "x-kubernetes-list-map-keys", &POINTER),
    ("XListType", "x-kubernetes-list-type", &POINTER),
    ("XMapType", "x-kubernetes-map-type", &POINTER),
    ("XValidations", "x-kubernetes-validations", &Shape::List(&RULE)),
];

fn write(value: Option<&Value>, shape: &Shape, out: &mut Vec<u8>) {
    if out.len() > MAX_VALUE_BYTES {
        return;
    }
    match (value, shape) {
        (Some(value), Shape::Scalar(_)) => encode_any(value, out),
        (None, Shape::Scalar(zero)) => out.extend_from_slice(zero.as_bytes()),
        (None, _) => out.extend_from_slice(b"null"),
        (Some(value), Shape::Struct(fields)) => {
            let fields = fields.iter().map(|(go, json, shape)| (*go, value.at(&[json]), *shape));
            object(fields, out);
        }
        (Some(value), Shape::List(shape)) => {
            out.push(b'[');
            for (i, item) in value.as_list().unwrap_or_default().iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(Some(item), shape, out);
            }
            out.push(b']');
        }
        (Some(value), Shape::Map(shape)) => {
            let entries = value.as_map().map(|map| map.iter()).into_iter().flatten();
            object(entries.map(|(key, value)| (key, Some(value), *shape)), out);
        }
        (Some(value), Shape::Either { schema, other, schema_first }) => {
            let is_schema = matches!(value, Value::Map(_));
            let first = (*schema, Some(value).filter(|_| is_schema), &SCHEMA);
            let bool_shape = if is_schema { &Shape::Scalar("true") } else { &BOOL };
            let other = match *other {
                "Allows" => (*other, Some(value).filter(|_| !is_schema), bool_shape),
                "JSONSchemas" => {
                    (*other, Some(value).filter(|_| !is_schema), &Shape::List(&SCHEMA))
                }
                _ => (*other, Some(value).filter(|_| !is_schema), &POINTER),
            };
            let pair = if *schema_first { [first, other] } else { [other, first] };
            object(pair.into_iter(), out);
        }
    }
}

fn object<'v>(
    fields: impl Iterator<Item = (&'v str, Option<&'v Value>, &'v Shape)>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (i, (name, value, shape)) in fields.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_json_string(out, name);
        out.push(b':');
        write(value, shape, out);
    }
    out.push(b'}');
}
