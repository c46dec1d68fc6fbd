//! Files that options name.

use std::fs::File;
use std::io;

/// Error of opening the file, in the reference's words.
pub(super) fn read_error(path: &str) -> Option<String> {
    let error = File::open(path).err()?;
    Some(format!("open {path}: {}", file_problem(&error)))
}

/// Problem of a file in the reference's words.
pub(crate) fn file_problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}
