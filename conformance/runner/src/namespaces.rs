//! Namespaces for a control plane with a real node: mounts, network, processes, host name and IPC of
//! their own. When their first process is killed everything in them is gone; only control groups
//! stay, and [`Namespaces::end`] removes those.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Result;
use crate::control_plane::tree;
use crate::process::Process;

/// The node's address. Nobody outside of the namespaces sees it.
pub const ADDRESS: &str = "10.250.0.1";
/// Set for programs that are started inside.
const INSIDE: &str = "KEVEL_INSIDE";
/// Where the hierarchies of control groups are.
const CGROUPS: &str = "/sys/fs/cgroup";
/// How long namespaces may take to be there, and to go.
const LIMIT: Duration = Duration::from_secs(30);

/// Namespaces that were made.
#[derive(Debug)]
pub struct Namespaces {
    folder: PathBuf,
    first: Process,
}

/// Whether this process runs in the namespaces of a node.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The node's group in every hierarchy of control groups, told to what runs inside.
pub fn cgroup() -> Result<String> {
    Ok(std::env::var(INSIDE)?)
}

impl Namespaces {
    /// Makes them, with what they hold in a folder.
    pub fn make(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let script = tree().join("conformance/node/init.sh").display().to_string();
        let place = folder.display().to_string();
        let words = "--mount --net --pid --uts --ipc --fork --mount-proc --propagation private";
        let arguments: Vec<String> = words
            .split(' ')
            .chain([script.as_str(), place.as_str(), ADDRESS])
            .map(str::to_owned)
            .collect();
        let outer = Process::spawn("unshare", Path::new("unshare"), &arguments, folder)?;
        let ready = folder.join("ready");
        until("the namespaces are not there", || ready.exists() || !outer.is_alive())?;
        let first = outer.child().ok_or_else(|| outer.last_words())?;
        let namespaces = Namespaces { folder: folder.to_owned(), first };
        fs::write(folder.join("namespaces.json"), namespaces.first.to_json().to_string())?;
        namespaces.make_cgroups()?;
        Ok(namespaces)
    }

    /// Those that an earlier command made in a folder.
    pub fn open(folder: &Path) -> Option<Self> {
        let text = fs::read(folder.join("namespaces.json")).ok()?;
        let first = Process::from_json(&serde_json::from_slice(&text).ok()?)?;
        Some(Namespaces { folder: folder.to_owned(), first })
    }

    /// Runs a program inside, and waits for it; whether it ended well.
    pub fn run(&self, program: &Path, arguments: &[String]) -> Result<bool> {
        if !self.first.is_alive() {
            return Err("the node has ended: conformance down".into());
        }
        let status = Command::new("nsenter")
            .arg(format!("--target={}", self.first.pid))
            .args(["--mount", "--net", "--pid", "--uts", "--ipc"])
            .arg(format!("--wdns={}", std::env::current_dir()?.display()))
            .arg("--")
            .arg(program)
            .args(arguments)
            .env(INSIDE, self.cgroup())
            .env("KUBECONFIG", self.folder.with_file_name("pki").join("admin.kubeconfig"))
            .status()?;
        Ok(status.success())
    }

    /// Runs the command that this process was given once more, inside.
    pub fn run_again(&self) -> Result<bool> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        self.run(&std::env::current_exe()?, &arguments)
    }

    /// Ends everything inside and takes away what it left. Fails when something stays.
    pub fn end(self) -> Result<()> {
        let spaces = self.spaces();
        self.first.kill();
        until("the node does not end", || !self.first.is_alive())?;
        until("processes of the node stay", || users_of(&spaces).is_empty())?;
        until("control groups of the node stay", || {
            self.cgroups().iter().for_each(|group| remove_groups(group));
            self.cgroups().iter().all(|group| !group.exists())
        })?;
        let place = self.folder.display().to_string();
        until("mounts of the node stay", || {
            !fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().contains(&place)
        })?;
        // Containers' files, of no more use than the containers.
        until("files of the node stay", || match fs::remove_dir_all(self.folder.join("lib")) {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::NotFound,
        })?;
        Ok(fs::remove_file(self.folder.join("namespaces.json"))?)
    }

    fn cgroup(&self) -> String {
        format!("/kevel-node-{}", self.first.pid)
    }

    /// The node's group in each hierarchy (cgroup v1, and the one of v2 beside them, which runc uses too).
    fn cgroups(&self) -> Vec<PathBuf> {
        let hierarchies = fs::read_dir(CGROUPS).into_iter().flatten().flatten();
        hierarchies
            .map(|entry| entry.path())
            .filter(|path| path.join("cgroup.procs").exists())
            .map(|path| path.join(self.cgroup().trim_start_matches('/')))
            .collect()
    }

    fn make_cgroups(&self) -> Result<()> {
        for group in self.cgroups() {
            fs::create_dir_all(&group)?;
            // A group of this hierarchy runs nothing before it is told where.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let whole = group.with_file_name(file);
                if whole.exists() {
                    fs::write(group.join(file), fs::read(whole)?)?;
                }
            }
        }
        Ok(())
    }

    /// The namespaces by their numbers, to find who is left in them.
    fn spaces(&self) -> Vec<PathBuf> {
        let space = |name: &str| fs::read_link(format!("/proc/{}/ns/{name}", self.first.pid)).ok();
        let alive = self.first.is_alive();
        ["mnt", "net", "pid"].into_iter().filter(|_| alive).filter_map(space).collect()
    }
}

/// Processes in any of the namespaces. One that has ended and is not yet buried has none.
fn users_of(spaces: &[PathBuf]) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let uses = |process: &PathBuf| {
        ["mnt", "net", "pid"].iter().any(|name| {
            fs::read_link(process.join("ns").join(name)).is_ok_and(|space| spaces.contains(&space))
        })
    };
    processes.filter(uses).collect()
}

/// Removes a control group with those in it, the innermost first.
fn remove_groups(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&entry.path());
        }
    }
    // It stays while a process in it has not yet ended; whoever called looks again.
    let _ = fs::remove_dir(group);
}

fn until(problem: &str, done: impl Fn() -> bool) -> Result<()> {
    let limit = Instant::now() + LIMIT;
    while !done() {
        if Instant::now() > limit {
            return Err(format!("{problem} after {LIMIT:?}").into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
