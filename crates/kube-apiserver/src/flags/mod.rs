//! The command line: flags in sections, read by the rules of the reference's flag library.
//!
//! A table-driven parser of our own stands here rather than an argument-parsing crate. Users and
//! their manifests rely on rules that such crates do not have or fight against: `_` for `-` in
//! names, booleans that take a value only after `=`, lists that replace their default once and then
//! grow, a default text per value, deprecated and hidden flags that warn, and the exact error
//! messages. With all of those to be put back by hand, a crate would save nothing.

mod list;
mod map;
mod network;
mod number;
mod parse;
mod value;

pub use list::{Int32Slice, StringArray, Strings};
pub use map::{ConfigurationMap, Multimap, StringPairs, StringToString};
pub use network::{Cidr, NamedCertKey, NamedCertKeys, PortRange};
pub(crate) use number::{parse_bool, parse_uint};
pub use parse::{Parsed, parse};
pub use value::{Value, ValueType};

use std::collections::BTreeSet;

/// A section of the command line: a struct of options, a flag for each field.
pub trait Section {
    /// Name of the type in `--help`.
    fn name(&self) -> &'static str;

    /// The facts about its flags, in the order of its fields.
    fn flags(&self) -> &'static [Flag];

    /// The values of its fields, in the same order.
    fn values(&self) -> Vec<&dyn Value>;

    /// The value of one field.
    fn value_mut(&mut self, index: usize) -> Option<&mut dyn Value>;
}

/// The facts about one flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The name of the field; the flag has `-` for `_`.
    pub field: &'static str,
    /// Default value, as it would be written after `=`.
    pub default: &'static str,
    /// The lines of its help text.
    pub help: &'static [&'static str],
    /// Treatment of the flag.
    pub facts: Facts,
}

impl Flag {
    /// The name, as `--help` shows it.
    pub fn name(&self) -> String {
        self.field.replace('_', "-")
    }
}

/// Treatment of a flag by the server and by `--help`.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Whether the server acts on it.
    pub state: State,
    /// The letter that stands for it.
    pub short: Option<char>,
    /// Deprecation warning for users of the flag.
    pub deprecated: Option<&'static str>,
    /// Whether `--help` leaves it out.
    pub hidden: bool,
}

/// Whether the server acts on a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Works as its help says.
    Effective,
    /// No effect, because the behaviour is fixed: its help says why.
    Moot,
    /// Parsed and validated, but without an effect yet: the log names it.
    Pending,
    /// No effect yet, and security rests on it: the server refuses to start, with this message.
    Refused(&'static str),
}

/// A flag that the server acts on.
pub const EFFECTIVE: Facts =
    Facts { state: State::Effective, short: None, deprecated: None, hidden: false };

/// A flag whose behaviour is fixed.
pub const MOOT: Facts = Facts { state: State::Moot, ..EFFECTIVE };

/// A flag that is accepted but has no effect yet.
pub const PENDING: Facts = Facts { state: State::Pending, ..EFFECTIVE };

/// A flag on which security rests, refused until it is implemented; `why` says what would be open without it.
pub const fn refused(why: &'static str) -> Facts {
    Facts { state: State::Refused(why), ..EFFECTIVE }
}

impl Facts {
    /// Sets the one-letter form of the flag.
    pub const fn short(self, letter: char) -> Self {
        Facts { short: Some(letter), ..self }
    }

    /// Adds a deprecation warning for users of the flag.
    pub const fn deprecated(self, warning: &'static str) -> Self {
        Facts { deprecated: Some(warning), ..self }
    }

    /// Left out of `--help`.
    pub const fn hidden(self) -> Self {
        Facts { hidden: true, ..self }
    }
}

/// The flags that stood on the command line, by the names of their fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(BTreeSet<&'static str>);

impl Given {
    /// Whether the flag of this field was given.
    pub fn has(&self, field: &str) -> bool {
        self.0.contains(field)
    }

    /// Whether a flag of any of these fields was given.
    pub fn has_any(&self, fields: &[&str]) -> bool {
        fields.iter().any(|field| self.has(field))
    }

    /// The fields of all flags that were given.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied()
    }

    /// Whether a flag was given whose field begins like this.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.0.iter().any(|field| field.starts_with(prefix))
    }
}

/// Sets every field to its default.
pub(crate) fn set_defaults(section: &mut dyn Section) {
    for (index, flag) in section.flags().iter().enumerate() {
        if let Some(value) = section.value_mut(index).filter(|_| !flag.default.is_empty()) {
            let result = value.set(flag.default, false);
            debug_assert_eq!(result, Ok(()), "default of --{}", flag.name());
        }
    }
}

/// Declares a section: the struct, and the table of its flags.
///
/// A field's documentation is its flag's help text, its name the flag's name, and what follows its
/// type the default and the [`Facts`].
macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident, $title:literal {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty $(= $default:literal)?, $facts:expr;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                let mut section = Self { $($field: Default::default()),* };
                $crate::flags::set_defaults(&mut section);
                section
            }
        }

        impl $crate::flags::Section for $name {
            fn name(&self) -> &'static str {
                $title
            }

            fn flags(&self) -> &'static [$crate::flags::Flag] {
                const FLAGS: &[$crate::flags::Flag] = &[$($crate::flags::Flag {
                    field: stringify!($field),
                    default: concat!("" $(, $default)?),
                    help: &[$($help),+],
                    facts: $facts,
                }),*];
                FLAGS
            }

            fn values(&self) -> Vec<&dyn $crate::flags::Value> {
                vec![$(&self.$field),*]
            }

            fn value_mut(&mut self, index: usize) -> Option<&mut dyn $crate::flags::Value> {
                let values: Vec<&mut dyn $crate::flags::Value> = vec![$(&mut self.$field),*];
                values.into_iter().nth(index)
            }
        }
    };
}
pub(crate) use section;
