//! Objects of a manifest folder: decoded, defaulted, validated (upstream: LoadManifests, LoadPolicyManifests).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use kevel_api::builtin;
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::value::Value;
use kevel_codec::{json, yaml};
use kevel_registry::type_ref::TypeRef;
use kevel_server::endpoints::settle_changed;

use super::error::{DocumentError, ManifestFolderError};
use super::folder::{Files, ManifestDocument, read};
use super::kinds::{ManifestKind, ManifestKinds};
use super::{ManifestFolder, STATIC_SUFFIX};
use crate::predicates::GROUP;

/// Version of all objects in files.
const VERSION: &str = "v1";

/// Most lists (`kind: List`) in one another. Each is encoded again to be read; one is all that tools write.
pub(super) const MAX_LISTS: usize = 16;

/// Fields of `kind: List`.
const LIST_FIELDS: [&str; 4] = ["apiVersion", "items", "kind", "metadata"];

/// Valid objects of a folder.
#[derive(Debug)]
pub(super) struct LoadedManifests {
    /// Objects, sorted by name.
    pub objects: Vec<ManifestObject>,
    /// Hash of the files' content.
    pub hash: String,
}

/// A valid object of a file, with defaults.
#[derive(Debug)]
pub(crate) struct ManifestObject {
    pub kind: &'static str,
    pub name: String,
    pub value: Value,
}

/// Reads all files of a folder; any error refuses the folder.
pub(super) fn load(
    folder: &ManifestFolder,
    kinds: ManifestKinds,
) -> Result<LoadedManifests, ManifestFolderError> {
    let Files { documents, hash } = read(&folder.path)?;
    let mut loader = Loader { folder, kinds, seen: HashMap::new(), objects: Vec::new() };
    for ManifestDocument { file, text } in documents {
        let read = loader.document(&text, &file, 0);
        read.map_err(|error| ManifestFolderError::Document { file, error })?;
    }
    let mut objects = loader.objects;
    objects.sort_by(|one, other| one.name.cmp(&other.name));
    check_references(&objects, kinds)?;
    Ok(LoadedManifests { objects, hash })
}

/// Refuses a binding whose policy is not in the folder.
fn check_references(
    objects: &[ManifestObject],
    kinds: ManifestKinds,
) -> Result<(), ManifestFolderError> {
    let [policy, binding] = kinds else { return Ok(()) };
    let of = |kind: &'static str| objects.iter().filter(move |object| object.kind == kind);
    let policies: HashSet<&str> = of(policy.name).map(|policy| policy.name.as_str()).collect();
    for binding in of(binding.name) {
        let policy = binding.value.str_at(&["spec", "policyName"]);
        if !policies.contains(policy) {
            let (binding, policy) = (binding.name.clone(), policy.to_owned());
            return Err(ManifestFolderError::MissingPolicy { binding, policy });
        }
    }
    Ok(())
}

struct Loader<'f> {
    folder: &'f ManifestFolder,
    kinds: ManifestKinds,
    /// Files in which names were found, by kind and name.
    seen: HashMap<(&'static str, String), PathBuf>,
    objects: Vec<ManifestObject>,
}

