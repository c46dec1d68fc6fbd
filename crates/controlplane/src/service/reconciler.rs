//! Keeps the endpoints of the Service `kubernetes`: the addresses of the API servers.

use std::net::IpAddr;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::Client;

use super::address::is_ipv6;
use super::leases::Leases;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
/// Label that excludes these endpoints from the mirroring controller: this server writes their slices.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Attempts to remove an endpoint while other servers write it.
const ATTEMPTS: usize = 5;

/// Reconciler of the `kubernetes` Service's endpoints (upstream: `reconcilers.EndpointReconciler`).
#[derive(Clone, Debug)]
pub enum Reconciler {
    /// Each server has a lease (`--endpoint-reconciler-type=lease`).
    Lease(Leases),
    /// There are this many.
    Count(usize),
    /// Endpoints are maintained outside the server.
    None,
}

/// An API server, as its endpoint shows it.
#[derive(Clone, Copy, Debug)]
pub struct ServerAddress {
    pub ip: IpAddr,
    pub port: u16,
}

impl Reconciler {
    /// Registers the server, and writes the endpoints of all live servers.
    pub async fn reconcile(&self, client: &Client, server: ServerAddress) -> Result<(), String> {
        match self {
            Reconciler::None => Ok(()),
            Reconciler::Lease(leases) => {
                // Others add the server even if what follows fails.
                leases.renew(server.ip).await?;
                let there = leases.list().await?;
                if there.is_empty() {
                    return Err("no API server IP addresses were listed in storage, refusing to \
                                erase all endpoints for the kubernetes Service"
                        .into());
                }
                write(client, server, &there, false, true).await
            }
            Reconciler::Count(most) => {
                let own = server.ip.to_string();
                let there = addresses(&get(client).await?.unwrap_or_default());
                write(client, server, &counted(there, &own, *most), false, true).await
            }
        }
    }

    /// Says that a server goes: `stopping` when this one does, so that there may be none left; a start tries once.
    pub async fn remove(
        &self,
        client: &Client,
        server: ServerAddress,
        stopping: bool,
    ) -> Result<(), String> {
        for _ in 1..if stopping { ATTEMPTS } else { 1 } {
            if self.remove_once(client, server, stopping).await.is_ok() {
                return Ok(());
            }
        }
        self.remove_once(client, server, stopping).await
    }

    async fn remove_once(
        &self,
        client: &Client,
        server: ServerAddress,
        stopping: bool,
    ) -> Result<(), String> {
        let there = match self {
            Reconciler::None => return Ok(()),
            Reconciler::Lease(leases) => {
                let known = leases.remove(server.ip).await?;
                if !known && !stopping {
                    return Ok(());
                }
                leases.list().await?
            }
            Reconciler::Count(_) => {
                let there = addresses(&get(client).await?.unwrap_or_default());
                there.into_iter().filter(|ip| *ip != server.ip.to_string()).collect()
            }
        };
        // Found at the start, without a live server: the endpoint stays until it is written again.
        if there.is_empty() && !stopping && matches!(self, Reconciler::Lease(_)) {
            return Ok(());
        }
        write(client, server, &there, true, false).await
    }
}

/// Adds an address to others, of which those after it go when they are too many.
fn counted(mut there: Vec<String>, own: &str, most: usize) -> Vec<String> {
    if there.iter().any(|ip| ip == own) && there.len() <= most {
        return there;
    }
    there.push(own.to_owned());
    there.sort();
    there.dedup();
    while there.len() > most.max(1) {
        let at = there.iter().position(|ip| ip == own).unwrap_or(0);
        there.remove((at + 1) % there.len());
    }
    there
}

/// Makes endpoints and slice show these addresses. Ports are corrected only with `ports`.
async fn write(
    client: &Client,
    server: ServerAddress,
    there: &[String],
    ports: bool,
    make: bool,
) -> Result<(), String> {
    let text = |error: StatusError| error.to_string();
    let found = get(client).await?;
    if found.is_none() && !make {
        return Ok(());
    }
    let wanted_ports = port_list(server.port);
    let before = found.as_ref().and_then(|endpoints| endpoints.at(&["subsets"])).cloned();
    let subset = before.as_ref().and_then(Value::as_list).filter(|list| list.len() == 1);
    let subset = subset.and_then(<[Value]>::first);
    let known_ports = subset.and_then(|subset| subset.at(&["ports"])).filter(|_| !ports);
    let mut sorted = there.to_vec();
    sorted.sort();
    sorted.dedup();
    let same_addresses = subset.is_some_and(|subset| {
        let mut before = ips(subset);
        before.sort();
        before == sorted
    });
    let ports_known = known_ports.cloned().unwrap_or_else(|| wanted_ports.clone());
    let marked = found
        .as_ref()
        .is_some_and(|endpoints| endpoints.str_at(&["metadata", "labels", SKIP_MIRROR]) == "true");
    let ports_right = subset.and_then(|subset| subset.at(&["ports"])) == Some(&ports_known);
    let mut endpoints = match &found {
        Some(found) => found.clone(),
        None => new_endpoints(),
    };
    if !(marked && same_addresses && ports_right) {
        let subsets = match sorted.is_empty() {
            true => Vec::new(),
            false => vec![Value::Map(Map::from_iter([
                ("addresses", list_of("ip", &sorted)),
                ("ports", ports_known),
            ]))],
        };
        set_subsets(&mut endpoints, subsets);
        let written = match found {
            Some(_) => client.update(&format!("{ENDPOINTS}/{NAME}"), &endpoints).await,
            None => client.create(ENDPOINTS, &endpoints).await,
        };
        match written {
            Err(error) if make && error.reason() == reason::ALREADY_EXISTS => return Ok(()),
            written => endpoints = written.map_err(text)?,
        }
    }
    write_slice(client, &endpoints).await.map_err(text)
}

