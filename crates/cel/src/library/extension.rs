//! Values of Kubernetes' CEL types.

use std::fmt;
use std::sync::Arc;

use kevel_api::url::Url;

use super::authorizer::{AuthorizerValue, CheckValue, DecisionValue};
use super::formats::Format;
use super::net::{Address, Network};
use super::quantity::QuantityValue;
use super::semver::Version;
use crate::error::Error;
use crate::types::Type;

/// Value of one of Kubernetes' CEL libraries.
#[derive(Clone, Debug)]
pub enum Extension<'a> {
    /// `quantity('1Gi')`
    Quantity(QuantityValue),
    /// `ip('10.0.0.1')`
    Address(Address),
    /// `cidr('10.0.0.0/8')`
    Network(Network),
    /// `url('https://example.com')`
    Url(Arc<Url>),
    /// `semver('1.2.3')`
    Version(Arc<Version>),
    /// `format.dns1123Label()`
    Format(&'static Format),
    /// `authorizer`
    Authorizer(AuthorizerValue<'a>),
    /// `authorizer.path('/healthz')`
    PathCheck(CheckValue<'a>),
    /// `authorizer.group('apps')`
    GroupCheck(CheckValue<'a>),
    /// `authorizer.group('apps').resource('deployments')`
    ResourceCheck(CheckValue<'a>),
    /// Result of a check.
    Decision(Arc<DecisionValue>),
}

impl<'a> Extension<'a> {
    pub(crate) fn runtime_type(&self) -> Type {
        let opaque = |name: &str| Type::Opaque(name.into(), Arc::new([]));
        match self {
            Extension::Quantity(_) => Type::object("kubernetes.Quantity"),
            Extension::Address(_) => opaque("net.IP"),
            Extension::Network(_) => opaque("net.CIDR"),
            Extension::Url(_) => Type::object("kubernetes.URL"),
            Extension::Version(_) => Type::object("kubernetes.Semver"),
            Extension::Format(_) => Type::object("kubernetes.NamedFormat"),
            Extension::Authorizer(_) => Type::object("kubernetes.authorization.Authorizer"),
            Extension::PathCheck(_) => Type::object("kubernetes.authorization.PathCheck"),
            Extension::GroupCheck(_) => Type::object("kubernetes.authorization.GroupCheck"),
            Extension::ResourceCheck(_) => Type::object("kubernetes.authorization.ResourceCheck"),
            Extension::Decision(_) => Type::object("kubernetes.authorization.Decision"),
        }
    }

    /// Size in bytes of an address, for the cost.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Extension::Address(address) => Some(address.size()),
            Extension::Network(network) => Some(network.size()),
            _ => None,
        }
    }

    pub(crate) fn equals(&self, other: &Extension<'a>) -> Result<bool, Error> {
        Ok(match (self, other) {
            (Extension::Quantity(a), Extension::Quantity(b)) => a.quantity == b.quantity,
            (Extension::Address(a), Extension::Address(b)) => a == b,
            (Extension::Network(a), Extension::Network(b)) => a == b,
            (Extension::Url(a), Extension::Url(b)) => a == b,
            (Extension::Version(a), Extension::Version(b)) => a.cmp_precedence(b).is_eq(),
            (Extension::Format(a), Extension::Format(b)) => a.title == b.title,
            _ => return Err(Error::no_such_overload()),
        })
    }
}

impl fmt::Display for Extension<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extension::Quantity(quantity) => write!(f, "{}", quantity.quantity),
            Extension::Address(address) => write!(f, "{address}"),
            Extension::Network(network) => write!(f, "{network}"),
            Extension::Url(url) => write!(f, "{url}"),
            Extension::Version(version) => write!(f, "{version}"),
            Extension::Format(format) => f.write_str(format.title),
            other => f.write_str(other.runtime_type().name()),
        }
    }
}
