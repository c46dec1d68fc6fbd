//! CEL environments: the variables and types that expressions of webhooks and policies may use.

use std::sync::LazyLock;

use kevel_cel::{DeclType, Environment, Type};

pub(super) const OBJECT: &str = "object";
pub(super) const OLD_OBJECT: &str = "oldObject";
pub(super) const PARAMS: &str = "params";
pub(super) const REQUEST: &str = "request";
pub(super) const NAMESPACE: &str = "namespaceObject";
pub(super) const AUTHORIZER: &str = "authorizer";
pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";
pub(super) const VARIABLES: &str = "variables";
/// The type of [`VARIABLES`].
pub(super) const VARIABLES_TYPE: &str = "kubernetes.variables";

/// Variables and types that only some expressions have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionalVariableDeclarations {
    /// `params`, which may be null.
    pub has_params: bool,
    /// `authorizer` and `authorizer.requestResource`.
    pub has_authorizer: bool,
    /// `Object`, `Object.spec`, ..., `JSONPatch` and `jsonpatch.escapeKey`.
    pub has_patch_types: bool,
}

/// CEL environment with these declarations; `composited` adds the `variables` of a policy. Each environment is built on
/// first use.
pub(super) fn environment(
    declarations: OptionalVariableDeclarations,
    composited: bool,
) -> &'static Environment {
    static ENVIRONMENTS: [LazyLock<Environment>; 16] = [
        LazyLock::new(|| build(0)),
        LazyLock::new(|| build(1)),
        LazyLock::new(|| build(2)),
        LazyLock::new(|| build(3)),
        LazyLock::new(|| build(4)),
        LazyLock::new(|| build(5)),
        LazyLock::new(|| build(6)),
        LazyLock::new(|| build(7)),
        LazyLock::new(|| build(8)),
        LazyLock::new(|| build(9)),
        LazyLock::new(|| build(10)),
        LazyLock::new(|| build(11)),
        LazyLock::new(|| build(12)),
        LazyLock::new(|| build(13)),
        LazyLock::new(|| build(14)),
        LazyLock::new(|| build(15)),
    ];
    let OptionalVariableDeclarations { has_params, has_authorizer, has_patch_types } = declarations;
    let bits = [
        (has_params, HAS_PARAMS),
        (has_authorizer, HAS_AUTHORIZER),
        (has_patch_types, HAS_PATCH_TYPES),
        (composited, COMPOSITED),
    ];
    let index = bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum::<usize>();
    &ENVIRONMENTS[index % ENVIRONMENTS.len()]
}

const HAS_PARAMS: usize = 1;
const HAS_AUTHORIZER: usize = 2;
const HAS_PATCH_TYPES: usize = 4;
const COMPOSITED: usize = 8;

fn build(index: usize) -> Environment {
    let dynamic = || DeclType::simple(Type::Dyn);
    let object = |name: &str| DeclType::simple(Type::object(name));
    let mut builder = Environment::builder()
        .variable(OBJECT, dynamic())
        .variable(OLD_OBJECT, dynamic())
        .variable(NAMESPACE, namespace_type())
        .variable(REQUEST, request_type());
    if index & HAS_PARAMS != 0 {
        builder = builder.variable(PARAMS, dynamic());
    }
    if index & HAS_AUTHORIZER != 0 {
        builder = builder
            .variable(AUTHORIZER, object("kubernetes.authorization.Authorizer"))
            .variable(REQUEST_RESOURCE, object("kubernetes.authorization.ResourceCheck"));
    }
    if index & HAS_PATCH_TYPES != 0 {
        builder = builder.dynamic_object_types("Object").json_patch();
    }
    if index & COMPOSITED != 0 {
        builder = builder.variable(VARIABLES, DeclType::object(VARIABLES_TYPE, []));
    }
    builder.build()
}

/// CEL environment of a policy's expressions for objects and parameters of known types.
pub(super) fn typed_environment(object: &DeclType, params: Option<DeclType>) -> Environment {
    let authorizer = Type::object("kubernetes.authorization.Authorizer");
    let mut builder = Environment::builder()
        .variable(OBJECT, object.clone())
        .variable(OLD_OBJECT, object.clone())
        .variable(NAMESPACE, namespace_type())
        .variable(REQUEST, request_type())
        .variable(AUTHORIZER, DeclType::simple(authorizer))
        .variable(VARIABLES, DeclType::object(VARIABLES_TYPE, []));
    if let Some(params) = params {
        builder = builder.variable(PARAMS, params);
    }
    builder.build()
}

fn request_type() -> DeclType {
    let text = DeclType::string;
    let texts = || DeclType::list(text());
    let kind = || {
        let fields = [("group", text()), ("version", text()), ("kind", text())];
        DeclType::object("kubernetes.GroupVersionKind", fields)
    };
    let resource = || {
        let fields = [("group", text()), ("version", text()), ("resource", text())];
        DeclType::object("kubernetes.GroupVersionResource", fields)
    };
    let user = [
        ("username", text()),
        ("uid", text()),
        ("groups", texts()),
        ("extra", DeclType::map(texts())),
    ];
    DeclType::object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", DeclType::object("kubernetes.UserInfo", user)),
            ("dryRun", DeclType::simple(Type::Bool)),
            ("options", DeclType::simple(Type::Dyn)),
        ],
    )
}

fn namespace_type() -> DeclType {
    let text = DeclType::string;
    let texts = || DeclType::list(text());
    let time = || DeclType::simple(Type::Timestamp);
    let number = || DeclType::simple(Type::Int);
    let condition = [
        ("status", text()),
        ("type", text()),
        ("lastTransitionTime", time()),
        ("message", text()),
        ("reason", text()),
    ];
    let condition = DeclType::object("kubernetes.NamespaceCondition", condition);
    let metadata = [
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", DeclType::map(text())),
        ("annotations", DeclType::map(text())),
        ("UID", text()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", number()),
        ("deletionTimestamp", time()),
        ("generation", number()),
        ("resourceVersion", text()),
        ("finalizers", texts()),
    ];
    let status = [("conditions", DeclType::list(condition)), ("phase", text())];
    DeclType::object(
        "kubernetes.Namespace",
        [
            ("metadata", DeclType::object("kubernetes.NamespaceMetadata", metadata)),
            ("spec", DeclType::object("kubernetes.NamespaceSpec", [("finalizers", texts())])),
            ("status", DeclType::object("kubernetes.NamespaceStatus", status)),
        ],
    )
}