/// Makes the slice say the same as the endpoints.
async fn write_slice(client: &Client, endpoints: &Value) -> Result<(), StatusError> {
    let slice = slice_of(endpoints);
    let path = format!("{SLICES}/{NAME}");
    let found = match client.get(&path).await {
        Ok(found) => found,
        Err(error) if error.reason() == reason::NOT_FOUND => {
            return match client.create(SLICES, &slice).await {
                Err(error) if error.reason() != reason::ALREADY_EXISTS => Err(error),
                _ => Ok(()),
            };
        }
        Err(error) => return Err(error),
    };
    let same = |path: &[&str]| {
        let part = |value: &Value| value.at(path).filter(|part| !part.is_empty()).cloned();
        part(&found) == part(&slice)
    };
    if !same(&["addressType"]) {
        client.delete(&path).await?;
        return client.create(SLICES, &slice).await.map(drop);
    }
    if same(&["endpoints"]) && same(&["ports"]) && same(&["metadata", "labels"]) {
        return Ok(());
    }
    client.update(&path, &slice).await.map(drop)
}

fn slice_of(endpoints: &Value) -> Value {
    let subsets = endpoints.at(&["subsets"]).and_then(Value::as_list).unwrap_or_default();
    let subset = subsets.first().cloned().unwrap_or_default();
    let addresses = ips(&subset);
    let v6 = !addresses.is_empty() && addresses.iter().all(|ip| is_ipv6(ip));
    let listed = addresses.iter().filter(|ip| is_ipv6(ip) == v6).map(|ip| {
        let ready = Map::from_iter([("ready", Value::Bool(true))]);
        Value::Map(Map::from_iter([
            ("addresses", Value::List([Value::from(ip.as_str())].into_iter().collect())),
            ("conditions", Value::Map(ready)),
        ]))
    });
    let listed: Value = Value::List(listed.collect());
    let labels = Map::from_iter([(SERVICE_NAME, Value::from(NAME))]);
    let metadata = Map::from_iter([
        ("name", Value::from(NAME)),
        ("namespace", Value::from(NAMESPACE)),
        ("labels", Value::Map(labels)),
    ]);
    let ports = subset.at(&["ports"]).cloned();
    Value::Map(Map::from_iter([
        ("apiVersion", Value::from("discovery.k8s.io/v1")),
        ("kind", Value::from("EndpointSlice")),
        ("metadata", Value::Map(metadata)),
        ("addressType", Value::from(if v6 { "IPv6" } else { "IPv4" })),
        ("endpoints", listed),
        ("ports", ports.unwrap_or_else(|| Value::List(Default::default()))),
    ]))
}

async fn get(client: &Client) -> Result<Option<Value>, String> {
    match client.get(&format!("{ENDPOINTS}/{NAME}")).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.reason() == reason::NOT_FOUND => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn new_endpoints() -> Value {
    let metadata =
        Map::from_iter([("name", Value::from(NAME)), ("namespace", Value::from(NAMESPACE))]);
    Value::Map(Map::from_iter([
        ("apiVersion", Value::from("v1")),
        ("kind", Value::from("Endpoints")),
        ("metadata", Value::Map(metadata)),
    ]))
}

fn set_subsets(endpoints: &mut Value, subsets: Vec<Value>) {
    let Some(object) = endpoints.as_map_mut() else { return };
    object.insert("subsets", Value::List(subsets.into_iter().collect()));
    let metadata = object.entry_or_insert_with("metadata", || Map::new().into());
    let Some(metadata) = metadata.as_map_mut() else { return };
    let labels = metadata.entry_or_insert_with("labels", || Map::new().into());
    if let Some(labels) = labels.as_map_mut() {
        labels.insert(SKIP_MIRROR, "true".into());
    }
}

fn port_list(port: u16) -> Value {
    let port = Map::from_iter([
        ("name", Value::from("https")),
        ("port", Value::Int(port.into())),
        ("protocol", Value::from("TCP")),
    ]);
    Value::List([Value::Map(port)].into_iter().collect())
}

fn list_of(field: &'static str, texts: &[String]) -> Value {
    let item = |text: &String| Value::Map(Map::from_iter([(field, Value::from(text.as_str()))]));
    Value::List(texts.iter().map(item).collect())
}

/// The addresses of the only subset.
fn addresses(endpoints: &Value) -> Vec<String> {
    let subsets = endpoints.at(&["subsets"]).and_then(Value::as_list).unwrap_or_default();
    subsets.first().map(ips).unwrap_or_default()
}

fn ips(subset: &Value) -> Vec<String> {
    let list = subset.at(&["addresses"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().map(|address| address.str_at(&["ip"]).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_servers_those_after_oneself_go() {
        for (there, most, expected) in [
            (&["1", "2"][..], 3, &["1", "2", "own"][..]),
            (&["own"], 1, &["own"]),
            (&["a"], 1, &["own"]),
            (&["a", "z"], 2, &["a", "own"]),
            (&["a", "b", "c"], 2, &["c", "own"]),
        ] {
            let there = there.iter().map(|ip| (*ip).to_owned()).collect();
            assert_eq!(counted(there, "own", most), expected);
        }
    }
}
