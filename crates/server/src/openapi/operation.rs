//! OpenAPI operations by path, derived from resources.

use std::collections::BTreeMap;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::schema::{FieldFlags, Scalar, Schema};

use super::PlainDocument;
use super::component::Component;
use super::operation_id::{id_and_tag, titled};
use kevel_registry::resource::{Resource, Subresource};
use kevel_registry::type_ref::TypeRef;
use kevel_registry::verb::Verb;

/// Operations of a path, by method.
pub(super) type PathItem<'r> = BTreeMap<&'static str, Operation<'r>>;

/// An operation: one method of one path.
#[derive(Clone, Debug)]
pub(super) struct Operation<'r> {
    pub id: String,
    pub tag: String,
    /// Description, if it does not follow from the action.
    pub description: &'static str,
    /// `list`, `post`; empty for discovery documents.
    pub action: &'static str,
    pub kind: Option<&'r GroupVersionKind>,
    pub parameters: Vec<Parameter>,
    pub body: Option<Content<'r>>,
    pub body_required: bool,
    pub consumes: Vec<&'static str>,
    pub produces: Vec<&'static str>,
    pub answers: Vec<(u16, Content<'r>)>,
}

/// Content of a body.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'r> {
    Of(Component<'r>),
    Text,
}

/// A parameter of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parameter {
    pub name: String,
    pub in_path: bool,
    pub ty: &'static str,
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CBOR: &str = "application/cbor";
const CBOR_STREAM: &str = "application/cbor-seq";
const APPLY_CBOR: &str = "application/apply-patch+cbor";
const MEDIA: [&str; 4] = ["application/json", "application/yaml", PROTOBUF, CBOR];
/// Media types of discovery documents.
const DOCUMENTS: [&str; 3] = ["application/json", "application/yaml", PROTOBUF];
const STREAMS: [&str; 3] = [
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    CBOR_STREAM,
];
const PATCHES: [&str; 5] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    STRATEGIC_MERGE,
    "application/apply-patch+yaml",
    APPLY_CBOR,
];
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";
const ANYTHING: &str = "*/*";

/// A discovery document: `/apis/apps/` with `getAPIGroup`.
pub(super) fn document<'r>(path: &str, name: &str, answer: Component<'r>) -> Operation<'r> {
    let (id, tag) = id_and_tag("get", name, path);
    Operation {
        id,
        tag,
        description: "",
        action: "",
        kind: None,
        parameters: Vec::new(),
        body: None,
        body_required: false,
        consumes: DOCUMENTS.to_vec(),
        produces: DOCUMENTS.to_vec(),
        answers: vec![(200, Content::Of(answer))],
    }
}

/// A document outside the API groups.
pub(super) fn plain<'r>(about: &PlainDocument) -> Operation<'r> {
    let (id, tag) = id_and_tag("get", about.operation, about.path);
    Operation {
        id,
        tag,
        description: about.description,
        action: "",
        kind: None,
        parameters: Vec::new(),
        body: None,
        body_required: false,
        consumes: Vec::new(),
        produces: vec![about.media],
        answers: vec![(200, Content::Text)],
    }
}

/// Adds the paths of a resource and its subresources.
pub(super) fn add<'r>(resource: &'r Resource, paths: &mut BTreeMap<String, PathItem<'r>>) {
    let root = match resource.kind.group.as_str() {
        "" => format!("/api/{}", resource.kind.version),
        group => format!("/apis/{group}/{}", resource.kind.version),
    };
    Routes { resource, root, paths }.add();
}

struct Routes<'r, 'p> {
    resource: &'r Resource,
    root: String,
    paths: &'p mut BTreeMap<String, PathItem<'r>>,
}

/// Operation of a verb: its name, method and parameters.
struct VerbOperation {
    verb: Verb,
    /// Prefix of the operation's name.
    prefix: &'static str,
    action: &'static str,
    method: &'static str,
    /// Kinds whose fields are its parameters, and its response codes, for built-in resources.
    routes: (&'static [&'static str], &'static [u16]),
    /// Kinds and response codes for custom resources.
    definition: (&'static [&'static str], &'static [u16]),
}

