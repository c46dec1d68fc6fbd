//! Where the command ends and the server begins.

use crate::options::CompletedOptions;

/// Runs the server until it is told to stop.
pub fn run(options: CompletedOptions) -> Result<(), Box<dyn std::error::Error>> {
    let storage = options.storage;
    Err(format!("not built yet: no server stands behind the options (storage {storage:?})").into())
}
