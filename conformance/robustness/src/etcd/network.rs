//! Network of the members: each in a network namespace, on one bridge. An unplugged cable drops packets silently, where
//! a closed proxy ends connections.

use std::net::Ipv4Addr;
use std::process::Command;

/// Benchmark addresses (RFC 2544), which are not routed: the third byte is the network's.
const NETWORK: [u8; 2] = [198, 18];
/// Last byte of the bridge's address; members count from the other.
const BRIDGE: u8 = 1;
const FIRST_MEMBER: u8 = 10;

/// The network, removed when dropped.
#[derive(Debug)]
pub struct Network {
    /// Prefix of all names.
    name: String,
    third: u8,
    members: usize,
}

impl Network {
    /// Missing requirement, if a network cannot be made.
    pub fn impossible() -> Option<&'static str> {
        if !rustix::process::geteuid().is_root() {
            return Some("root");
        }
        let known = Command::new("ip").args(["netns", "list"]).output();
        (!known.is_ok_and(|known| known.status.success())).then_some("ip netns")
    }

    /// Makes a network for a number of members.
    pub fn create(members: usize) -> Result<Network, String> {
        let process = std::process::id();
        let third = u8::try_from(process % 250).unwrap_or(0);
        let network = Network { name: format!("kvr{}", process % 100_000), third, members };
        let bridge = network.bridge();
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add {}/24 dev {bridge}", network.address(BRIDGE)))?;
        ip(&format!("link set {bridge} up"))?;
        for member in 0..members {
            network.join(member)?;
        }
        Ok(network)
    }

    fn join(&self, member: usize) -> Result<(), String> {
        let (space, cable, bridge) = (self.namespace(member), self.cable(member), self.bridge());
        let address = self.address_of(member);
        for command in [
            format!("netns add {space}"),
            format!("link add {cable} type veth peer name eth0 netns {space}"),
            format!("link set {cable} master {bridge} up"),
            format!("-n {space} addr add {address}/24 dev eth0"),
            format!("-n {space} link set eth0 up"),
            format!("-n {space} link set lo up"),
        ] {
            ip(&command)?;
        }
        Ok(())
    }

    /// Address of a member.
    pub fn address_of(&self, member: usize) -> Ipv4Addr {
        self.address(FIRST_MEMBER.saturating_add(u8::try_from(member).unwrap_or(u8::MAX)))
    }

    /// Command that runs a program in a member's namespace.
    pub fn command(&self, member: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(member)]);
        command
    }

    /// Unplugs a member's cable, or plugs it in again.
    pub fn plug(&self, member: usize, plugged: bool) -> Result<(), String> {
        let state = if plugged { "up" } else { "down" };
        ip(&format!("link set {} {state}", self.cable(member)))
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(NETWORK[0], NETWORK[1], self.third, last)
    }

    fn bridge(&self) -> String {
        format!("{}b", self.name)
    }

    fn namespace(&self, member: usize) -> String {
        format!("{}-{member}", self.name)
    }

    fn cable(&self, member: usize) -> String {
        format!("{}v{member}", self.name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for member in 0..self.members {
            let _ = ip(&format!("netns del {}", self.namespace(member)));
            // Removed with its peer, unless that was never made.
            let _ = ip(&format!("link del {}", self.cable(member)));
        }
        let _ = ip(&format!("link del {}", self.bridge()));
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    let done = done.map_err(|error| format!("ip {arguments}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&done.stderr))),
    }
}