const VERBS: [VerbOperation; 7] = [
    VerbOperation {
        verb: Verb::Get,
        prefix: "read",
        action: "get",
        method: "get",
        routes: (&[], &[200]),
        definition: (&["GetOptions"], &[200]),
    },
    VerbOperation {
        verb: Verb::List,
        prefix: "list",
        action: "list",
        method: "get",
        routes: (&["ListOptions"], &[200]),
        definition: (&["ListOptions"], &[200]),
    },
    VerbOperation {
        verb: Verb::Create,
        prefix: "create",
        action: "post",
        method: "post",
        routes: (&["CreateOptions"], &[200, 201, 202]),
        definition: (&["CreateOptions"], &[200, 201, 202]),
    },
    VerbOperation {
        verb: Verb::Update,
        prefix: "replace",
        action: "put",
        method: "put",
        routes: (&["UpdateOptions"], &[200, 201]),
        definition: (&["UpdateOptions"], &[200, 201]),
    },
    VerbOperation {
        verb: Verb::Patch,
        prefix: "patch",
        action: "patch",
        method: "patch",
        routes: (&["PatchOptions"], &[200, 201]),
        definition: (&["PatchOptions"], &[200]),
    },
    VerbOperation {
        verb: Verb::Delete,
        prefix: "delete",
        action: "delete",
        method: "delete",
        routes: (&["DeleteOptions"], &[200, 202]),
        definition: (&["DeleteOptions"], &[200, 202]),
    },
    VerbOperation {
        verb: Verb::DeleteCollection,
        prefix: "deletecollection",
        action: "deletecollection",
        method: "delete",
        routes: (&["DeleteOptions", "ListOptions"], &[200]),
        definition: (&["ListOptions"], &[200]),
    },
];

/// Parameters of lists that do not apply to deletecollection.
const WATCHING: [&str; 2] = ["watch", "allowWatchBookmarks"];

