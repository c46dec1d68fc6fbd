//! Authorizer library: `authorizer.group('apps').resource('deployments').check('create')`.

use std::fmt;
use std::sync::Arc;

use kevel_api::name;

use super::{Extension, Row, ordered, row};
use crate::error::Error;
use crate::value::Value;

/// Authorizer behind `authorizer` in expressions. A check that returns `None` ends the evaluation (see
/// [`Error::is_cancelled`]), which can be repeated once the decision is known.
pub trait Authorizer: Send + Sync {
    /// Whether a user may access a path. The user is that of the request, or a service account given by namespace and
    /// name.
    fn authorize_path(
        &self,
        service_account: Option<(&str, &str)>,
        path: &str,
        verb: &str,
    ) -> Option<Decision>;

    /// Whether a user may access a resource.
    fn authorize_resource(
        &self,
        service_account: Option<(&str, &str)>,
        check: &ResourceCheck,
        verb: &str,
    ) -> Option<Decision>;
}

/// Decision of an authorization check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether access is allowed.
    pub allowed: bool,
    /// Reason that the authorizer gave.
    pub reason: String,
    /// Error of the authorizer.
    pub error: Option<String>,
}

/// Resource of an authorization check; empty fields are not given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceCheck {
    /// API group.
    pub group: String,
    /// Plural of the resource.
    pub resource: String,
    /// Subresource; empty for none.
    pub subresource: String,
    /// Namespace; empty for the whole cluster.
    pub namespace: String,
    /// Name of the object; empty for all.
    pub name: String,
    /// Field selector, as in a query.
    pub field_selector: String,
    /// Label selector, as in a query.
    pub label_selector: String,
}

/// Authorizer with the user that it is asked about.
#[derive(Clone)]
pub struct AuthorizerValue<'a> {
    authorizer: &'a dyn Authorizer,
    service_account: Option<Arc<(String, String)>>,
}

impl fmt::Debug for AuthorizerValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthorizerValue({:?})", self.service_account)
    }
}

/// Authorization check under construction.
#[derive(Clone, Debug)]
pub struct CheckValue<'a> {
    authorizer: AuthorizerValue<'a>,
    path: Arc<str>,
    resource: Arc<ResourceCheck>,
}

/// Result of `check`.
pub type DecisionValue = Decision;

impl<'a> Value<'a> {
    /// Value of the variable `authorizer`.
    pub fn authorizer(authorizer: &'a dyn Authorizer) -> Self {
        let authorizer = AuthorizerValue { authorizer, service_account: None };
        Value::Extension(Extension::Authorizer(authorizer))
    }

    /// Value of the variable `authorizer.requestResource`.
    pub fn resource_check(authorizer: &'a dyn Authorizer, resource: ResourceCheck) -> Self {
        let authorizer = AuthorizerValue { authorizer, service_account: None };
        Value::Extension(Extension::ResourceCheck(CheckValue {
            authorizer,
            path: "".into(),
            resource: resource.into(),
        }))
    }
}

