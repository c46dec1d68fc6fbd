//! Parser of command-line arguments.

use super::{Flag, Given, Section};
use crate::nearest::nearest;
use kevel_api::quote::quote;

/// Result of parsing, besides the values of flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The flags among them.
    pub given: Given,
    /// Arguments that are not flags.
    pub arguments: Vec<String>,
    /// Warnings about deprecated flags.
    pub warnings: Vec<String>,
}

/// Reads the arguments into the sections' values: `--name=value`, `--name value`, `--name` for
/// booleans, `-v2`, `-v=2`, `-v 2`. A name may have `_` for `-`. What follows `--` is not a flag.
///
/// The first mistake ends it, with the message for the user.
pub fn parse(sections: &mut [&mut dyn Section], arguments: Vec<String>) -> Result<Parsed, String> {
    let mut parser = Parser { sections, parsed: Parsed::default() };
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            parser.parsed.arguments.extend(rest.by_ref());
        } else if let Some(name) = argument.strip_prefix("--") {
            parser.long(name, &mut rest)?;
        } else if argument.len() > 1 && argument.starts_with('-') {
            parser.shorthands(&argument[1..], &mut rest)?;
        } else {
            parser.parsed.arguments.push(argument);
        }
    }
    Ok(parser.parsed)
}

struct Parser<'a, 'b> {
    sections: &'a mut [&'b mut dyn Section],
    parsed: Parsed,
}

/// Position of a flag: index of its section, and its index there.
type FlagPosition = (usize, usize);

impl Parser<'_, '_> {
    fn long(&mut self, text: &str, rest: &mut impl Iterator<Item = String>) -> Result<(), String> {
        if text.starts_with(['-', '=']) {
            return Err(format!("bad flag syntax: --{text}"));
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let field = name.replace('-', "_");
        let place = self.find(|flag| flag.field == field);
        let (place, flag) = place.ok_or_else(|| self.unknown(name))?;
        let value = value.or_else(|| self.implied(place)).or_else(|| rest.next());
        let value = value.ok_or_else(|| format!("flag needs an argument: --{name}"))?;
        self.set(place, flag, &value)
    }

    /// Letters after one `-`: booleans may stand together, and the rest is the value of the first
    /// that takes one.
    fn shorthands(
        &mut self,
        mut letters: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), String> {
        while let Some(letter) = letters.chars().next() {
            let after = &letters[letter.len_utf8()..];
            let place = self.find(|flag| flag.facts.short == Some(letter));
            let unknown = || format!("unknown shorthand flag: '{letter}' in -{letters}");
            let (place, flag) = place.ok_or_else(unknown)?;
            let (value, next) = match (after.strip_prefix('='), self.implied(place)) {
                (Some(value), _) if !value.is_empty() => (Some(value.to_owned()), ""),
                (_, Some(implied)) => (Some(implied), after),
                _ if !after.is_empty() => (Some(after.to_owned()), ""),
                _ => (rest.next(), ""),
            };
            let missing = || format!("flag needs an argument: '{letter}' in -{letters}");
            self.set(place, flag, &value.ok_or_else(missing)?)?;
            letters = next;
        }
        Ok(())
    }

    /// The reference's message, and below it the flag that was probably meant.
    fn unknown(&self, name: &str) -> String {
        let flags = self.sections.iter().flat_map(|section| section.flags());
        let shown: Vec<String> = flags.filter(|flag| !flag.facts.hidden).map(Flag::name).collect();
        let meant = nearest(name, shown.iter().map(String::as_str));
        let hint = meant.map_or_else(String::new, |flag| format!("\ndid you mean --{flag}?"));
        format!("unknown flag: --{name}{hint}")
    }

    fn find(&self, wanted: impl Fn(&Flag) -> bool) -> Option<(FlagPosition, &'static Flag)> {
        self.sections.iter().enumerate().find_map(|(at, section)| {
            let index = section.flags().iter().position(&wanted)?;
            Some(((at, index), section.flags().get(index)?))
        })
    }

    /// Value of a flag that is given without one.
    fn implied(&mut self, (section, index): FlagPosition) -> Option<String> {
        let value = self.sections.get_mut(section)?.value_mut(index)?;
        value.value_type().implied.map(str::to_owned)
    }

    fn set(
        &mut self,
        (section, index): FlagPosition,
        flag: &Flag,
        text: &str,
    ) -> Result<(), String> {
        let repeated = !self.parsed.given.0.insert(flag.field);
        let value = self.sections.get_mut(section).and_then(|section| section.value_mut(index));
        let Some(value) = value else {
            return Ok(());
        };
        value.set(text, repeated).map_err(|problem| {
            let name = match flag.facts.short {
                Some(letter) => format!("-{letter}, --{}", flag.name()),
                None => format!("--{}", flag.name()),
            };
            format!("invalid argument {} for {} flag: {problem}", quote(text), quote(&name))
        })?;
        if let Some(warning) = flag.facts.deprecated {
            let warning = format!("Flag --{} has been deprecated, {warning}", flag.name());
            self.parsed.warnings.push(warning);
        }
        Ok(())
    }
}
