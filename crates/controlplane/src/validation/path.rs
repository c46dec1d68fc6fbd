//! Validation of file paths.

use super::Field;

impl Field<'_, '_> {
    /// Checks that a path has no `..`.
    pub fn no_backsteps(&self) {
        if self.str().split('/').any(|part| part == "..") {
            self.invalid("must not contain '..'");
        }
    }

    /// Checks that a path is relative and has no `..`.
    pub fn local_descending_path(&self) {
        if self.str().starts_with('/') {
            self.invalid("must be a relative path");
        }
        self.no_backsteps();
    }

    /// Checks that a path is relative, has no `..` and does not begin with two dots.
    pub fn local_unreserved_path(&self) {
        self.local_descending_path();
        if self.str().starts_with("..") && !self.str().starts_with("../") {
            self.invalid("must not start with '..'");
        }
    }

    /// Checks optional file permissions.
    pub fn file_mode(&self) {
        if self.is_set() && !(0..=0o777).contains(&self.int()) {
            self.invalid("must be a number between 0 and 0777 (octal), both inclusive");
        }
    }
}
