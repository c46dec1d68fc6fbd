//! Random requests of a seed: objects with small changes, written in one of the possible ways.

use kevel_api::builtin::{self, Resource};
use kevel_api::schema::Schema;
use serde_json::{Value, json};

use super::mutate::mutate;
use super::source::Source;
use crate::Result;
use crate::flags::ExtraFlags;
use crate::scenario::Step;

/// An object that exists before the writes, with its resource.
pub struct Base {
    object: Value,
    resource: &'static Resource,
    schema: Schema<'static>,
}

/// Kinds that are left out: their effects on a server outlast a dry run.
const LEFT_OUT: [&str; 3] = ["APIService", "CustomResourceDefinition", "Namespace"];

/// Way of writing an object.
#[derive(Clone, Copy)]
enum Form {
    Create,
    Update,
    Patch(&'static str),
    JsonPatch,
    Apply,
    Status,
}

const FORMS: [Form; 10] = [
    Form::Create,
    Form::Create,
    Form::Create,
    Form::Update,
    Form::Update,
    Form::Patch("application/merge-patch+json"),
    Form::Patch("application/strategic-merge-patch+json"),
    Form::JsonPatch,
    Form::Apply,
    Form::Status,
];

/// Objects from which writes are made.
pub fn bases(flags: &ExtraFlags) -> Result<Vec<Base>> {
    Ok(flags.objects()?.into_iter().filter_map(Base::new).collect())
}

/// Requests that create them.
pub fn preparation(bases: &[Base]) -> Vec<Step> {
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    let account = json!({"metadata": {"name": "default"}});
    let first = [
        step("POST", "/api/v1/namespaces", JSON, &namespace),
        step("POST", &format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), JSON, &account),
    ];
    let objects = bases.iter().map(|base| {
        step("POST", &format!("{}?fieldManager=base", base.collection()), JSON, &base.object)
    });
    first.into_iter().chain(objects).collect()
}

/// Requests of a seed. All are dry runs.
pub fn writes(bases: &[Base], seed: u64, count: usize) -> Vec<Step> {
    let mut source = Source::new(seed);
    let write = |_| {
        let base = source.one(bases)?;
        Some(base.write(&mut source))
    };
    (0..count).filter_map(write).collect()
}

const NAMESPACE: &str = "swap";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

impl Base {
    fn new(object: Value) -> Option<Self> {
        let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let named = |row: &&Resource| {
            (row.group, row.version, row.kind) == (group, version, kind) && !row.path.contains('/')
        };
        let resource = builtin::resources().iter().find(named)?;
        if LEFT_OUT.contains(&kind) || !resource.on || !resource.verbs.contains(&"patch") {
            return None;
        }
        let schema = builtin::schema(group, version, kind)?;
        Some(Base { object, resource, schema })
    }

    fn collection(&self) -> String {
        let Resource { group, version, path, .. } = self.resource;
        let root = match *group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        match self.object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{path}"),
            None => format!("{root}/{path}"),
        }
    }

    fn write(&self, source: &mut Source) -> Step {
        let mut object = self.object.clone();
        let form = source.one(&FORMS).copied().unwrap_or(Form::Create);
        if let Form::Create = form {
            object["metadata"]["name"] = json!(format!("{}-new", self.name()));
        }
        for _ in 0..=source.below(3) {
            mutate(&mut object, self.schema, source);
        }
        let validation = source.one(&["Strict", "Warn", "Ignore"]).copied().unwrap_or_default();
        let query = format!("dryRun=All&fieldManager=random&fieldValidation={validation}");
        let one = format!("{}/{}", self.collection(), self.name());
        match form {
            Form::Create => step("POST", &format!("{}?{query}", self.collection()), JSON, &object),
            Form::Update => step("PUT", &format!("{one}?{query}"), JSON, &object),
            Form::Patch(media) => {
                let patch = changes(&self.object, &object);
                step("PATCH", &format!("{one}?{query}"), media, &patch)
            }
            Form::JsonPatch => {
                let mut operations = Vec::new();
                replacements(&self.object, &object, "", &mut operations);
                let media = "application/json-patch+json";
                step("PATCH", &format!("{one}?{query}"), media, &operations.into())
            }
            Form::Apply => step("PATCH", &format!("{one}?{query}&force=true"), APPLY, &object),
            Form::Status => step("PUT", &format!("{one}/status?{query}"), JSON, &object),
        }
    }

    fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

fn step(method: &str, path: &str, media: &str, body: &Value) -> Step {
    Step::new(format!("{method} {path}"), json!({"type": media, "body": body.to_string()}))
}

/// Merge patch between two objects.
fn changes(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return to.clone() };
    let gone =
        old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(*value));
    let changed = changed.map(|(key, value)| match old.get(key) {
        Some(before @ Value::Object(_)) => (key.clone(), changes(before, value)),
        _ => (key.clone(), value.clone()),
    });
    gone.chain(changed).collect::<serde_json::Map<_, _>>().into()
}

/// JSON patch operations between two objects.
fn replacements(from: &Value, to: &Value, at: &str, operations: &mut Vec<Value>) {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        operations.push(json!({"op": "replace", "path": at, "value": to}));
        return;
    };
    let place = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        operations.push(json!({"op": "remove", "path": place(key)}));
    }
    for (key, value) in new.iter().filter(|(key, value)| old.get(*key) != Some(*value)) {
        match old.get(key) {
            Some(before) => replacements(before, value, &place(key), operations),
            None => operations.push(json!({"op": "add", "path": place(key), "value": value})),
        }
    }
}
