//! Types of kinds, from the server's OpenAPI documents.

use kevel_api::gvk::GroupVersionKind;
use kevel_api::value::{Map, Value};
use kevel_cel::DeclType;
use kevel_controller_runtime::Client;

const REFERENCE: &str = "#/components/schemas/";

/// Type of the objects of a kind, if it is known and not recursive.
pub(super) async fn declared_type(client: &Client, kind: &GroupVersionKind) -> Option<DeclType> {
    let GroupVersionKind { group, version, .. } = kind;
    let path = if group.is_empty() {
        format!("/openapi/v3/api/{version}")
    } else {
        format!("/openapi/v3/apis/{group}/{version}")
    };
    let document = client.get(&path).await.ok()?;
    let schemas = document.at(&["components", "schemas"])?.as_map()?;
    let (name, schema) = schemas.iter().find(|(_, schema)| is_of(schema, kind))?;
    let schema = Schemas(schemas).inlined(schema, &mut vec![name])?;
    // The schema has the fields of every resource already.
    DeclType::from_json_schema(&kind.kind, &schema, false)
}

fn is_of(schema: &Value, kind: &GroupVersionKind) -> bool {
    kevel_compute::charge(1);
    schema.list_at(&["x-kubernetes-group-version-kind"]).iter().any(|found| {
        found.str_at(&["group"]) == &*kind.group
            && found.str_at(&["version"]) == &*kind.version
            && found.str_at(&["kind"]) == &*kind.kind
    })
}

/// Schemas of a document, by name.
struct Schemas<'a>(&'a Map);

impl<'a> Schemas<'a> {
    /// A schema without references; `None` if one leads back to a schema that it is in.
    fn inlined(&self, schema: &'a Value, within: &mut Vec<&'a str>) -> Option<Value> {
        kevel_compute::charge(1);
        if let Some(reference) = schema.at(&["$ref"]).and_then(Value::as_str) {
            let name = reference.strip_prefix(REFERENCE)?;
            if within.contains(&name) {
                return None;
            }
            within.push(name);
            let found = self.inlined(self.0.get(name)?, within);
            within.pop();
            return found;
        }
        let mut out = match schema.list_at(&["allOf"]) {
            [one] => self.inlined(one, within)?,
            _ => Value::Map(Map::new()),
        };
        let fields = out.make_map(&[]);
        for (field, value) in schema.as_map()?.iter().filter(|(field, _)| *field != "allOf") {
            let value = match (field, value) {
                ("properties", Value::Map(properties)) => {
                    let mut inlined = Map::new();
                    for (name, property) in properties.iter() {
                        inlined.insert(name, self.inlined(property, within)?);
                    }
                    inlined.into()
                }
                ("items" | "additionalProperties", value @ Value::Map(_)) => {
                    self.inlined(value, within)?
                }
                (_, value) => value.clone(),
            };
            fields.insert(field, value);
        }
        if schema.str_at(&["format"]) == "int-or-string" {
            fields.insert("x-kubernetes-int-or-string", true.into());
        }
        Some(out)
    }
}
