//! The Go command.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::Result;

/// A Go toolchain.
#[derive(Clone, Debug)]
pub struct Go {
    program: PathBuf,
}

impl Go {
    /// Toolchain at this path.
    pub fn new(program: PathBuf) -> Self {
        Go { program }
    }

    /// Standard output of a command that must succeed, in a folder.
    pub async fn run(&self, folder: &Path, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.program)
            .args(arguments)
            .current_dir(folder)
            // As in `conformance/build`, so that packages that it compiled are not compiled again.
            .env("CGO_ENABLED", "0")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("go {}: {said}", arguments.join(" ")).into())
            }
        }
    }
}
