//! Defaulting of a Service's linked fields: `clusterIP` and `clusterIPs`, IP families and their policy, and values
//! that a client omits on an update.

use std::collections::{HashMap, HashSet};

use kevel_api::field_error::{BadValue, FieldError, Path};

use super::spec::{NONE, Spec};

/// IP families of a cluster's Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// Family of Services that request none.
    pub primary: &'static str,
    /// True if the cluster has addresses of the other family too.
    pub dual_stack: bool,
}

pub const IPV4: &str = "IPv4";
pub const IPV6: &str = "IPv6";

impl Families {
    fn has(&self, family: &str) -> bool {
        family == self.primary || (self.dual_stack && family == other(self.primary))
    }

    /// Sets the families of a stored Service that was written before the field existed.
    pub fn complete_stored(&self, spec: &mut Spec) {
        normalize(spec, None);
        if !spec.needs_cluster_ip() || !spec.families.is_empty() {
            return;
        }
        let (families, policy) = match (spec.cluster_ip == NONE, spec.selects) {
            (true, false) => (vec![self.primary, other(self.primary)], "RequireDualStack"),
            (true, true) => (vec![self.primary], "SingleStack"),
            (false, _) => {
                let families: Vec<&str> = spec.cluster_ips.iter().map(|ip| family(ip)).collect();
                let policy = if families.len() == 1 { "SingleStack" } else { "RequireDualStack" };
                (families, policy)
            }
        };
        spec.families = families.into_iter().map(Into::into).collect();
        spec.policy = Some(policy.into());
    }

