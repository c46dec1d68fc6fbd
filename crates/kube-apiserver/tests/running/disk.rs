//! A file system of a test's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use kevel_test_support::skip;

/// Size of the disk.
const DISK: &str = "size=48m";

/// A small file system, unmounted when dropped.
pub struct Disk(pub PathBuf);

impl Disk {
    /// `None` where this process may not mount one.
    pub fn mount(folder: &Path) -> Option<Disk> {
        std::fs::create_dir_all(folder).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(folder).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Disk(folder.to_owned())),
            other => {
                eprintln!("no file system can be mounted: {other:?}");
                let root = rustix::process::geteuid().is_root();
                skip(if root { "the right to mount" } else { "root" });
                None
            }
        }
    }
}

impl Disk {
    /// Takes all of its room.
    pub fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.0.join("ballast")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }

    /// Nothing can be written to it from now on.
    pub fn remount_read_only(&self) {
        let remounted =
            Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).output().unwrap();
        assert!(remounted.status.success(), "{remounted:?}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}
