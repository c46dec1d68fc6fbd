//! A network of the members' own: each in a network namespace, on one bridge. A cable that is pulled loses packets in
//! silence, where a proxy that is closed ends connections.

use std::net::Ipv4Addr;
use std::process::Command;

/// Addresses of benchmarks (RFC 2544), which lead nowhere: the third byte is the network's.
const NETWORK: [u8; 2] = [198, 18];
/// The last byte of the bridge's address; members count from the other.
const BRIDGE: u8 = 1;
const FIRST_MEMBER: u8 = 10;

/// The network, taken away when dropped.
#[derive(Debug)]
pub struct Network {
    /// What all names begin with.
    name: String,
    third: u8,
    members: usize,
}

impl Network {
    /// Why there can be none, if so.
    pub fn impossible() -> Option<&'static str> {
        if !rustix::process::geteuid().is_root() {
            return Some("root");
        }
        let known = Command::new("ip").args(["netns", "list"]).output();
        (!known.is_ok_and(|known| known.status.success())).then_some("ip netns")
    }

    /// Makes one for so many members.
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

    /// Where a member is.
    pub fn address_of(&self, member: usize) -> Ipv4Addr {
        self.address(FIRST_MEMBER.saturating_add(u8::try_from(member).unwrap_or(u8::MAX)))
    }

    /// What a program is started by that is to run where a member is.
    pub fn command(&self, member: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(member)]);
        command
    }

    /// Pulls a member's cable, or puts it in again.
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
            // Gone with its other end, unless that was never made.
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