impl Loader<'_> {
    /// Takes the objects of a document. `lists` is the number of lists that it is in.
    fn document(&mut self, text: &[u8], file: &Path, lists: usize) -> Result<(), DocumentError> {
        let said = TypedDocument::read(text)?;
        if said.kind.kind == "List" {
            return self.list(&said, file, lists);
        }
        let value = said.decode()?;
        let unsupported = || {
            let GroupVersionKind { version, kind, .. } = &said.kind;
            DocumentError::Unsupported { version: version.to_string(), kind: kind.to_string() }
        };
        if said.kind.version != VERSION {
            return Err(unsupported());
        }
        let kind = said.kind.kind.as_str();
        let single = self.kinds.iter().find(|known| known.name == kind);
        let of_list = |known: &&ManifestKind| kind.strip_suffix("List") == Some(known.name);
        let (known, values) = match (single, self.kinds.iter().find(of_list)) {
            (Some(known), _) => (known, vec![value]),
            (None, Some(known)) => (known, value.list_at(&["items"]).to_vec()),
            (None, None) => return Err(unsupported()),
        };
        let valid = values.into_iter().map(|value| self.validate(known, value));
        let valid: Vec<Value> = valid.collect::<Result<_, _>>()?;
        valid.into_iter().try_for_each(|value| self.accept(known, value, file))
    }

    /// Takes the objects of a `List`, each as a document.
    fn list(
        &mut self,
        said: &TypedDocument<'_>,
        file: &Path,
        lists: usize,
    ) -> Result<(), DocumentError> {
        if lists == MAX_LISTS {
            return Err(DocumentError::TooDeep);
        }
        let list = json::decode_any(&said.json, json::Unknown::Report);
        let list = list.map_err(DocumentError::Json)?;
        let mut problems = said.duplicates.clone();
        problems.extend(list.strict.iter().map(ToString::to_string));
        let fields = list.value.as_map().into_iter().flat_map(|map| map.iter());
        let unknown = fields.filter(|(field, _)| !LIST_FIELDS.contains(field));
        problems.extend(unknown.map(|(field, _)| format!("unknown field \"{field}\"")));
        if !problems.is_empty() {
            return Err(DocumentError::Strict(problems));
        }
        for item in list.value.list_at(&["items"]) {
            let mut text = Vec::new();
            json::encode_any(item, &mut text);
            self.document(&text, file, lists + 1).map_err(|error| {
                match error.is_of_decoding() {
                    true => DocumentError::ListItem(Box::new(error)),
                    false => error,
                }
            })?;
        }
        Ok(())
    }

    /// Object with defaults, if the rules of its kind accept it.
    fn validate(&self, kind: &ManifestKind, value: Value) -> Result<Value, DocumentError> {
        let whole = GroupVersionKind::new(GROUP, VERSION, kind.name);
        let value = match builtin::schema(GROUP, VERSION, kind.name) {
            Some(schema) => {
                let ty = TypeRef::BuiltIn(schema);
                let settled = settle_changed(value, &whole, &ty, &self.folder.metrics.clock);
                settled.map_err(DocumentError::Defaults)?
            }
            None => value,
        };
        let errors = (self.folder.validate)(kind.name, &value);
        if errors.is_empty() {
            return Ok(value);
        }
        let name = value.str_at(&["metadata", "name"]).to_owned();
        Err(DocumentError::Invalid { kind: kind.name, name, errors })
    }

    /// Takes a valid object if its name and the constraints on objects in files permit it.
    fn accept(
        &mut self,
        kind: &ManifestKind,
        value: Value,
        file: &Path,
    ) -> Result<(), DocumentError> {
        let name = value.str_at(&["metadata", "name"]).to_owned();
        let owned = || file.to_owned();
        if name.is_empty() {
            return Err(DocumentError::Nameless { file: owned() });
        }
        if !name.ends_with(STATIC_SUFFIX) {
            return Err(DocumentError::Suffix { file: owned(), name });
        }
        let place = (kind.name, name.clone());
        if let Some(before) = self.seen.get(&place) {
            let before = before.clone();
            return Err(DocumentError::Duplicate { name, file: owned(), before });
        }
        self.seen.insert(place, owned());
        (kind.check)(kind.name, &name, file, &value)?;
        self.objects.push(ManifestObject { kind: kind.name, name, value });
        Ok(())
    }
}

impl DocumentError {
    /// Whether the object could not even be decoded.
    fn is_of_decoding(&self) -> bool {
        use DocumentError::*;
        matches!(
            self,
            Yaml(_)
                | Json(_)
                | TypeMeta(_)
                | MissingKind(_)
                | MissingVersion(_)
                | GroupVersion(_)
                | NotRegistered(_)
                | Strict(_)
        )
    }
}

/// A document as JSON, and the kind that it names.
struct TypedDocument<'t> {
    json: Cow<'t, [u8]>,
    /// Duplicate keys of YAML.
    duplicates: Vec<String>,
    kind: GroupVersionKind,
}

impl<'t> TypedDocument<'t> {
    fn read(text: &'t [u8]) -> Result<Self, DocumentError> {
        let (json, duplicates) = match text.first() {
            Some(b'{') => (Cow::Borrowed(text), Vec::new()),
            _ => {
                let json = yaml::to_json(text).map_err(DocumentError::Yaml)?;
                (Cow::Owned(json.text), json.duplicates.into_iter().collect())
            }
        };
        let meta = json::type_meta(&json).map_err(DocumentError::TypeMeta)?;
        let version = meta.api_version.parse::<GroupVersion>();
        let version = version.map_err(DocumentError::GroupVersion)?;
        let shown = || String::from_utf8_lossy(text).into_owned();
        if meta.kind.is_empty() {
            return Err(DocumentError::MissingKind(shown()));
        }
        if version.version.is_empty() {
            return Err(DocumentError::MissingVersion(shown()));
        }
        Ok(TypedDocument { json, duplicates, kind: version.with_kind(meta.kind.as_str()) })
    }

    /// The object, strictly decoded by the type of its kind.
    fn decode(&self) -> Result<Value, DocumentError> {
        let GroupVersionKind { group, version, kind } = &self.kind;
        let schema = builtin::schema(group, version, kind).filter(|_| group == GROUP);
        let Some(schema) = schema else {
            return Err(DocumentError::NotRegistered(self.kind.clone()));
        };
        let decoded = json::decode(&self.json, schema, json::Unknown::Report);
        let decoded = decoded.map_err(DocumentError::Json)?;
        let mut problems = self.duplicates.clone();
        problems.extend(decoded.strict.iter().map(ToString::to_string));
        match problems.is_empty() {
            true => Ok(decoded.value),
            false => Err(DocumentError::Strict(problems)),
        }
    }
}
