//! Conversion of a CEL value to an apply configuration or a JSON patch.

use kevel_api::quote::quote;
use kevel_api::value::{Map, Value as Tree};
use kevel_cel::{ObjectValue, Value};
use kevel_codec::base64;
use kevel_codec::json::MAX_DEPTH;
use kevel_patch::json_patch::{Operation, Patch};
use thin_vec::ThinVec;

/// Largest integer that JSON readers represent exactly; CEL writes larger integers as strings.
const MAX_JSON_INT: u64 = (1 << 53) - 1;

/// Limit on the values in a patch: as many as the decoder accepts in an object. CEL values share parts, so that a short
/// expression can expand beyond any memory.
const MAX_VALUES: usize = 400_000;

/// Limit on the bytes of text in a patch: as many as in a request.
const MAX_TEXT: usize = 3 << 20;

/// Apply configuration from an `Object{…}` value.
pub(super) fn apply_configuration(value: &Value<'_>) -> Result<Tree, String> {
    let Value::Object(object) = value else {
        let found = value.runtime_type();
        return Err(format!("unsupported return type from ApplyConfiguration expression: {found}"));
    };
    let mut reader = Reader::new(TargetFormat::Configuration);
    let tree = reader.object(object)?;
    reader.check_names()?;
    Ok(tree)
}

/// JSON patch from a list of `JSONPatch{…}` values.
pub(super) fn json_patch(value: &Value<'_>) -> Result<Patch, String> {
    let Some(list) = value.as_list() else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let mut reader = Reader::new(TargetFormat::Json);
    let operation = |element: Result<Value<'_>, kevel_cel::Error>| match element {
        Ok(Value::Object(object)) => reader.operation(&object),
        Ok(other) => Err(format!(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: found {}",
            other.runtime_type()
        )),
        Err(error) => Err(error.to_string()),
    };
    list.iter().map(operation).collect::<Result<Vec<Operation>, _>>().map(Patch::new)
}

/// Target format, which decides the form of numbers, bytes, durations and timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetFormat {
    /// Apply configuration.
    Configuration,
    /// Value of a JSON patch operation.
    Json,
}

/// Converts CEL values within the limits.
struct Reader {
    form: TargetFormat,
    values: usize,
    text: usize,
    depth: usize,
    /// Type name that an object at the current position must have.
    path: String,
    /// Errors of objects with another type name.
    misnamed: Vec<String>,
}

impl Reader {
    fn new(form: TargetFormat) -> Self {
        let (path, misnamed) = (String::new(), Vec::new());
        Reader { form, values: 0, text: 0, depth: 0, path, misnamed }
    }

    fn operation(&mut self, object: &ObjectValue<'_>) -> Result<Operation, String> {
        let mut operation = Map::from_iter([("op", Tree::from("")), ("path", Tree::from(""))]);
        for (name, value) in &object.fields {
            let tree = match &**name {
                "value" => self.patch_value(value)?,
                _ => Tree::from(value.as_str().unwrap_or_default()),
            };
            // An empty `from` is omitted.
            if &**name != "from" || !tree.is_empty() {
                operation.insert(&**name, tree);
            }
        }
        Ok(Operation::from(Tree::Map(operation)))
    }

