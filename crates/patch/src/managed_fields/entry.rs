//! `metadata.managedFields`: the entries of managers, decoded and encoded.

use std::collections::BTreeMap;
use std::fmt;

use compact_str::CompactString;
use kevel_api::json_string::write_json_string;
use kevel_api::quote::{Quoted, quote};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};

use super::set::Set;
use crate::go_format::Plain;

/// Operation of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Identity of a manager. An applier is the same in all versions, an updater only within one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// Operation by which the fields are owned.
    pub operation: Operation,
    /// Name of the field manager.
    pub manager: CompactString,
    /// API version; empty for an applier.
    pub api_version: CompactString,
    /// Subresource that was written; empty for the object itself.
    pub subresource: CompactString,
}

impl ManagerId {
    pub(super) fn new(
        manager: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
    ) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        ManagerId {
            operation,
            manager: manager.into(),
            api_version: api_version.into(),
            subresource: subresource.into(),
        }
    }

    /// JSON text by which the reference sorts managers.
    pub(super) fn identifier(&self) -> Vec<u8> {
        let members = [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.name()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        let mut out = b"{".to_vec();
        for (key, value) in members.into_iter().filter(|(_, value)| !value.is_empty()) {
            if out.len() > 1 {
                out.push(b',');
            }
            write_json_string(&mut out, key);
            out.push(b':');
            write_json_string(&mut out, value);
        }
        out.push(b'}');
        out
    }
}

/// Prints as in conflicts: `"kubectl" with subresource "status" using v1`.
impl fmt::Display for ManagerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quoted(&self.manager).fmt(f)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", Quoted(&self.subresource))?;
        }
        match self.operation {
            Operation::Update => write!(f, " using {}", self.api_version),
            Operation::Apply => Ok(()),
        }
    }
}

/// Fields that a manager owns, in the version in which it wrote last.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) set: Set,
    pub(super) api_version: CompactString,
    pub(super) time: Option<CompactString>,
}

impl Owned {
    pub(super) fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|time| time.parse::<Time>().ok());
        time.map_or(0, |time| time.seconds)
    }
}

/// Managers of an object, with their fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Managed(pub(super) BTreeMap<ManagerId, Owned>);

/// Error of decoding `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

/// Checks an object's `managedFields`, as admission does after webhooks changed them.
pub fn check(object: &Value) -> Result<(), DecodeError> {
    Managed::decode(managed_fields(object)).map(|_| ())
}

/// `managedFields` of an object, if it has any.
pub(super) fn managed_fields(object: &Value) -> Option<&[Value]> {
    object.at(&["metadata", "managedFields"])?.as_list()
}

/// Whether a client asks to drop all managers: with an empty list or one empty entry.
pub(super) fn is_reset(entries: Option<&[Value]>) -> bool {
    match entries {
        Some([]) => true,
        Some([only]) => only.as_map().is_some_and(Map::is_empty),
        _ => false,
    }
}

impl Managed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn decode(entries: Option<&[Value]>) -> Result<Managed, DecodeError> {
        let error = |message: String| Err::<Managed, _>(DecodeError(message));
        let mut managers = BTreeMap::new();
        for (i, entry) in entries.unwrap_or_default().iter().enumerate() {
            let operation = match entry.str_at(&["operation"]) {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return error("operation must be `Apply` or `Update`".into()),
            };
            let api_version = entry.str_at(&["apiVersion"]);
            if api_version.is_empty() {
                return error("apiVersion must not be empty".into());
            }
            match entry.str_at(&["fieldsType"]) {
                "FieldsV1" => {}
                "" => return error(format!("missing fieldsType in managed fields entry {i}")),
                other => {
                    let other = quote(other);
                    return error(format!(
                        "invalid fieldsType {other} in managed fields entry {i}"
                    ));
                }
            }
            let set = match entry.at(&["fieldsV1"]) {
                Some(Value::Raw(text)) => Set::from_fields(text),
                Some(tree) => Set::from_tree(tree),
                None => Ok(Set::new()),
            };
            let set = set.map_err(|reason| {
                let entry = Plain(entry);
                DecodeError(format!(
                    "error decoding versioned set from {entry}: error decoding set: {reason}"
                ))
            })?;
            let (manager, subresource) =
                (entry.str_at(&["manager"]), entry.str_at(&["subresource"]));
            let id = ManagerId::new(manager, operation, api_version, subresource);
            let time = entry.at(&["time"]).and_then(Value::as_str).map(CompactString::new);
            managers.insert(id, Owned { set, api_version: api_version.into(), time });
        }
        Ok(Managed(managers))
    }

    /// Encodes the entries: appliers before updaters, then older before newer.
    pub(super) fn encode(&self) -> Option<Value> {
        if self.is_empty() {
            return None;
        }
        let mut entries: Vec<_> = self.0.iter().collect();
        entries.sort_by_cached_key(|(id, owned)| {
            let names = (id.manager.clone(), owned.api_version.clone(), id.subresource.clone());
            (id.operation, owned.seconds(), names)
        });
        let entry = |(id, owned): (&ManagerId, &Owned)| {
            entry(id, &owned.api_version, owned.set.to_fields(), owned.time.clone())
        };
        Some(Value::List(entries.into_iter().map(entry).collect()))
    }
}

/// Entry of a manager that owns `fields`, in FieldsV1 form.
pub(super) fn entry(
    id: &ManagerId,
    api_version: &str,
    fields: String,
    time: Option<CompactString>,
) -> Value {
    let text = |text: &CompactString| Value::String(text.clone());
    let members = [
        ("apiVersion", Some(Value::from(api_version))),
        ("fieldsType", Some(Value::from("FieldsV1"))),
        ("fieldsV1", Some(Value::Raw(fields.into()))),
        ("manager", Some(text(&id.manager)).filter(|manager| !manager.is_empty())),
        ("operation", Some(Value::from(id.operation.name()))),
        ("subresource", Some(text(&id.subresource)).filter(|name| !name.is_empty())),
        ("time", time.map(Value::String)),
    ];
    members.into_iter().filter_map(|(key, value)| Some((key, value?))).collect::<Map>().into()
}
