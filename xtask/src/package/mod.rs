//! Packages of the program: archives, images, and packages of the systems and languages that people use.
//!
//! Each kind is a file here with a function from [`Inputs`] to the bytes of its packages, and a line in [`KINDS`]; what
//! stands in a package beside the programs is in `packaging/`. All archives are made of sorted entries, with the time of the
//! commit and without anything of the machine, so that the same sources and programs give the same bytes.

pub mod archive;
mod binary;
pub mod build;
mod deb;
mod image;
mod inputs;
mod licenses;
mod maven;
mod npm;
mod program;
mod time;
mod wheel;

use std::io;
use std::path::{Path, PathBuf};

use build::ProgramBuilder;
use inputs::Inputs;
use ring::digest;
pub use time::BuildTime;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("{program} failed: {output}")]
    Failed { program: String, output: String },
    #[error("{}: no 64-bit Linux program of a known architecture", .0.display())]
    Program(PathBuf),
    #[error("two programs for {0}")]
    TwoPrograms(&'static str),
    #[error("no architecture of the target {0}")]
    Target(String),
    #[error("{0} is linked dynamically: an image has no libraries")]
    Dynamic(&'static str),
    #[error("a folder for a while: {0}")]
    Scratch(io::Error),
    #[error("archive: {0}")]
    Archive(io::Error),
    #[error("{0}: too long a name for the archive")]
    LongName(String),
    #[error("cargo metadata: {0}")]
    Metadata(&'static str),
    #[error("no licence text is known for {0}")]
    NoLicense(String),
    #[error("SOURCE_DATE_EPOCH, or the commit's time, is no time: {0:?}")]
    Time(String),
    #[error("{0} in packaging/ is not UTF-8, or has a placeholder that is not filled")]
    Template(String),
}

impl PackageError {
    /// Error of a file.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> PackageError {
        let path = path.to_owned();
        move |source| PackageError::File { path, source }
    }
}

/// A file to be written: its name and content.
#[derive(Debug)]
struct PackageFile {
    name: String,
    bytes: Vec<u8>,
}

type MakePackages = fn(&Inputs) -> Result<Vec<PackageFile>, PackageError>;

/// Kinds of packages, and what makes them.
const KINDS: [(&str, MakePackages); 6] = [
    ("binary", binary::make),
    ("image", image::make),
    ("deb", deb::make),
    ("wheel", wheel::make),
    ("npm", npm::make),
    ("maven", maven::make),
];

/// The file with the checksums of all others.
const SUMS: &str = "SHA256SUMS";

/// Arguments of the command.
#[derive(Debug)]
struct PackageArguments<'a> {
    kinds: Vec<(&'static str, MakePackages)>,
    folder: &'a Path,
    programs: Vec<&'a Path>,
    builder: ProgramBuilder<'a>,
}

impl<'a> PackageArguments<'a> {
    fn parse(arguments: &[&'a str]) -> Option<Self> {
        let [kind, folder, rest @ ..] = arguments else { return None };
        let kinds = KINDS.into_iter().filter(|(name, _)| *kind == "all" || kind == name).collect();
        let mut parsed = PackageArguments {
            kinds,
            folder: Path::new(*folder),
            programs: Vec::new(),
            builder: ProgramBuilder::default(),
        };
        let mut rest = rest.iter();
        while let Some(argument) = rest.next() {
            let value = *rest.next()?;
            match *argument {
                "--binary" => parsed.programs.push(Path::new(value)),
                "--target" => parsed.builder.targets.push(value),
                "--profile" => parsed.builder.profile = value,
                "--target-dir" => parsed.builder.target_dir = Some(Path::new(value)),
                _ => return None,
            }
        }
        (!parsed.kinds.is_empty() && !folder.starts_with('-')).then_some(parsed)
    }
}

/// Whether these are arguments of the command.
pub fn takes(arguments: &[&str]) -> bool {
    PackageArguments::parse(arguments).is_some()
}

/// Makes the packages, building the programs if none are given, and the checksums of all files in the folder.
pub fn run(arguments: &[&str]) -> Result<(), PackageError> {
    let Some(arguments) = PackageArguments::parse(arguments) else { return Ok(()) };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let inputs = if arguments.programs.is_empty() {
        let built = arguments.builder.build(root)?;
        Inputs::read(root, &built.iter().map(PathBuf::as_path).collect::<Vec<&Path>>())?
    } else {
        Inputs::read(root, &arguments.programs)?
    };
    std::fs::create_dir_all(arguments.folder).map_err(PackageError::at(arguments.folder))?;
    for (_, make) in &arguments.kinds {
        for PackageFile { name, bytes } in make(&inputs)? {
            let path = arguments.folder.join(&name);
            std::fs::write(&path, &bytes).map_err(PackageError::at(&path))?;
            println!("{:>10.1} MiB  {}", bytes.len() as f64 / f64::from(1 << 20), path.display());
        }
    }
    write_sums(arguments.folder)
}

/// Writes the checksums of all files of a folder, as `sha256sum --check` reads them.
fn write_sums(folder: &Path) -> Result<(), PackageError> {
    let mut lines = Vec::new();
    for file in std::fs::read_dir(folder).map_err(PackageError::at(folder))? {
        let file = file.map_err(PackageError::at(folder))?;
        let (path, name) = (file.path(), file.file_name().to_string_lossy().into_owned());
        if path.is_file() && name != SUMS {
            let bytes = std::fs::read(&path).map_err(PackageError::at(&path))?;
            lines.push((name, sha256(&bytes)));
        }
    }
    lines.sort();
    let text: String = lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    let path = folder.join(SUMS);
    std::fs::write(&path, text).map_err(PackageError::at(&path))
}

/// SHA-256 of bytes, in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&digest::SHA256, bytes)
}

/// Digest of bytes, in hexadecimal digits.
pub fn hexadecimal(algorithm: &'static digest::Algorithm, bytes: &[u8]) -> String {
    let digest = digest::digest(algorithm, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256_bytes(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

#[cfg(test)]
mod tests;