    fn patch_value(&mut self, value: &Value<'_>) -> Result<Tree, String> {
        let tree = match value {
            Value::Object(object) => self.object(object),
            value => self.value(value),
        };
        // The reference checks type names only inside objects.
        if let Value::Object(_) = value {
            self.check_names()?;
        }
        self.misnamed.clear();
        tree.map_err(|error| {
            format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
            )
        })
    }

    /// Converts a top-level object, whose type name may be any.
    fn object(&mut self, object: &ObjectValue<'_>) -> Result<Tree, String> {
        self.path.clear();
        self.path.push_str(&object.type_name);
        self.fields(object)
    }

    /// Fails if an object in a field does not have the type name of that field.
    fn check_names(&self) -> Result<(), String> {
        match self.misnamed.is_empty() {
            true => Ok(()),
            false => Err(format!("type mismatch: {}", self.misnamed.join("\n"))),
        }
    }

    fn fields(&mut self, object: &ObjectValue<'_>) -> Result<Tree, String> {
        if *object.type_name != *self.path {
            self.misnamed.push(format!(
                "unexpected type name {}, expected {}, which matches field name path from root Object type",
                quote(&object.type_name),
                quote(&self.path)
            ));
        }
        let mut tree = Map::new();
        for (name, value) in &object.fields {
            let length = self.path.len();
            self.path.push('.');
            self.path.push_str(name);
            let value = self.value(value)?;
            self.path.truncate(length);
            tree.insert(&**name, value);
        }
        Ok(Tree::Map(tree))
    }

    fn value(&mut self, value: &Value<'_>) -> Result<Tree, String> {
        self.values += 1;
        self.depth += 1;
        if self.values > MAX_VALUES || self.depth > MAX_DEPTH {
            return Err("the patch has too many values".to_owned());
        }
        let tree = self.part(value)?;
        self.depth -= 1;
        Ok(tree)
    }

    fn part(&mut self, value: &Value<'_>) -> Result<Tree, String> {
        Ok(match value {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(*value),
            Value::Int(int)
                if self.form == TargetFormat::Json && int.unsigned_abs() > MAX_JSON_INT =>
            {
                Tree::from(&*int.to_string())
            }
            Value::Int(int) => Tree::Int(*int),
            Value::Uint(uint) => match i64::try_from(*uint) {
                Ok(int) if self.form == TargetFormat::Configuration || *uint <= MAX_JSON_INT => {
                    Tree::Int(int)
                }
                _ => Tree::from(&*uint.to_string()),
            },
            Value::Double(double) => number(*double),
            Value::String(text) => self.text(text)?,
            Value::Bytes(_) | Value::Duration(_) | Value::Timestamp(_) => self.printed(value)?,
            Value::Object(object) => self.fields(object)?,
            Value::List(list) => {
                let mut tree = ThinVec::new();
                for element in list.iter() {
                    let element = element.map_err(|error| error.to_string())?;
                    tree.push(self.value(&element)?);
                }
                Tree::List(tree)
            }
            Value::Map(map) => {
                let mut tree = Map::new();
                for (key, value) in map.entries() {
                    let Value::String(key) = &key else { return Err(self.bad_key(&key)) };
                    self.text(key)?;
                    let value = value.map_err(|error| error.to_string())?;
                    tree.insert(&**key, self.value(&value)?);
                }
                Tree::Map(tree)
            }
            Value::Optional(Some(value)) => self.value(value)?,
            Value::Optional(None) => Tree::Null,
            Value::Type(_) => return Err("type conversion not supported for 'type'".to_owned()),
            Value::Extension(_) => {
                let ty = value.runtime_type();
                return Err(format!("type conversion error from '{ty}' to '*structpb.Value'"));
            }
        })
    }

    /// Text of a value that has no JSON form: a string in a JSON patch; a raw value in an apply configuration, which
    /// the type check of the merge refuses and quotes.
    fn printed(&mut self, value: &Value<'_>) -> Result<Tree, String> {
        match (self.form, value) {
            (TargetFormat::Json, Value::Bytes(bytes)) => self.text(&base64::encode(bytes)),
            (TargetFormat::Json, Value::Duration(nanos)) => self.text(&seconds(*nanos)),
            (TargetFormat::Configuration, Value::Bytes(bytes)) => {
                let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
                Ok(Tree::Raw(format!("[]uint8{{{}}}", bytes.join(", ")).into()))
            }
            (TargetFormat::Configuration, Value::Duration(nanos)) => {
                Ok(Tree::Raw(nanos.to_string().into()))
            }
            (TargetFormat::Configuration, value) => Ok(Tree::Raw(value.to_string().into())),
            (TargetFormat::Json, value) => self.text(&value.to_string()),
        }
    }

    fn text(&mut self, text: &str) -> Result<Tree, String> {
        self.text += text.len();
        match self.text > MAX_TEXT {
            true => Err("the patch has too much text".to_owned()),
            false => Ok(Tree::from(text)),
        }
    }

    fn bad_key(&self, key: &Value<'_>) -> String {
        match self.form {
            TargetFormat::Configuration => "invalid return type: *dynamic.ObjectVal".to_owned(),
            TargetFormat::Json => {
                format!("unsupported type conversion from '{}' to string", key.runtime_type())
            }
        }
    }
}

/// JSON number; integral values are written without a fraction.
fn number(double: f64) -> Tree {
    let whole = double.trunc() == double && double.abs() <= MAX_JSON_INT as f64;
    if whole { Tree::Int(double as i64) } else { Tree::Float(double) }
}

/// Duration in the JSON form of CEL.
fn seconds(nanos: i64) -> String {
    format!("{}s", nanos as f64 / 1e9)
}
