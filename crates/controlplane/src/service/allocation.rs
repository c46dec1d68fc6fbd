//! Allocation of a Service's cluster IPs and node ports: allocated before the write, released if the write fails or
//! the Service no longer needs them.

use std::net::IpAddr;
use std::sync::Arc;

use kevel_api::field_error::{BadValue, FieldError, FieldErrors, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::ip::parse_ip_sloppy;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::allocation::{Allocation, Begin, PendingAllocations};
use kevel_registry::storage::Storage;

use super::cluster_ips;
use super::families::{
    Families, IPV6, choose_policy, family, keep_allocated, keeps_preferred, normalize,
};
use super::ip_allocator::{IpAllocator, IpError};
use super::node_ports::{Ports, Refused, first_ports, next_ports};
use super::port_allocator::PortAllocator;
use super::port_set::{PortError, PortSet};
use super::spec::Spec;
use crate::capabilities::Capabilities;

/// Allocator of cluster IPs and node ports for writes of Services.
pub struct ServiceAllocation {
    pub families: Families,
    pub ips: Arc<IpAllocator>,
    pub ports: Arc<PortAllocator>,
    /// Storage of Endpoints, which are deleted together with their Service.
    pub endpoints: Arc<Storage>,
    /// Features that decide about the form of addresses.
    pub capabilities: Capabilities,
}

impl Allocation for ServiceAllocation {
    fn begin_create(self: Arc<Self>, mut object: Value, dry_run: bool) -> Begin {
        Box::pin(async move {
            let mut claims = self.claims(&object, dry_run);
            let result = self.create(&mut object, &mut claims).await;
            finish(object, claims, result).await
        })
    }

    fn begin_update(self: Arc<Self>, mut object: Value, old: Value, dry_run: bool) -> Begin {
        Box::pin(async move {
            let mut claims = self.claims(&object, dry_run);
            let result = self.update(&mut object, &old, &mut claims).await;
            finish(object, claims, result).await
        })
    }

    fn after_delete<'a>(&'a self, object: &'a Value) -> Pending<'a, ()> {
        Box::pin(async move {
            let (namespace, name) = names(object);
            // A new Service of the same name must not find the old Endpoints.
            if let Err(error) = self.endpoints.discard(namespace, name).await {
                tracing::warn!(namespace, name, %error, "endpoints were not deleted");
            }
            let mut spec = Spec::read(object);
            self.families.complete_stored(&mut spec);
            for ip in addresses(&spec) {
                self.ips.release(ip, namespace, name).await;
            }
            let mut ports: Vec<i64> = spec.node_ports().collect();
            if spec.needs_health_check() {
                ports.push(spec.health_check_node_port);
            }
            self.ports.release(&ports).await;
        })
    }
}

impl ServiceAllocation {
    async fn create(
        &self,
        object: &mut Value,
        claims: &mut ServiceClaims,
    ) -> Result<(), StatusError> {
        let mut spec = Spec::read(object);
        normalize(&mut spec, None);
        self.choose_families(object, &mut spec, None)?;
        self.take_addresses(object, &mut spec, claims).await?;
        if spec.may_have_node_ports() {
            let name = object.str_at(&["metadata", "name"]);
            let taken = self.take_ports(claims.dry_run, |ports| {
                let (mut spec, mut ports) = (spec.clone(), Ports::new(ports, claims.dry_run));
                first_ports(&mut spec, &mut ports)?;
                Ok((spec, ports.taken()))
            });
            let (with_ports, taken) = taken.await.map_err(|refused| refused.status(name))?;
            (spec, claims.ports) = (with_ports, taken);
        }
        spec.write(object);
        Ok(())
    }

    async fn update(
        &self,
        object: &mut Value,
        old: &Value,
        claims: &mut ServiceClaims,
    ) -> Result<(), StatusError> {
        let (mut spec, mut before) = (Spec::read(object), Spec::read(old));
        self.families.complete_stored(&mut before);
        keep_allocated(&mut spec, &before);
        normalize(&mut spec, Some(&before));
        if !keeps_preferred(&spec, &before) {
            self.choose_families(object, &mut spec, Some((old, &before)))?;
            self.change_addresses(object, &mut spec, &before, claims).await?;
        }
        let unchanged = spec.ty == before.ty
            && spec.ports == before.ports
            && spec.needs_health_check() == before.needs_health_check()
            && !(spec.wants_node_ports() && spec.ports.iter().any(|port| port.node_port == 0));
        if !unchanged && (spec.may_have_node_ports() || before.may_have_node_ports()) {
            let name = object.str_at(&["metadata", "name"]);
            let taken = self.take_ports(claims.dry_run, |ports| {
                let (mut spec, mut ports) = (spec.clone(), Ports::new(ports, claims.dry_run));
                let replaced = next_ports(&mut spec, &before, &mut ports)?;
                Ok((spec, ports.taken(), replaced))
            });
            let (with_ports, taken, replaced) =
                taken.await.map_err(|refused| refused.status(name))?;
            (spec, claims.ports, claims.replaced_ports) = (with_ports, taken, replaced);
        }
        spec.write(object);
        Ok(())
    }

    fn choose_families(
        &self,
        object: &mut Value,
        spec: &mut Spec,
        old: Option<(&Value, &Spec)>,
    ) -> Result<(), StatusError> {
        if spec.is_external_name() {
            return Ok(());
        }
        choose_policy(spec, old.map(|(_, spec)| spec));
        spec.write(object);
        let mut errors =
            cluster_ips::find_errors(object, old.map(|(old, _)| old), &self.capabilities);
        if errors.is_empty() {
            let chosen = self.families.choose(spec, old.map(|(_, spec)| spec));
            errors = chosen.err().unwrap_or_default().into();
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(invalid(object.str_at(&["metadata", "name"]), errors)),
        }
    }

    /// Allocates the cluster IPs that a Service lacks.
    async fn take_addresses(
        &self,
        object: &Value,
        spec: &mut Spec,
        claims: &mut ServiceClaims,
    ) -> Result<(), StatusError> {
        if spec.is_external_name() || spec.is_headless() {
            return Ok(());
        }
        let wanted = spec.families.len().max(spec.cluster_ips.len());
        spec.cluster_ips.resize(wanted, String::new());
        for index in 0..spec.families.len() {
            self.take_address(object, spec, index, claims).await?;
        }
        spec.cluster_ip = spec.cluster_ips.first().cloned().unwrap_or_default();
        Ok(())
    }

    async fn take_address(
        &self,
        object: &Value,
        spec: &mut Spec,
        index: usize,
        claims: &mut ServiceClaims,
    ) -> Result<(), StatusError> {
        let (namespace, name) = names(object);
        let Some((ipv6, asked)) = spec
            .families
            .get(index)
            .map(|family| family == IPV6)
            .zip(spec.cluster_ips.get(index).cloned())
        else {
            return Ok(());
        };
        let refused = |spec: &Spec, detail: String| {
            let path = Path::new("spec.clusterIPs");
            let value = BadValue::strings(&spec.cluster_ips);
            invalid(name, FieldError::invalid(&path, value, detail))
        };
        let taken = if asked.is_empty() {
            let taken = self.ips.take_any(ipv6, namespace, name, claims.dry_run).await;
            taken.map_err(|error| match error {
                IpError::Full => {
                    let name = kevel_api::quote::quote(name);
                    let why = format!("failed to allocate a serviceIP for Service {name}: {error}");
                    StatusError::internal(why)
                }
                error => refused(spec, format!("failed to allocate IP: {error}")),
            })?
        } else {
            let ip = parse_ip_sloppy(&asked).ok_or_else(|| {
                let asked = kevel_api::quote::quote(&asked);
                StatusError::internal(format!("failed to parse service IP {asked}"))
            })?;
            let ip = ip.to_canonical();
            let taken = self.ips.take(ip, namespace, name, claims.dry_run).await;
            taken.map_err(|error| {
                refused(spec, format!("failed to allocate IP {asked}: {error}"))
            })?;
            ip
        };
        claims.ips.push(taken);
        if let (Some(ip), true) = (spec.cluster_ips.get_mut(index), asked.is_empty()) {
            *ip = taken.to_string();
        }
        Ok(())
    }

    /// Allocates and releases cluster IPs for a change of type or IP families.
    async fn change_addresses(
        &self,
        object: &Value,
        spec: &mut Spec,
        old: &Spec,
        claims: &mut ServiceClaims,
    ) -> Result<(), StatusError> {
        if old.is_external_name() && !spec.is_external_name() {
            return self.take_addresses(object, spec, claims).await;
        }
        if old.is_headless() {
            return Ok(());
        }
        if !old.is_external_name() && spec.is_external_name() {
            claims.replaced_ips = addresses(old).collect();
            return Ok(());
        }
        match (old.families.len(), spec.families.len()) {
            (1, 2) => {
                spec.cluster_ips.resize(spec.cluster_ips.len().max(2), String::new());
                self.take_address(object, spec, 1, claims).await?;
            }
            (2, 1) => claims.replaced_ips = addresses(old).skip(1).collect(),
            _ => {}
        }
        Ok(())
    }

    /// Allocates all ports or none. A dry run only checks.
    async fn take_ports<T: Send>(
        &self,
        dry_run: bool,
        mut take: impl FnMut(&mut PortSet) -> Result<T, Refused> + Send,
    ) -> Result<T, Refused> {
        let mut refusal = None;
        if dry_run {
            let stored = self.ports.read().await;
            let stored = stored.map_err(|error| Refused::Internal(error.to_string()))?;
            let mut ports = stored.map_or(PortSet::new(self.ports.range), |stored| stored.ports);
            return take(&mut ports);
        }
        let changed = self.ports.change(|ports| {
            take(ports).map_err(|refused| {
                refusal = Some(refused);
                PortError::Full
            })
        });
        let result = changed.await;
        result.map_err(|error| {
            refusal.unwrap_or_else(|| {
                Refused::Internal(format!("failed to allocate a nodePort: {error}"))
            })
        })
    }

    fn claims(&self, object: &Value, dry_run: bool) -> ServiceClaims {
        let (namespace, name) = names(object);
        ServiceClaims {
            from: (self.ips.clone(), self.ports.clone()),
            service: (namespace.to_owned(), name.to_owned()),
            dry_run,
            ips: Vec::new(),
            ports: Vec::new(),
            replaced_ips: Vec::new(),
            replaced_ports: Vec::new(),
        }
    }
}

/// Addresses and ports allocated for a write, and those that the write releases.
struct ServiceClaims {
    from: (Arc<IpAllocator>, Arc<PortAllocator>),
    /// Namespace and name of the Service.
    service: (String, String),
    dry_run: bool,
    ips: Vec<IpAddr>,
    ports: Vec<i64>,
    replaced_ips: Vec<IpAddr>,
    replaced_ports: Vec<i64>,
}

impl PendingAllocations for ServiceClaims {
    fn finish(self: Box<Self>, written: bool) -> Pending<'static, ()> {
        Box::pin(async move {
            if self.dry_run {
                return;
            }
            let (ips, ports) = match written {
                true => (&self.replaced_ips, &self.replaced_ports),
                false => (&self.ips, &self.ports),
            };
            for ip in ips {
                self.from.0.release(*ip, &self.service.0, &self.service.1).await;
            }
            self.from.1.release(ports).await;
        })
    }
}

/// Releases the allocations of a refused write.
async fn finish(
    object: Value,
    claims: ServiceClaims,
    result: Result<(), StatusError>,
) -> Result<(Value, Box<dyn PendingAllocations>), StatusError> {
    let claims = Box::new(claims);
    match result {
        Ok(()) => Ok((object, claims)),
        Err(error) => {
            claims.finish(false).await;
            Err(error)
        }
    }
}

/// Cluster IPs of a Service.
fn addresses(spec: &Spec) -> impl Iterator<Item = IpAddr> + '_ {
    let given = (spec.needs_cluster_ip() && !spec.is_headless()).then_some(&spec.cluster_ips);
    let ips = given.into_iter().flatten().filter(|ip| family(ip) != "unknown");
    ips.filter_map(|ip| parse_ip_sloppy(ip)).map(|ip| ip.to_canonical())
}

fn names(object: &Value) -> (&str, &str) {
    (object.str_at(&["metadata", "namespace"]), object.str_at(&["metadata", "name"]))
}

fn invalid(name: &str, errors: impl Into<FieldErrors>) -> StatusError {
    StatusError::invalid(&GroupKind::new("", "Service"), name, errors)
}