pub(super) const ROWS: &[Row] = &[
    row(
        "path",
        "authorizer_path",
        "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck",
        |args| match args {
            [Value::Extension(Extension::Authorizer(authorizer)), Value::String(path)] => {
                if path.trim().is_empty() {
                    return Err(Error::new("path must not be empty"));
                }
                let resource = Arc::default();
                let check =
                    CheckValue { authorizer: authorizer.clone(), path: (**path).into(), resource };
                Ok(Value::Extension(Extension::PathCheck(check)))
            }
            _ => Err(Error::no_such_overload()),
        },
    ),
    row(
        "group",
        "authorizer_group",
        "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck",
        |args| match args {
            [Value::Extension(Extension::Authorizer(authorizer)), Value::String(group)] => {
                let resource = ResourceCheck { group: group.to_string(), ..Default::default() };
                let check = CheckValue {
                    authorizer: authorizer.clone(),
                    path: "".into(),
                    resource: resource.into(),
                };
                Ok(Value::Extension(Extension::GroupCheck(check)))
            }
            _ => Err(Error::no_such_overload()),
        },
    ),
    ordered(
        "serviceAccount",
        "authorizer_serviceaccount",
        "kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer",
        |args| match args {
            [
                Value::Extension(Extension::Authorizer(authorizer)),
                Value::String(namespace),
                Value::String(account),
            ] => {
                if !name::name_is_dns_subdomain(account, false).is_empty() {
                    return Err(Error::new("Invalid service account name"));
                }
                if !name::name_is_dns_label(namespace, false).is_empty() {
                    return Err(Error::new("Invalid service account namespace"));
                }
                let service_account = Some(Arc::new((namespace.to_string(), account.to_string())));
                let authorizer =
                    AuthorizerValue { authorizer: authorizer.authorizer, service_account };
                Ok(Value::Extension(Extension::Authorizer(authorizer)))
            }
            _ => Err(Error::no_such_overload()),
        },
    ),
    row(
        "resource",
        "groupcheck_resource",
        "kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck",
        |args| match args {
            [Value::Extension(Extension::GroupCheck(check)), Value::String(resource)] => {
                if resource.trim().is_empty() {
                    return Err(Error::new("resource must not be empty"));
                }
                Ok(refined(check, |r| r.resource = resource.to_string()))
            }
            _ => Err(Error::no_such_overload()),
        },
    ),
    row("subresource", "resourcecheck_subresource", REFINE, |args| {
        refine(args, |r, text| r.subresource = text)
    }),
    row("namespace", "resourcecheck_namespace", REFINE, |args| {
        refine(args, |r, text| r.namespace = text)
    }),
    row("name", "resourcecheck_name", REFINE, |args| refine(args, |r, text| r.name = text)),
    row("fieldSelector", "authorizer_fieldselector", REFINE, |args| {
        refine(args, |r, text| r.field_selector = text)
    }),
    row("labelSelector", "authorizer_labelselector", REFINE, |args| {
        refine(args, |r, text| r.label_selector = text)
    }),
    row(
        "check",
        "pathcheck_check",
        "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
        check,
    ),
    row(
        "check",
        "resourcecheck_check",
        "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision",
        check,
    ),
    row("errored", "decision_errored", "kubernetes.authorization.Decision.() -> bool", |args| {
        Ok(Value::Bool(decision(args)?.error.is_some()))
    }),
    row("error", "decision_error", "kubernetes.authorization.Decision.() -> string", |args| {
        Ok(Value::string(decision(args)?.error.clone().unwrap_or_default()))
    }),
    row("allowed", "decision_allowed", "kubernetes.authorization.Decision.() -> bool", |args| {
        Ok(Value::Bool(decision(args)?.allowed))
    }),
    row("reason", "decision_reason", "kubernetes.authorization.Decision.() -> string", |args| {
        Ok(Value::string(decision(args)?.reason.clone()))
    }),
];

const REFINE: &str =
    "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck";

fn refine<'a>(args: &[Value<'a>], set: fn(&mut ResourceCheck, String)) -> Result<Value<'a>, Error> {
    match args {
        [Value::Extension(Extension::ResourceCheck(check)), Value::String(text)] => {
            Ok(refined(check, |resource| set(resource, text.to_string())))
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn refined<'a>(check: &CheckValue<'a>, set: impl FnOnce(&mut ResourceCheck)) -> Value<'a> {
    let mut check = check.clone();
    set(Arc::make_mut(&mut check.resource));
    Value::Extension(Extension::ResourceCheck(check))
}

fn check<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::Extension(question), Value::String(verb)] = args else {
        return Err(Error::no_such_overload());
    };
    let decision = match question {
        Extension::PathCheck(check) => {
            let AuthorizerValue { authorizer, service_account } = &check.authorizer;
            authorizer.authorize_path(account(service_account), &check.path, verb)
        }
        Extension::ResourceCheck(check) => {
            let AuthorizerValue { authorizer, service_account } = &check.authorizer;
            authorizer.authorize_resource(account(service_account), &check.resource, verb)
        }
        _ => return Err(Error::no_such_overload()),
    };
    let decision = decision.ok_or_else(Error::interrupted)?;
    Ok(Value::Extension(Extension::Decision(decision.into())))
}

fn account(service_account: &Option<Arc<(String, String)>>) -> Option<(&str, &str)> {
    service_account.as_deref().map(|(namespace, name)| (namespace.as_str(), name.as_str()))
}

fn decision<'v>(args: &'v [Value<'_>]) -> Result<&'v Decision, Error> {
    match args.first() {
        Some(Value::Extension(Extension::Decision(decision))) => Ok(decision),
        _ => Err(Error::no_such_overload()),
    }
}
