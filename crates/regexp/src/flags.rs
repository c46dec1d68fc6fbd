//! Flags of a group.

/// Flags in force at a position of a pattern: `(?imsU)`, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub fold: bool,
    pub multi_line: bool,
    pub dot_newline: bool,
    pub lazy: bool,
}
