//! Assignment of node ports to a Service.

use std::collections::{BTreeSet, HashMap, HashSet};

use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::status::StatusError;

use super::port_set::{PortError, PortSet};
use super::spec::Spec;

/// Allocates the node ports of a new Service.
pub fn first_ports(spec: &mut Spec, ports: &mut Ports<'_>) -> Result<(), Refused> {
    if spec.may_have_node_ports() {
        first_node_ports(spec, ports)?;
    }
    if spec.needs_health_check() {
        take_health_check_port(spec, ports)?;
    }
    Ok(())
}

/// Allocates the node ports of an updated Service, and returns the ports to release.
pub fn next_ports(spec: &mut Spec, old: &Spec, ports: &mut Ports<'_>) -> Result<Vec<i64>, Refused> {
    let mut free = next_node_ports(spec, old, ports)?;
    match (old.needs_health_check(), spec.needs_health_check()) {
        (false, true) => take_health_check_port(spec, ports)?,
        (true, false) => free.push(old.health_check_node_port),
        _ => {}
    }
    Ok(free)
}

/// Error of a node port allocation.
pub enum Refused {
    Invalid(FieldError),
    Internal(String),
    Other(String),
}

impl Refused {
    pub fn status(self, name: &str) -> StatusError {
        match self {
            Refused::Invalid(error) => {
                StatusError::invalid(&GroupKind::new("", "Service"), name, error)
            }
            Refused::Internal(why) => StatusError::internal(why),
            Refused::Other(why) => StatusError::unknown(500, why),
        }
    }

    fn node_port(index: usize, port: i64, error: &PortError) -> Self {
        let ports = Path::new("spec.ports");
        let port_path = ports.index(index);
        let path = port_path.child("nodePort");
        Refused::Invalid(FieldError::invalid(&path, port, error.to_string()))
    }
}

/// Node ports allocated for one write.
pub struct Ports<'a> {
    set: &'a mut PortSet,
    taken: BTreeSet<i64>,
    dry_run: bool,
}

impl<'a> Ports<'a> {
    pub fn new(set: &'a mut PortSet, dry_run: bool) -> Self {
        Ports { set, taken: BTreeSet::new(), dry_run }
    }

    /// Ports that this write allocated.
    pub fn taken(self) -> Vec<i64> {
        self.taken.into_iter().collect()
    }

    fn take(&mut self, port: i64) -> Result<(), PortError> {
        // A dry run reports no error for ports out of range.
        if !self.dry_run || self.set.has(port) {
            self.set.take(port)?;
        }
        match self.taken.insert(port) {
            true => Ok(()),
            false => Err(PortError::Allocated),
        }
    }

    fn take_any(&mut self) -> Result<i64, PortError> {
        /// Port that a dry run answers: above the default range.
        const DRY: i64 = 32768;
        let port = match self.dry_run {
            true => self.taken.last().unwrap_or(&DRY).saturating_add(1),
            false => self.set.take_any()?,
        };
        self.taken.insert(port);
        Ok(port)
    }
}

/// Ports with the same number share a node port, whatever their protocols.
fn first_node_ports(spec: &mut Spec, ports: &mut Ports<'_>) -> Result<(), Refused> {
    let mut asked: HashMap<i64, i64> = HashMap::new();
    for port in spec.ports.iter().filter(|port| port.node_port != 0) {
        asked.entry(port.port).or_insert(port.node_port);
    }
    let any = spec.wants_node_ports();
    let mut given: HashMap<i64, i64> = HashMap::new();
    for (index, port) in spec.ports.iter_mut().enumerate() {
        if port.node_port == 0 && !any {
            continue;
        }
        match (given.get(&port.port), asked.get(&port.port)) {
            (None, Some(&wanted)) => {
                let taken = ports.take(wanted);
                taken.map_err(|error| Refused::node_port(index, wanted, &error))?;
                port.node_port = wanted;
                given.insert(port.port, wanted);
            }
            (None, None) => {
                port.node_port = ports.take_any().map_err(no_port)?;
                given.insert(port.port, port.node_port);
            }
            (Some(&shared), _) if port.node_port == 0 => port.node_port = shared,
            (Some(&shared), _) if port.node_port != shared => {
                let taken = ports.take(port.node_port);
                taken.map_err(|error| Refused::node_port(index, port.node_port, &error))?;
            }
            (Some(_), _) => {}
        }
    }
    Ok(())
}

fn next_node_ports(
    spec: &mut Spec,
    old: &Spec,
    ports: &mut Ports<'_>,
) -> Result<Vec<i64>, Refused> {
    let had: HashSet<i64> = old.node_ports().collect();
    let mut free: Vec<i64> = Vec::new();
    if old.may_have_node_ports() && matches!(spec.ty.as_str(), "ExternalName" | "ClusterIP") {
        free.extend(&had);
    }
    if spec.may_have_node_ports() {
        let any = spec.wants_node_ports();
        let mut seen: HashSet<(String, i64)> = HashSet::new();
        let mut taken: HashSet<i64> = HashSet::new();
        for (index, port) in spec.ports.iter_mut().enumerate() {
            match port.node_port {
                0 if !any => continue,
                0 => port.node_port = ports.take_any().map_err(no_port)?,
                wanted if !had.contains(&wanted) && taken.insert(wanted) => {
                    let result = ports.take(wanted);
                    result.map_err(|error| Refused::node_port(index, wanted, &error))?;
                }
                _ => {}
            }
            if !seen.insert((port.protocol.clone(), port.node_port)) {
                let (protocol, number) = (&port.protocol, port.node_port);
                let why = format!("duplicate nodePort: {{{protocol} {number}}}");
                return Err(Refused::Other(why));
            }
        }
        let has: HashSet<i64> = spec.node_ports().collect();
        free.extend(had.iter().filter(|port| !has.contains(port)));
    }
    Ok(free)
}

fn take_health_check_port(spec: &mut Spec, ports: &mut Ports<'_>) -> Result<(), Refused> {
    match spec.health_check_node_port {
        0 => {
            let port = ports.take_any().map_err(|error| {
                Refused::Internal(format!("failed to allocate a HealthCheck NodePort 0: {error}"))
            })?;
            spec.health_check_node_port = port;
        }
        wanted => ports.take(wanted).map_err(|error| {
            let why =
                format!("failed to allocate requested HealthCheck NodePort {wanted}: {error}");
            Refused::Internal(why)
        })?,
    }
    Ok(())
}

fn no_port(error: PortError) -> Refused {
    Refused::Internal(format!("failed to allocate a nodePort: {error}"))
}