impl<'r> Routes<'r, '_> {
    fn add(mut self) {
        let resource = self.resource;
        let collection = match resource.namespaced {
            true => format!("{}/namespaces/{{namespace}}/{}", self.root, resource.plural),
            false => format!("{}/{}", self.root, resource.plural),
        };
        let item = format!("{collection}/{{name}}");
        let everywhere = format!("{}/{}", self.root, resource.plural);
        for verb in &VERBS {
            if !resource.allows(verb.verb) {
                continue;
            }
            let on_collection =
                matches!(verb.verb, Verb::List | Verb::Create | Verb::DeleteCollection);
            let path = if on_collection { &collection } else { &item };
            self.verb(verb, path, None, self.scope(), "");
            if verb.verb == Verb::List && resource.namespaced {
                self.verb(verb, &everywhere, None, "", "ForAllNamespaces");
            }
        }
        // The deprecated watch paths of custom resources are served, but not published.
        if resource.allows(Verb::Watch) && resource.allows(Verb::List) && !self.defined() {
            self.watch(&collection, self.scope(), "watchlist", "List");
            self.watch(&item, self.scope(), "watch", "");
            if resource.namespaced {
                self.watch(&everywhere, "", "watchlist", "ListForAllNamespaces");
            }
        }
        for (name, sub) in &resource.subresources {
            let path = format!("{item}/{name}");
            if sub.kind.kind.ends_with("Options") {
                self.connect(&path, name, sub);
                continue;
            }
            for verb in VERBS.iter().filter(|verb| sub.verbs.contains(&verb.verb)) {
                self.verb(verb, &path, Some((name, sub)), self.scope(), "");
            }
        }
    }

    fn scope(&self) -> &'static str {
        if self.resource.namespaced { "Namespaced" } else { "" }
    }

    /// Whether the resource is custom and published from its definition, not from routes.
    fn defined(&self) -> bool {
        self.resource.conventions.published.by_definition()
    }

    /// Published ones of these media types; custom resources do not publish CBOR.
    fn told(&self, types: &[&'static str]) -> Vec<&'static str> {
        let conventions = &self.resource.conventions;
        let cbor = conventions.cbor.0 && !self.defined();
        let told = |media: &&&str| match **media {
            PROTOBUF => conventions.protobuf,
            STRATEGIC_MERGE => conventions.strategic_merge_patch,
            CBOR | CBOR_STREAM | APPLY_CBOR => cbor,
            _ => true,
        };
        types.iter().filter(told).copied().collect()
    }

    fn media(&self) -> Vec<&'static str> {
        self.told(&MEDIA)
    }

    fn streaming(&self) -> Vec<&'static str> {
        match self.defined() {
            true => self.media(),
            false => [self.media(), self.told(&STREAMS)].concat(),
        }
    }

    fn patches(&self) -> Vec<&'static str> {
        self.told(&PATCHES)
    }

    fn verb(
        &mut self,
        verb: &VerbOperation,
        path: &str,
        sub: Option<(&str, &'r Subresource)>,
        scope: &str,
        suffix: &str,
    ) {
        let resource = self.resource;
        let parent = &resource.kind.kind;
        let title = sub.map(|(name, _)| titled(name)).unwrap_or_default();
        let name = format!("{scope}{parent}{title}{suffix}");
        let own = match sub {
            None => Component::of(resource),
            Some((_, Subresource { ty: TypeRef::BuiltIn(schema), .. })) => {
                Component::BuiltIn(*schema)
            }
            Some(_) => Component::of(resource),
        };
        let status = meta("Status").map_or(own, Component::BuiltIn);
        let mut parameters = path_parameters(path);
        parameters.push(Parameter::query("pretty", "string"));
        let defined = self.defined();
        let (options, codes) = if defined { verb.definition } else { verb.routes };
        for options in options {
            let fields = meta(options).map(option_parameters).unwrap_or_default();
            let fields = fields.into_iter().filter(|field| {
                let watching = WATCHING.contains(&field.name.as_str());
                defined || verb.verb != Verb::DeleteCollection || !watching
            });
            parameters.extend(fields);
        }
        let mut consumes = if defined { self.media() } else { vec![ANYTHING] };
        let mut produces = self.media();
        let mut answer = Content::Of(own);
        let mut body = None;
        match verb.verb {
            Verb::List => {
                produces = self.streaming();
                answer = Content::Of(Component::list_of(resource).unwrap_or(own));
            }
            Verb::Create | Verb::Update => body = Some(own),
            Verb::Patch => {
                body = Some(Component::Patch);
                consumes = self.patches();
            }
            Verb::Delete | Verb::DeleteCollection => {
                let bare = defined && verb.verb == Verb::DeleteCollection;
                body = meta("DeleteOptions").filter(|_| !bare).map(Component::BuiltIn);
                let whole = verb.verb == Verb::Delete && resource.strategy.returns_deleted_object();
                answer = Content::Of(if whole { own } else { status });
            }
            _ => {}
        }
        if let Some((sub, _)) = sub
            && let Some(options) = text_options(&resource.kind, sub)
        {
            parameters.extend(option_parameters(options));
            produces.insert(0, "text/plain");
            answer = Content::Text;
        }
        self.insert(path, verb.method, verb.prefix, &name, |operation| Operation {
            action: verb.action,
            kind: Some(match sub {
                Some((_, sub)) if !defined => &sub.kind,
                _ => &resource.kind,
            }),
            parameters,
            body: body.map(Content::Of),
            body_required: !matches!(verb.verb, Verb::Delete | Verb::DeleteCollection),
            consumes,
            produces,
            answers: codes.iter().map(|code| (*code, answer)).collect(),
            ..operation
        });
    }

    /// Adds the deprecated watch paths.
    fn watch(&mut self, path: &str, scope: &str, action: &'static str, suffix: &str) {
        let rest = path.strip_prefix(&self.root).unwrap_or(path);
        let path = format!("{}/watch{rest}", self.root);
        let name = format!("{scope}{}{suffix}", self.resource.kind.kind);
        let mut parameters = path_parameters(&path);
        parameters.push(Parameter::query("pretty", "string"));
        parameters.extend(meta("ListOptions").map(option_parameters).unwrap_or_default());
        let event =
            meta("WatchEvent").map_or(Content::Text, |s| Content::Of(Component::BuiltIn(s)));
        let produces = self.streaming();
        let kind = &self.resource.kind;
        self.insert(&path, "get", "watch", &name, |operation| Operation {
            action,
            kind: Some(kind),
            parameters,
            consumes: vec![ANYTHING],
            produces,
            answers: vec![(200, event)],
            ..operation
        });
    }

    /// Adds a connect subresource: all its methods, with its options as parameters.
    fn connect(&mut self, path: &str, name: &str, sub: &'r Subresource) {
        let proxy = sub.verbs.contains(&Verb::Update);
        let methods: &[&str] = if proxy { &CONNECT_METHODS } else { &CONNECT_METHODS[..2] };
        let forms = [(path.to_owned(), ""), (format!("{path}/{{path}}"), "WithPath")];
        for (path, suffix) in forms.iter().take(if proxy { 2 } else { 1 }) {
            for method in methods {
                let title = titled(name);
                let kind = &self.resource.kind.kind;
                let name = format!("{}{}{kind}{title}{suffix}", titled(method), self.scope());
                let mut parameters = path_parameters(path);
                parameters.extend(option_parameters(sub.ty.schema()));
                self.insert(path, method, "connect", &name, |operation| Operation {
                    action: "connect",
                    kind: Some(&sub.kind),
                    parameters,
                    consumes: vec![ANYTHING],
                    produces: vec![ANYTHING],
                    answers: vec![(200, Content::Text)],
                    ..operation
                });
            }
        }
    }

    fn insert(
        &mut self,
        path: &str,
        method: &str,
        prefix: &str,
        name: &str,
        complete: impl FnOnce(Operation<'r>) -> Operation<'r>,
    ) {
        let (id, tag) = id_and_tag(prefix, name, path);
        let mut operation = complete(Operation {
            id,
            tag,
            description: "",
            action: "",
            kind: None,
            parameters: Vec::new(),
            body: None,
            body_required: false,
            consumes: Vec::new(),
            produces: Vec::new(),
            answers: Vec::new(),
        });
        // Of two with one name, the path parameter comes first.
        let place = |of: &Parameter| (of.name.clone(), !of.in_path, of.ty);
        operation.parameters.sort_by_cached_key(place);
        operation.parameters.dedup();
        let known = METHODS.iter().find(|known| **known == method);
        let item = self.paths.entry(path.to_owned()).or_default();
        item.insert(known.unwrap_or(&"get"), operation);
    }
}

const METHODS: [&str; 7] = ["delete", "get", "head", "options", "patch", "post", "put"];
const CONNECT_METHODS: [&str; 7] = ["get", "post", "put", "delete", "head", "options", "patch"];

/// Options of a subresource that returns text.
fn text_options(parent: &GroupVersionKind, sub: &str) -> Option<Schema<'static>> {
    let options = TEXTS.iter().find(|(kind, name, _)| parent.kind == kind && *name == sub)?;
    builtin::schema(&parent.group, &parent.version, options.2)
}

