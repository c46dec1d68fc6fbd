//! Files that options name.

use std::fs::File;
use std::io;

/// Why the file cannot be opened, as the reference says it.
pub(super) fn read_error(path: &str) -> Option<String> {
    let error = File::open(path).err()?;
    let problem = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    Some(format!("open {path}: {problem}"))
}
