//! Paths in file systems.

use super::Field;

impl Field<'_, '_> {
    /// A path that does not step back.
    pub fn no_backsteps(&self) {
        if self.str().split('/').any(|part| part == "..") {
            self.invalid("must not contain '..'");
        }
    }

    /// A path that leads down from where it starts.
    pub fn local_descending_path(&self) {
        if self.str().starts_with('/') {
            self.invalid("must be a relative path");
        }
        self.no_backsteps();
    }

    /// A path that leads down, to a name that is not reserved.
    pub fn local_unreserved_path(&self) {
        self.local_descending_path();
        if self.str().starts_with("..") && !self.str().starts_with("../") {
            self.invalid("must not start with '..'");
        }
    }

    /// The permissions of a file, where there are any.
    pub fn file_mode(&self) {
        if self.is_set() && !(0..=0o777).contains(&self.int()) {
            self.invalid("must be a number between 0 and 0777 (octal), both inclusive");
        }
    }
}
