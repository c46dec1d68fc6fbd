//! Table columns of custom objects (`additionalPrinterColumns`; upstream: tableconvertor).

use std::borrow::Cow;

use kevel_api::time::{MicroTime, Time};
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_registry::columns::{Column, Columns, ScaleColumns, since};

use crate::definition::Version;
use kevel_api::json_path::JsonPath;

/// Table columns of a version.
#[derive(Debug)]
pub struct CustomColumns {
    definitions: Vec<Column>,
    /// JSON paths of the cells after the name.
    paths: Vec<JsonPath>,
}

impl CustomColumns {
    /// Columns that a version declares, or name and age.
    pub fn new(version: Version<'_>) -> Self {
        let mut columns = CustomColumns { definitions: vec![Column::NAME], paths: Vec::new() };
        if version.columns().is_empty() {
            columns.definitions.push(AGE);
            columns.paths.extend(JsonPath::parse(".metadata.creationTimestamp"));
        }
        // Columns after an invalid one are left out, as in the reference.
        let _ = version.columns().iter().try_for_each(|column| columns.add(column));
        columns
    }

    fn add(&mut self, column: &Value) -> Result<(), String> {
        let path = column.str_at(&["jsonPath"]);
        let parsed = JsonPath::parse(path)?;
        let description = match column.str_at(&["description"]) {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        let priority = column.at(&["priority"]).and_then(Value::as_int).unwrap_or(0);
        let owned = |text: &str| Cow::Owned(text.to_owned());
        self.paths.push(parsed);
        self.definitions.push(Column {
            name: owned(column.str_at(&["name"])),
            ty: owned(column.str_at(&["type"])),
            format: owned(column.str_at(&["format"])),
            description: Cow::Owned(description),
            priority: i32::try_from(priority).unwrap_or(0),
        });
        Ok(())
    }
}

/// Table columns of the `scale` subresource.
#[derive(Clone, Copy, Debug)]
pub struct CustomScaleColumns;

impl Columns for CustomScaleColumns {
    fn definitions(&self) -> &[Column] {
        const DEFINITIONS: &[Column] = &[
            Column::NAME,
            Column::integer("Desired", "Number of desired replicas"),
            Column::integer("Available", "Number of actual replicas"),
            AGE,
        ];
        DEFINITIONS
    }

    fn cells(&self, object: &Value, now: MicroTime) -> Vec<Value> {
        ScaleColumns.cells(object, now)
    }
}

/// Column of a version that declares none.
const AGE: Column = Column::typed("date", "Age", "meta.v1.ObjectMeta#creationTimestamp");

impl Columns for CustomColumns {
    fn definitions(&self) -> &[Column] {
        &self.definitions
    }

    fn cells(&self, object: &Value, now: MicroTime) -> Vec<Value> {
        let name = Value::from(object.str_at(&["metadata", "name"]));
        let columns = self.definitions.iter().skip(1).zip(&self.paths);
        let cells = columns.map(|(column, path)| {
            let found = path.find(object).and_then(|found| found.first().copied());
            found.map_or(Value::Null, |value| cell(&column.ty, value, now))
        });
        std::iter::once(name).chain(cells).collect()
    }

    fn per_version(&self) -> bool {
        true
    }
}

/// Value as a cell of a column; null if it does not have the column's type.
fn cell(ty: &str, value: &Value, now: MicroTime) -> Value {
    match (ty, value) {
        (_, Value::Null) if ty != "string" => Value::Null,
        ("string", Value::String(_)) => value.clone(),
        ("string", value) => Value::from(text(value).as_str()),
        ("integer", Value::Int(_)) => value.clone(),
        ("integer", Value::Float(number)) => Value::Int(*number as i64),
        ("number", Value::Int(number)) => Value::Float(*number as f64),
        ("number", Value::Float(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(moment)) => match moment.parse::<Time>() {
            _ if moment.is_empty() => Value::from("<unknown>"),
            Ok(_) => Value::from(since(moment, now).as_str()),
            Err(_) => Value::from("<invalid>"),
        },
        _ => Value::Null,
    }
}

/// Value as text: lists and maps as JSON.
fn text(value: &Value) -> String {
    let mut out = Vec::new();
    json::encode_any(value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}
