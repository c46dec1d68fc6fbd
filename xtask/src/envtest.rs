//! Assets for controller tests: what `setup-envtest` downloads, made of Kevel's programs.
//!
//! ```text
//! DIR/1.36.3-linux-amd64/{etcd,kube-apiserver,kubectl}   what KUBEBUILDER_ASSETS names
//! DIR/envtest-v1.36.3-linux-amd64.tar.gz                 the same, packed: the same bytes of the same programs
//! DIR/envtest-releases.yaml                              index of the archives in DIR, for setup-envtest --index
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use ring::digest::SHA512;

use crate::package::archive::{ArchiveEntry, PROGRAM, gzip, tar, with_folders};
use crate::package::build::cross;
use crate::package::{BuildTime, PackageError, hexadecimal};

/// Version of the assets, as setup-envtest reads versions: without Kevel's suffix.
const VERSION: &str = "1.36.3";

/// URL at which DIR is served without `--url`: that of `python3 -m http.server` there.
const URL: &str = "http://localhost:8000";

const INDEX: &str = "envtest-releases.yaml";

/// Folder of the programs in an archive, as in those of setup-envtest's default index.
const PACKED: &str = "controller-tools/envtest";

/// Names of an architecture: Rust's and Go's.
const ARCHITECTURES: [(&str, &str); 2] = [("x86_64", "amd64"), ("aarch64", "arm64")];