const TEXTS: [(&str, &str, &str); 1] = [("Pod", "log", "PodLogOptions")];

fn meta(kind: &str) -> Option<Schema<'static>> {
    builtin::schema("", "v1", kind)
}

impl Parameter {
    fn query(name: &str, ty: &'static str) -> Self {
        Parameter { name: name.to_owned(), in_path: false, ty }
    }
}

fn path_parameters(path: &str) -> Vec<Parameter> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| Parameter { name: name.to_owned(), in_path: true, ty: "string" }).collect()
}

/// Fields of options as parameters: scalars and lists of scalars.
fn option_parameters(options: Schema<'_>) -> Vec<Parameter> {
    let fields = options.as_struct().into_iter().flat_map(|options| options.fields());
    let fields = fields.filter(|field| !field.flags().has(FieldFlags::TYPE_META));
    fields
        .filter_map(|field| {
            let schema = field.schema();
            let ty = match schema.item().unwrap_or(schema).scalar()? {
                Scalar::String => "string",
                Scalar::Bool => "boolean",
                Scalar::Int32 | Scalar::Int64 => "integer",
                _ => return None,
            };
            Some(Parameter::query(field.name(), ty))
        })
        .collect()
}

/// Parameters common to all operations of a path.
pub(super) fn shared(item: &PathItem<'_>) -> Vec<Parameter> {
    let mut operations = item.values();
    let mut shared = operations.next().map(|first| first.parameters.clone()).unwrap_or_default();
    for operation in operations {
        shared.retain(|parameter| operation.parameters.contains(parameter));
    }
    shared
}
