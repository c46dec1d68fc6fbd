//! Building the program: static, for musl, and with no path of the machine in them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::PackageError;
use super::program::ARCHITECTURES;

/// Variable with definitions that SQLite is compiled with (`.cargo/config.toml`).
const SQLITE_FLAGS: &str = "LIBSQLITE3_FLAGS";
const NO_LARGE_FILE_NAMES: &str = "-DSQLITE_DISABLE_LFS";

/// Says which programs are built, and how.
#[derive(Debug)]
pub struct ProgramBuilder<'a> {
    /// None: that of this machine, for musl.
    pub targets: Vec<&'a str>,
    pub profile: &'a str,
    pub target_dir: Option<&'a Path>,
}

impl Default for ProgramBuilder<'_> {
    fn default() -> Self {
        ProgramBuilder { targets: Vec::new(), profile: "dist", target_dir: None }
    }
}

impl ProgramBuilder<'_> {
    /// Builds for each target; the programs' paths.
    pub fn build(&self, root: &Path) -> Result<Vec<PathBuf>, PackageError> {
        let own = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let targets =
            if self.targets.is_empty() { vec![own.as_str()] } else { self.targets.clone() };
        targets.into_iter().map(|target| self.build_for(target, root)).collect()
    }

    /// Builds for one target; the program's path.
    fn build_for(&self, target: &str, root: &Path) -> Result<PathBuf, PackageError> {
        let architecture = target.split('-').next().unwrap_or_default();
        if !ARCHITECTURES.iter().any(|known| known.name == architecture) {
            return Err(PackageError::Target(target.to_owned()));
        }
        let default = root.join("target/packages");
        let target_dir = self.target_dir.unwrap_or(&default);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(root);
        command.args(["build", "--locked", "--package=kube-apiserver"]);
        command.args(["--profile", self.profile, "--target", target]);
        command.arg("--target-dir").arg(target_dir);
        command.env("CARGO_ENCODED_RUSTFLAGS", flags(root).join("\u{1f}"));
        cross(&mut command, target);
        let status = command.status();
        let status = status
            .map_err(|source| PackageError::Start { program: "cargo build".to_owned(), source })?;
        if !status.success() {
            let output = "see above".to_owned();
            return Err(PackageError::Failed { program: "cargo build".to_owned(), output });
        }
        // The folder of the profile `dev` has another name.
        let profile = if self.profile == "dev" { "debug" } else { self.profile };
        Ok(target_dir.join(target).join(profile).join("kube-apiserver"))
    }
}

/// Prepares a build for a target: for another architecture the compiler of Debian's cross tools, unless the environment
/// names one.
pub fn cross(command: &mut Command, target: &str) {
    let architecture = target.split('-').next().unwrap_or_default();
    if architecture == std::env::consts::ARCH {
        return;
    }
    let gcc = format!("{architecture}-linux-gnu-gcc");
    let name = target.replace('-', "_");
    let upper = name.to_uppercase();
    for variable in [format!("CC_{name}"), format!("CARGO_TARGET_{upper}_LINKER")] {
        if std::env::var_os(&variable).is_none() {
            command.env(variable, &gcc);
        }
    }
    // That compiler has the headers of glibc, whose names for large files (`open64`) musl does not have. Files are large
    // without them where pointers have 64 bits.
    let flags = std::env::var(SQLITE_FLAGS).unwrap_or_default();
    command.env(SQLITE_FLAGS, format!("{flags} {NO_LARGE_FILE_NAMES}"));
}

/// Rust's flags: no library is linked dynamically, and paths of the machine get names that are the same everywhere.
fn flags(root: &Path) -> Vec<String> {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    let mut renamed = |path: PathBuf, name: &str| {
        flags.push(format!("--remap-path-prefix={}={name}", path.display()));
    };
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    for (variable, folder, name) in
        [("CARGO_HOME", ".cargo", "/cargo"), ("RUSTUP_HOME", ".rustup", "/rustup")]
    {
        let set = std::env::var_os(variable).map(PathBuf::from);
        renamed(set.unwrap_or_else(|| home.join(folder)), name);
    }
    renamed(root.to_owned(), "/kevel");
    flags
}

/// Standard output of a program that has to succeed.
pub fn output(command: &mut Command) -> Result<String, PackageError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output();
    let output =
        output.map_err(|source| PackageError::Start { program: program.clone(), source })?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(PackageError::Failed { program, output });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::cross;

    #[test]
    fn other_architectures_get_a_compiler_and_sqlite_without_large_files() {
        let own = std::env::consts::ARCH;
        let other = if own == "aarch64" { "x86_64" } else { "aarch64" };
        for (architecture, expected) in [(own, 0), (other, 3)] {
            let mut command = Command::new("cargo");
            cross(&mut command, &format!("{architecture}-unknown-linux-musl"));
            assert_eq!(command.get_envs().count(), expected, "{architecture}");
            let gcc = format!("{architecture}-linux-gnu-gcc");
            for (name, value) in command.get_envs() {
                let value = value.unwrap_or_default().to_string_lossy();
                let is_right = value == gcc || value.ends_with("-DSQLITE_DISABLE_LFS");
                assert!(is_right, "{name:?}={value}");
            }
        }
    }
}
