//! Linux namespaces for a control plane with a real node: mounts, network, processes, hostname and IPC. When their
//! first process is killed everything in them ends; only cgroups remain, which [`Namespaces::end`] removes.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Result;
use crate::control_plane::tree;
use crate::process::Process;

/// Address of the node, not visible outside of the namespaces.
pub const ADDRESS: &str = "10.250.0.1";
/// Environment variable of programs that run inside.
const INSIDE: &str = "KEVEL_INSIDE";
/// Mount point of the cgroup hierarchies.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Time limit for namespaces to start, and to end.
const LIMIT: Duration = Duration::from_secs(30);

/// Linux namespaces of a node.
#[derive(Debug)]
pub struct Namespaces {
    folder: PathBuf,
    first: Process,
}

/// Whether this process runs in the namespaces of a node.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Cgroup of the node in every hierarchy, for programs that run inside.
pub fn cgroup() -> Result<String> {
    Ok(std::env::var(INSIDE)?)
}

impl Namespaces {
    /// Makes namespaces, with their state in a folder.
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

    /// Namespaces that an earlier command made in a folder.
    pub fn open(folder: &Path) -> Option<Self> {
        let text = fs::read(folder.join("namespaces.json")).ok()?;
        let first = Process::from_json(&serde_json::from_slice(&text).ok()?)?;
        Some(Namespaces { folder: folder.to_owned(), first })
    }

    /// Runs a program inside, and waits for it; returns whether it succeeded.
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

    /// Runs the current command again, inside.
    pub fn run_again(&self) -> Result<bool> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        self.run(&std::env::current_exe()?, &arguments)
    }

    /// Ends everything inside and removes its remains. Fails if something remains.
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
        // Files of containers.
        until("files of the node stay", || match fs::remove_dir_all(self.folder.join("lib")) {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::NotFound,
        })?;
        Ok(fs::remove_file(self.folder.join("namespaces.json"))?)
    }

    fn cgroup(&self) -> String {
        format!("/kevel-node-{}", self.first.pid)
    }

    /// Cgroup of the node in each hierarchy (cgroup v1, and the v2 hierarchy beside them, which runc uses too).
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
            // A cpuset cgroup cannot have processes before its CPUs and memory nodes are set.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let whole = group.with_file_name(file);
                if whole.exists() {
                    fs::write(group.join(file), fs::read(whole)?)?;
                }
            }
        }
        Ok(())
    }

    /// Namespaces by inode, to find remaining processes in them.
    fn spaces(&self) -> Vec<PathBuf> {
        let space = |name: &str| fs::read_link(format!("/proc/{}/ns/{name}", self.first.pid)).ok();
        let alive = self.first.is_alive();
        ["mnt", "net", "pid"].into_iter().filter(|_| alive).filter_map(space).collect()
    }
}

/// Processes in any of the namespaces. A zombie has none.
fn users_of(spaces: &[PathBuf]) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let uses = |process: &PathBuf| {
        ["mnt", "net", "pid"].iter().any(|name| {
            fs::read_link(process.join("ns").join(name)).is_ok_and(|space| spaces.contains(&space))
        })
    };
    processes.filter(uses).collect()
}

/// Removes a cgroup with its children, innermost first.
fn remove_groups(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&entry.path());
        }
    }
    // Fails while a process in it has not ended; the caller retries.
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
