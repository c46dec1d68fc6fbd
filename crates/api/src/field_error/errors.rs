//! Errors about one object, bounded in number and size.

use std::ops::Deref;

use super::FieldError;

/// Limit on reported errors about one object. The reference reports all, so that one request of 3 MiB can cause an
/// answer of gigabytes; a thousand errors are more than a user corrects at once.
pub const MAX_ERRORS: usize = 1000;
/// Limit on the text of reported errors, 3/8 of the largest request. The reference has no limit.
pub const MAX_ERROR_BYTES: usize = 1 << 20;

/// Errors found in one object. Those beyond [`MAX_ERRORS`] and [`MAX_ERROR_BYTES`] are counted and not kept.
///
/// ```
/// use kevel_api::field_error::{FieldError, FieldErrors, MAX_ERRORS, Path};
/// let mut errors = FieldErrors::new();
/// for _ in 0..MAX_ERRORS + 5 {
///     errors.add(|| FieldError::required(&Path::new("spec"), ""));
/// }
/// assert_eq!((errors.found(), errors.len(), errors.untold()), (1005, 1000, 5));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldErrors {
    told: Vec<FieldError>,
    bytes: usize,
    untold: usize,
    /// Position at which errors of another check are to be inserted.
    mark: Option<usize>,
}

impl FieldErrors {
    /// Makes an empty list.
    pub const fn new() -> Self {
        FieldErrors { told: Vec::new(), bytes: 0, untold: 0, mark: None }
    }

    /// Whether further errors are only counted.
    pub fn is_full(&self) -> bool {
        self.told.len() >= MAX_ERRORS || self.bytes >= MAX_ERROR_BYTES
    }

    /// Adds an error, which is made only if it is kept: printing a path and a value costs more than checking it.
    pub fn add(&mut self, error: impl FnOnce() -> FieldError) {
        match self.is_full() {
            true => self.untold += 1,
            false => self.keep(error()),
        }
    }

    /// Counts errors that are not kept.
    pub fn add_untold(&mut self, errors: usize) {
        self.untold += errors;
    }

    /// Adds an error.
    pub fn push(&mut self, error: FieldError) {
        self.add(|| error);
    }

    /// Adds errors of another list.
    pub fn append(&mut self, errors: FieldErrors) {
        self.untold += errors.untold;
        self.mark = self.mark.or(errors.mark.map(|mark| self.told.len() + mark));
        self.extend(errors.told);
    }

    /// Number of errors, kept or not.
    pub fn found(&self) -> usize {
        self.told.len() + self.untold
    }

    /// Number of errors that are not kept.
    pub fn untold(&self) -> usize {
        self.untold
    }

    /// Kept errors, for callers with limits of their own.
    pub fn into_told(self) -> Vec<FieldError> {
        self.told
    }

    /// Marks the position at which errors of another check are to be inserted.
    pub fn mark(&mut self) {
        self.mark = Some(self.told.len());
    }

    /// Errors before and after the mark; the list itself as the error if nothing was marked.
    pub fn split_at_mark(mut self) -> Result<(FieldErrors, FieldErrors), FieldErrors> {
        let Some(mark) = self.mark.take() else { return Err(self) };
        let mut after: FieldErrors = self.told.split_off(mark).into();
        after.untold = std::mem::take(&mut self.untold);
        Ok((self.told.into(), after))
    }

    fn keep(&mut self, error: FieldError) {
        self.bytes += error.size();
        self.told.push(error);
    }
}

/// Kept errors.
impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.told
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        let mut all = FieldErrors::new();
        all.extend(errors);
        all
    }
}

impl<const N: usize> From<[FieldError; N]> for FieldErrors {
    fn from(errors: [FieldError; N]) -> Self {
        errors.into_iter().collect()
    }
}

impl From<Vec<FieldError>> for FieldErrors {
    fn from(errors: Vec<FieldError>) -> Self {
        errors.into_iter().collect()
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        [error].into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_VALUE_BYTES, Path};
    use super::*;

    #[test]
    fn what_is_found_elsewhere_stands_at_the_mark() {
        let error = |name| FieldError::required(&Path::new(name), "");
        let mut inner = FieldErrors::from([error("b")]);
        inner.mark();
        inner.push(error("c"));
        let mut all = FieldErrors::from([error("a")]);
        all.append(inner);
        let (before, after) = all.split_at_mark().unwrap();
        assert_eq!(before, FieldErrors::from([error("a"), error("b")]));
        assert_eq!(after, FieldErrors::from([error("c")]));
        assert!(before.split_at_mark().is_err());
    }

    #[test]
    fn what_is_not_told_is_not_made() {
        let mut errors = FieldErrors::new();
        let value = "x".repeat(3 << 20);
        let mut made = 0;
        for _ in 0..10_000 {
            errors.add(|| {
                made += 1;
                FieldError::invalid(&Path::new("spec").key(&value), &*value, "no")
            });
        }
        assert_eq!(errors.found(), 10_000);
        assert!(made <= MAX_ERROR_BYTES / MAX_VALUE_BYTES, "{made}");
        assert_eq!((errors.len(), errors.untold()), (made, 10_000 - made));
        assert!(errors.iter().map(FieldError::size).sum::<usize>() < 2 * MAX_ERROR_BYTES);
    }

    #[test]
    fn errors_of_several_checks_are_counted_together() {
        let error = FieldError::required(&Path::new("a"), "");
        let many = || FieldErrors::from_iter((0..MAX_ERRORS - 1).map(|_| error.clone()));
        let mut errors = many();
        errors.append(many());
        assert_eq!((errors.len(), errors.untold()), (MAX_ERRORS, MAX_ERRORS - 2));
        errors.append(errors.clone());
        assert_eq!((errors.len(), errors.found()), (MAX_ERRORS, 4 * (MAX_ERRORS - 1)));
    }
}