/// Reason that the assets are not made.
#[derive(Debug, thiserror::Error)]
pub enum EnvtestError {
    /// A program is not there.
    #[error("cannot start {0}: {1}")]
    Start(String, io::Error),
    /// A program has failed, and has said why.
    #[error("{0} has failed{1}")]
    Failed(String, &'static str),
    /// A file cannot be read or written.
    #[error("{}: {_1}", _0.display())]
    File(PathBuf, io::Error),
    /// There are no assets for the target.
    #[error("no assets for {0}: targets begin with x86_64 or aarch64")]
    Target(String),
    /// The archive cannot be made.
    #[error(transparent)]
    Archive(#[from] PackageError),
}

/// Assets to make.
struct Assets<'a> {
    folder: &'a Path,
    profile: &'a str,
    /// Rust's name of the target; that of this machine if there is none.
    target: Option<&'a str>,
    url: &'a str,
}

impl<'a> Assets<'a> {
    fn parse(arguments: &[&'a str]) -> Option<Assets<'a>> {
        let (folder, mut rest) = arguments.split_first()?;
        let mut assets =
            Assets { folder: Path::new(*folder), profile: "release", target: None, url: URL };
        while let [flag, value, more @ ..] = rest {
            match *flag {
                "--profile" => assets.profile = value,
                "--target" => assets.target = Some(value),
                "--url" => assets.url = value.trim_end_matches('/'),
                _ => return None,
            }
            rest = more;
        }
        (rest.is_empty() && !folder.starts_with('-')).then_some(assets)
    }

    /// Go's name of the architecture.
    fn architecture(&self) -> Result<&'static str, EnvtestError> {
        let name = self.target.unwrap_or(env::consts::ARCH);
        let known = ARCHITECTURES.iter().find(|(rust, _)| name.starts_with(rust));
        known.map(|(_, go)| *go).ok_or_else(|| EnvtestError::Target(name.to_owned()))
    }
}

/// Whether these are arguments of the command.
pub fn takes(arguments: &[&str]) -> bool {
    Assets::parse(arguments).is_some()
}

/// Builds the programs, and makes folder, archive and index of them.
pub fn run(arguments: &[&str]) -> Result<(), EnvtestError> {
    let Some(assets) = Assets::parse(arguments) else { return Ok(()) };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let architecture = assets.architecture()?;
    let built = build(&assets, root)?;
    let programs = [
        ("etcd", built.join("kevel-etcd")),
        ("kube-apiserver", built.join("kube-apiserver")),
        ("kubectl", build_kubectl(root, architecture)?),
    ];
    let folder = assets.folder.join(format!("{VERSION}-linux-{architecture}"));
    make_folder(&folder)?;
    for (name, program) in programs {
        // A program that runs cannot be written to, but removed.
        let _ = fs::remove_file(folder.join(name));
        fs::copy(&program, folder.join(name)).map_err(at(&program))?;
    }
    let archive = format!("envtest-v{VERSION}-linux-{architecture}.tar.gz");
    let archive = assets.folder.join(archive);
    fs::write(&archive, pack(&folder, &BuildTime::find(root)?)?).map_err(at(&archive))?;
    write_index(assets.folder, assets.url)?;
    let absolute = |path: PathBuf| path.canonicalize().unwrap_or(path).display().to_string();
    println!("export KUBEBUILDER_ASSETS={}", absolute(folder));
    println!("setup-envtest use {VERSION} --index {}/{INDEX}   # DIR served there", assets.url);
    Ok(())
}

/// Builds the server and the stand-in for etcd. Returns the folder that they are in.
fn build(assets: &Assets<'_>, root: &Path) -> Result<PathBuf, EnvtestError> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--locked", "--bins", "--profile", assets.profile]);
    cargo.args(["--package", "kube-apiserver", "--package", "kevel-envtest-etcd"]);
    if let Some(target) = assets.target {
        cargo.args(["--target", target]);
        cross(&mut cargo, target);
    }
    succeed(&mut cargo, "cargo build", "")?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = assets.target.map_or(target.clone(), |triple| target.join(triple));
    Ok(target.join(if assets.profile == "dev" { "debug" } else { assets.profile }))
}

/// Builds kubectl of the version that `conformance/go.mod` pins. Returns its path.
fn build_kubectl(root: &Path, architecture: &str) -> Result<PathBuf, EnvtestError> {
    let cache = env::var_os("KEVEL_CACHE").map(PathBuf::from);
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/kevel"));
    let cache = cache.or(home).unwrap_or_else(|| root.join("target/kevel"));
    let is_own = ARCHITECTURES.contains(&(env::consts::ARCH, architecture));
    let cache = if is_own { cache } else { cache.join(architecture) };
    let mut build = Command::new(root.join("conformance/build"));
    build.arg("kubectl").env("KEVEL_CACHE", &cache).env("GOARCH", architecture);
    let remedy = ": kubectl is built from source. Put Go (1.26 or newer) on the PATH, with access to a module proxy";
    succeed(&mut build, "conformance/build kubectl", remedy)?;
    Ok(cache.join("bin/kubectl"))
}

/// An archive of the programs of a folder.
fn pack(folder: &Path, time: &BuildTime) -> Result<Vec<u8>, EnvtestError> {
    let mut entries = Vec::new();
    for file in fs::read_dir(folder).map_err(at(folder))? {
        let path = file.map_err(at(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(&path).map_err(at(&path))?;
        entries.push(ArchiveEntry::file(format!("{PACKED}/{name}"), PROGRAM, bytes));
    }
    Ok(gzip(&tar(&with_folders(entries), time)?)?)
}

/// Writes the index of all archives of this version in a folder.
fn write_index(folder: &Path, url: &str) -> Result<(), EnvtestError> {
    let mut index = format!("releases:\n  v{VERSION}:\n");
    for (_, architecture) in ARCHITECTURES {
        let name = format!("envtest-v{VERSION}-linux-{architecture}.tar.gz");
        let path = folder.join(&name);
        if path.exists() {
            let hash = hexadecimal(&SHA512, &fs::read(&path).map_err(at(&path))?);
            let entry = format!("    {name}:\n      hash: {hash}\n      selfLink: {url}/{name}\n");
            index.push_str(&entry);
        }
    }
    let path = folder.join(INDEX);
    fs::write(&path, index).map_err(at(&path))
}

fn make_folder(folder: &Path) -> Result<(), EnvtestError> {
    fs::create_dir_all(folder).map_err(at(folder))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> EnvtestError {
    let path = path.to_owned();
    move |error| EnvtestError::File(path, error)
}

fn succeed(command: &mut Command, name: &str, remedy: &'static str) -> Result<(), EnvtestError> {
    let status = command.status().map_err(|error| EnvtestError::Start(name.to_owned(), error))?;
    status.success().then_some(()).ok_or_else(|| EnvtestError::Failed(name.to_owned(), remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_a_folder_and_pairs() {
        for (arguments, expected) in [
            (&["assets"][..], true),
            (&["assets", "--profile", "dev", "--url", "http://x/"], true),
            (&["assets", "--target", "aarch64-unknown-linux-musl"], true),
            (&[], false),
            (&["--profile", "dev"], false),
            (&["assets", "--profile"], false),
            (&["assets", "more"], false),
        ] {
            assert_eq!(takes(arguments), expected, "{arguments:?}");
        }
    }

    #[test]
    fn index_lists_the_archives_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("envtest-v1.36.3-linux-arm64.tar.gz"), "abc").unwrap();
        write_index(folder.path(), "http://x").unwrap();
        let index = fs::read_to_string(folder.path().join(INDEX)).unwrap();
        let hash = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                    2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";
        let name = "envtest-v1.36.3-linux-arm64.tar.gz";
        let expected = format!(
            "releases:\n  v1.36.3:\n    {name}:\n      hash: {hash}\n      selfLink: http://x/{name}\n"
        );
        assert_eq!(index, expected);
    }

    #[test]
    fn same_programs_are_packed_into_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let packed = ["first", "second"].map(|name| {
            let programs = folder.path().join(name);
            make_folder(&programs).unwrap();
            // In another order, with the times and modes that they happen to have.
            for program in if name == "first" { ["etcd", "kubectl"] } else { ["kubectl", "etcd"] } {
                fs::write(programs.join(program), program).unwrap();
            }
            pack(&programs, &BuildTime(7)).unwrap()
        });
        assert_eq!(packed[0], packed[1]);
        let archive = folder.path().join("archive.tar.gz");
        fs::write(&archive, &packed[0]).unwrap();
        let mut tar = Command::new("tar");
        let listed = tar.arg("-tzf").arg(archive).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.contains("controller-tools/envtest/etcd\n"), "{listed}");
    }
}
