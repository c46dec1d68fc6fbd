//! Definition in the form that the reference validates: the parts that all versions share stand beside the versions, as
//! in the internal type.

use std::collections::HashMap;

use kevel_api::value::Value;

use crate::schema::props::Props;

/// A definition with its embedded JSON documents decoded.
#[derive(Debug)]
pub(crate) struct Definition<'d> {
    pub crd: &'d Value,
    pub spec: Props<'d>,
    pub versions: Vec<Version<'d>>,
    /// Parts that are the same in every version.
    pub common: VersionParts<'d>,
    /// Index of the first version of each name.
    by_name: HashMap<&'d str, usize>,
}

/// A version, without the shared parts.
#[derive(Debug)]
pub(crate) struct Version<'d> {
    pub name: &'d str,
    pub fields: Props<'d>,
    pub parts: VersionParts<'d>,
}

/// Parts of a version, or shared parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VersionParts<'d> {
    pub schema: Option<&'d Value>,
    pub subresources: Option<&'d Value>,
    pub columns: Option<&'d Value>,
    pub selectable_fields: Option<&'d Value>,
}

static NOTHING: Value = Value::Null;

impl<'d> Definition<'d> {
    pub fn new(crd: &'d Value) -> Self {
        let spec = Props::new(crd.at(&["spec"]).unwrap_or(&NOTHING));
        let versions = || spec.schemas("versions");
        let mut common = VersionParts::default();
        let is_common = |name: &str, common: &mut Option<&'d Value>| {
            let filled = |version: Props<'d>| {
                version
                    .get(name)
                    .filter(|value| !matches!(value, Value::List(list) if list.is_empty()))
            };
            let first = versions().next().and_then(filled);
            let same = versions().all(|version| filled(version) == first);
            *common = first.filter(|_| same);
            same
        };
        let schema = is_common("schema", &mut common.schema);
        let subresources = is_common("subresources", &mut common.subresources);
        let columns = is_common("additionalPrinterColumns", &mut common.columns);
        let selectable = is_common("selectableFields", &mut common.selectable_fields);
        let versions: Vec<Version<'d>> = versions()
            .map(|fields| {
                let own = |name, is_common: bool| fields.get(name).filter(|_| !is_common);
                let parts = VersionParts {
                    schema: own("schema", schema),
                    subresources: own("subresources", subresources),
                    columns: own("additionalPrinterColumns", columns),
                    selectable_fields: own("selectableFields", selectable),
                };
                Version { name: fields.text("name"), fields, parts }
            })
            .collect();
        // In reverse, so that the first of equal names is kept.
        let names = versions.iter().enumerate().rev();
        let by_name = names.map(|(index, version)| (version.name, index)).collect();
        Definition { crd, spec, versions, common, by_name }
    }

    /// All `openAPIV3Schema`s.
    pub fn schemas(&self) -> impl Iterator<Item = Props<'d>> {
        let parts = self.versions.iter().map(|version| version.parts);
        parts.chain([self.common]).filter_map(|parts| parts.open_api())
    }

    /// Schema of a version: its own or the shared one.
    pub fn schema_of(&self, version: &str) -> Option<&'d Value> {
        if let Some(common) = self.common.schema {
            return Some(common);
        }
        self.version(version)?.parts.schema
    }

    /// First version with a name.
    pub fn version(&self, name: &str) -> Option<&Version<'d>> {
        self.versions.get(*self.by_name.get(name)?)
    }

    /// Versions as messages print them: without the shared parts.
    pub fn shown_versions(&self) -> Vec<Value> {
        let strip = |version: &Version<'d>| {
            let fields = version.fields.fields().filter(|(name, _)| {
                let VersionParts { schema, subresources, columns, selectable_fields } =
                    version.parts;
                match *name {
                    "schema" => schema.is_some(),
                    "subresources" => subresources.is_some(),
                    "additionalPrinterColumns" => columns.is_some(),
                    "selectableFields" => selectable_fields.is_some(),
                    _ => true,
                }
            });
            Value::Map(fields.map(|(name, value)| (name, value.clone())).collect())
        };
        self.versions.iter().map(strip).collect()
    }

    pub fn preserves_unknown_fields(&self) -> bool {
        self.spec.flag("preserveUnknownFields")
    }

    /// Whether a condition is True.
    pub fn is_condition_true(&self, kind: &str) -> bool {
        let conditions = self.crd.at(&["status", "conditions"]).and_then(Value::as_list);
        conditions.unwrap_or_default().iter().any(|condition| {
            condition.str_at(&["type"]) == kind && condition.str_at(&["status"]) == "True"
        })
    }
}

impl<'d> VersionParts<'d> {
    pub fn open_api(self) -> Option<Props<'d>> {
        self.schema?.at(&["openAPIV3Schema"]).map(Props::new)
    }

    pub fn has_status(self) -> bool {
        self.subresources.is_some_and(|subresources| subresources.at(&["status"]).is_some())
    }
}
