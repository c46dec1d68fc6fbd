//! The programs that are packaged: which machines they are for, and whether they need libraries.

use std::path::Path;

use super::PackageError;

/// An architecture that packages are made for, and its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architecture {
    /// The kernel's, Rust's and Python's.
    pub name: &'static str,
    /// Debian's, Go's and so OCI's.
    pub debian: &'static str,
    /// Node's.
    pub node: &'static str,
    /// Java's (`os.arch`).
    pub java: &'static str,
    /// ELF's.
    machine: u16,
}

/// Architectures that packages are made for.
pub const ARCHITECTURES: [Architecture; 2] = [
    Architecture { name: "x86_64", debian: "amd64", node: "x64", java: "amd64", machine: 62 },
    Architecture { name: "aarch64", debian: "arm64", node: "arm64", java: "aarch64", machine: 183 },
];

/// A program file.
#[derive(Debug, Clone)]
pub struct ProgramFile {
    pub architecture: Architecture,
    /// Whether it runs without an interpreter, that is, without libraries.
    pub is_static: bool,
    pub bytes: Vec<u8>,
}

/// 64 bits, the least significant byte first.
const ELF: &[u8] = b"\x7fELF\x02\x01";
const MACHINE: usize = 18;
const HEADERS: usize = 32;
const HEADER_SIZE: usize = 54;
const HEADER_COUNT: usize = 56;
/// The type of a program header that names an interpreter.
const INTERPRETER: u32 = 3;

impl ProgramFile {
    pub fn read(path: &Path) -> Result<Self, PackageError> {
        let bytes = std::fs::read(path).map_err(PackageError::at(path))?;
        ProgramFile::parse(bytes).ok_or_else(|| PackageError::Program(path.to_owned()))
    }

    pub fn parse(bytes: Vec<u8>) -> Option<Self> {
        if !bytes.starts_with(ELF) {
            return None;
        }
        let machine = number(&bytes, MACHINE)?;
        let architecture = *ARCHITECTURES.iter().find(|known| known.machine == machine)?;
        let start = usize::try_from(u64::from_le_bytes(array(&bytes, HEADERS)?)).ok()?;
        let (size, count) = (number(&bytes, HEADER_SIZE)?, number(&bytes, HEADER_COUNT)?);
        let mut is_static = true;
        for index in 0..usize::from(count) {
            let header = start.checked_add(index * usize::from(size))?;
            is_static &= u32::from_le_bytes(array(&bytes, header)?) != INTERPRETER;
        }
        Some(ProgramFile { architecture, is_static, bytes })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::ProgramFile;
    use crate::package::tests::elf;

    #[test]
    fn programs_are_known_by_their_headers() {
        for (machine, headers, expected) in [
            (62, &[1u32, 2][..], Some(("amd64", true))),
            (183, &[1, 3], Some(("arm64", false))),
            (183, &[], Some(("arm64", true))),
            (40, &[1], None),
        ] {
            let read = ProgramFile::parse(elf(machine, headers));
            let found = read.map(|program| (program.architecture.debian, program.is_static));
            assert_eq!(found, expected);
        }
        let whole = elf(62, &[1, 2]);
        for end in 0..whole.len() {
            assert!(ProgramFile::parse(whole[..end].to_vec()).is_none(), "{end}");
        }
    }
}