    /// Sets the families and the policy that a Service omits. `old` is the Service that it replaces. The linked
    /// fields have been validated.
    pub fn choose(&self, spec: &mut Spec, old: Option<&Spec>) -> Result<(), Vec<FieldError>> {
        let root = Path::new("spec");
        let policy_path = root.child("ipFamilyPolicy");
        let mut errors = Vec::new();
        let wrong = |spec: &Spec, detail: &'static str| {
            FieldError::invalid(&policy_path, policy_shown(spec), detail)
        };
        if let Some(old) = old {
            self.choose_update(spec, old, &mut errors, wrong);
        }
        if spec.is_single_stack() {
            for (list, what) in [
                (
                    &spec.cluster_ips,
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
                ),
                (
                    &spec.families,
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
                ),
            ] {
                if list.len() == 2 {
                    errors.push(wrong(spec, what));
                }
            }
        }
        self.infer(spec, &root, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        if spec.cluster_ip == NONE && !spec.selects {
            if spec.families.is_empty() {
                spec.families.push(self.primary.into());
            }
            // A headless Service without a selector may have endpoints in families that the cluster has no addresses
            // of.
            self.add_other(spec, true);
            return Ok(());
        }
        if spec.policy.as_deref() == Some("RequireDualStack") && !self.dual_stack {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(wrong(spec, why));
        }
        let families = root.child("ipFamilies");
        for (index, family) in spec.families.iter().enumerate().filter(|(_, f)| !self.has(f)) {
            let value = BadValue::named_string(family);
            let why = "not configured on this cluster";
            errors.push(FieldError::invalid(&families.index(index), value, why));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if spec.families.is_empty() {
            spec.families.push(self.primary.into());
        }
        self.add_other(spec, self.dual_stack);
        Ok(())
    }

    fn choose_update(
        &self,
        spec: &mut Spec,
        old: &Spec,
        errors: &mut Vec<FieldError>,
        wrong: impl Fn(&Spec, &'static str) -> FieldError,
    ) {
        if spec.is_single_stack() {
            // An update to SingleStack that leaves the lists unchanged drops the secondary entries.
            if spec.cluster_ips == old.cluster_ips {
                spec.cluster_ips.truncate(1);
            }
            if spec.families == old.families {
                spec.families.truncate(1);
            }
            return;
        }
        let reduced = |new: &[String], old: &[String]| !new.is_empty() && new.len() < old.len();
        if reduced(&spec.cluster_ips, &old.cluster_ips) {
            errors.push(wrong(spec, "must be 'SingleStack' to release the secondary cluster IP"));
        }
        if reduced(&spec.families, &old.families) {
            errors.push(wrong(spec, "must be 'SingleStack' to release the secondary IP family"));
        }
    }

    /// Infers families from the addresses that a Service requests.
    fn infer(&self, spec: &mut Spec, root: &Path<'_>, errors: &mut Vec<FieldError>) {
        let path = root.child("clusterIPs");
        for (index, ip) in spec.cluster_ips.iter().enumerate() {
            if ip == NONE {
                break;
            }
            let family = family(ip);
            if index < spec.families.len() {
                continue;
            }
            if self.has(family) {
                spec.families.push(family.into());
            } else {
                let value = BadValue::strings(&spec.cluster_ips);
                let why = format!("{family} is not configured on this cluster");
                errors.push(FieldError::invalid(&path.index(index), value, why));
            }
        }
    }

    fn add_other(&self, spec: &mut Spec, there: bool) {
        if let ([one], true, false) = (&spec.families[..], there, spec.is_single_stack()) {
            let other = other(one).into();
            spec.families.push(other);
        }
    }
}

/// Sets the default policy. Never changes a Service between single-stack and dual-stack.
pub fn choose_policy(spec: &mut Spec, old: Option<&Spec>) {
    if spec.policy.is_some() {
        return;
    }
    let before = old.and_then(|old| old.policy.clone());
    spec.policy = before.or_else(|| {
        let any = spec.cluster_ip == NONE && !spec.selects;
        Some(if any { "RequireDualStack" } else { "SingleStack" }.into())
    });
}

/// True if a PreferDualStack Service changes nothing about its addresses: then it keeps them, even if the cluster's
/// families have changed.
pub fn keeps_preferred(spec: &Spec, old: &Spec) -> bool {
    let prefers = |policy: &Option<String>| policy.as_deref() == Some("PreferDualStack");
    spec.ty == old.ty
        && matches!(spec.ty.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer")
        && prefers(&spec.policy)
        && (old.policy.is_none() || prefers(&old.policy))
        && spec.cluster_ips == old.cluster_ips
        && spec.families == old.families
}

/// Makes `clusterIPs` follow `clusterIP` for clients that know only the latter.
pub fn normalize(spec: &mut Spec, old: Option<&Spec>) {
    let Some(old) = old else {
        if !spec.cluster_ip.is_empty() && spec.cluster_ips.is_empty() {
            spec.cluster_ips = vec![spec.cluster_ip.clone()];
        }
        return;
    };
    let same = old.cluster_ip == spec.cluster_ip;
    if !old.cluster_ips.is_empty() && spec.cluster_ips.is_empty() && same {
        spec.cluster_ips = old.cluster_ips.clone();
    }
    if !same && spec.cluster_ips == old.cluster_ips {
        spec.cluster_ips = match spec.cluster_ip.as_str() {
            "" if !old.cluster_ip.is_empty() => Vec::new(),
            ip => vec![ip.to_owned()],
        };
    }
}

/// Keeps allocated values that the client omits.
pub fn keep_allocated(spec: &mut Spec, old: &Spec) {
    if old.needs_cluster_ip() && spec.needs_cluster_ip() {
        if spec.cluster_ip.is_empty() {
            spec.cluster_ip = old.cluster_ip.clone();
        }
        if spec.cluster_ips.is_empty() {
            spec.cluster_ips = old.cluster_ips.clone();
        }
    }
    if old.wants_node_ports() && spec.wants_node_ports() {
        let asked: HashSet<i64> = spec.node_ports().collect();
        let used: HashSet<i64> = old.node_ports().filter(|port| asked.contains(port)).collect();
        let named: HashMap<&str, i64> =
            old.ports.iter().map(|port| (port.name.as_str(), port.node_port)).collect();
        for port in spec.ports.iter_mut().filter(|port| port.node_port == 0) {
            let before = named.get(port.name.as_str()).copied().unwrap_or(0);
            if !used.contains(&before) {
                port.node_port = before;
            }
        }
    }
    if old.needs_health_check() && spec.needs_health_check() && spec.health_check_node_port == 0 {
        spec.health_check_node_port = old.health_check_node_port;
    }
}

/// IP family of an address.
pub fn family(ip: &str) -> &'static str {
    match kevel_api::ip::parse_ip_sloppy(ip) {
        Some(ip) if ip.to_canonical().is_ipv4() => IPV4,
        Some(_) => IPV6,
        None => "unknown",
    }
}

fn other(family: &str) -> &'static str {
    if family == IPV4 { IPV6 } else { IPV4 }
}

fn policy_shown(spec: &Spec) -> BadValue {
    BadValue::named_string(spec.policy.as_deref().unwrap_or_default())
}
