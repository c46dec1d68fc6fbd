//! Command line of `kube-apiserver check`.

use std::path::PathBuf;

use super::USAGE_FLAGS;
use super::output::OutputFormat;
use crate::nearest::nearest;

/// Mistake in the command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckUsageError {
    /// Flag that does not exist, and the nearest that does.
    #[error("unknown flag: {_0}{}", hint(*_1))]
    UnknownFlag(String, Option<&'static str>),
    /// Flag without its value.
    #[error("flag needs an argument: {0}")]
    MissingValue(String),
    /// Value that a flag does not take.
    #[error("invalid value {1:?} of {0}: it takes {2}")]
    InvalidValue(&'static str, String, &'static str),
    /// Nothing to check.
    #[error("must specify -f with a file, a directory or - for standard input")]
    NoFiles,
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("\ndid you mean {name}?"))
}

/// Treatment of unknown and duplicate fields (kubectl's `--validate`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidationMode {
    /// Errors.
    #[default]
    Strict,
    /// Warnings.
    Warn,
    /// Dropped.
    Ignore,
}

impl ValidationMode {
    /// Value of the query parameter `fieldValidation`.
    pub fn parameter(self) -> &'static str {
        match self {
            ValidationMode::Strict => "Strict",
            ValidationMode::Warn => "Warn",
            ValidationMode::Ignore => "Ignore",
        }
    }
}

/// Arguments after `check`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CheckArguments {
    /// `--filename`: what is checked.
    pub files: Vec<PathBuf>,
    /// `--crds`: definitions that the cluster has.
    pub definitions: Vec<PathBuf>,
    /// `--namespace`
    pub namespace: Option<String>,
    /// `--output`
    pub output: OutputFormat,
    /// `--validate`
    pub validate: ValidationMode,
    /// `--skip`: kinds that are not checked.
    pub skipped: Vec<String>,
    /// `--ignore-missing-schemas`
    pub ignore_missing: bool,
    /// `--warnings-as-errors`
    pub warnings_are_errors: bool,
    /// Flags of the server, as it takes them.
    pub server: Vec<String>,
    /// `--help`
    pub help: bool,
}

/// Flags of the server that the command passes on.
const SERVER: [&str; 8] = [
    "--admission-control-config-file",
    "--disable-admission-plugins",
    "--emulated-version",
    "--enable-admission-plugins",
    "--feature-gates",
    "--runtime-config",
    "--service-cluster-ip-range",
    "--service-node-port-range",
];

impl CheckArguments {
    /// Reads a command line: `--flag=value` or `--flag value`; what is no flag is a file.
    pub fn parse(
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<CheckArguments, CheckUsageError> {
        let mut rest = arguments.into_iter();
        let mut parsed = CheckArguments::default();
        while let Some(argument) = rest.next() {
            if argument == "--" {
                parsed.files.extend(rest.by_ref().map(PathBuf::from));
            } else if argument == "-" || !argument.starts_with('-') {
                parsed.files.push(argument.into());
            } else {
                parsed.flag(&argument, &mut rest)?;
            }
        }
        if parsed.files.is_empty() && !parsed.help {
            return Err(CheckUsageError::NoFiles);
        }
        Ok(parsed)
    }

    fn flag(
        &mut self,
        argument: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), CheckUsageError> {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            // -ofile
            None if !argument.starts_with("--") && argument.len() > 2 && argument.is_ascii() => {
                let (name, value) = argument.split_at(2);
                (name, Some(value.to_owned()))
            }
            None => (argument, None),
        };
        if let Some(switch) = self.switch(name) {
            *switch = match value.as_deref() {
                None | Some("true") => true,
                Some("false") => false,
                Some(other) => return Err(invalid(name, other, "true or false")),
            };
            return Ok(());
        }
        if !is_known(name) {
            let known = USAGE_FLAGS.into_iter().chain(SERVER);
            return Err(CheckUsageError::UnknownFlag(name.to_owned(), nearest(name, known)));
        }
        let value = value.or_else(|| rest.next());
        let value = value.ok_or_else(|| CheckUsageError::MissingValue(name.to_owned()))?;
        self.value(name, value)
    }

    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "-h" | "--help" => &mut self.help,
            "--ignore-missing-schemas" => &mut self.ignore_missing,
            "--warnings-as-errors" => &mut self.warnings_are_errors,
            _ => return None,
        })
    }

    fn value(&mut self, name: &str, value: String) -> Result<(), CheckUsageError> {
        let several = || value.split(',').filter(|part| !part.is_empty());
        match name {
            "-f" | "--filename" => self.files.extend(several().map(PathBuf::from)),
            "--crds" => self.definitions.extend(several().map(PathBuf::from)),
            "-n" | "--namespace" => self.namespace = Some(value),
            "-o" | "--output" => {
                self.output = OutputFormat::from_name(&value)
                    .ok_or_else(|| invalid(name, &value, OutputFormat::NAMES))?;
            }
            "--skip" => self.skipped.extend(several().map(str::to_owned)),
            "--validate" => {
                self.validate = match value.as_str() {
                    "strict" | "true" => ValidationMode::Strict,
                    "warn" => ValidationMode::Warn,
                    "ignore" | "false" => ValidationMode::Ignore,
                    _ => return Err(invalid(name, &value, "strict, warn or ignore")),
                }
            }
            "--kubernetes-version" => {
                let version = value.strip_prefix('v').unwrap_or(&value);
                self.server.push(format!("--emulated-version={version}"));
            }
            flag => self.server.push(format!("{flag}={value}")),
        }
        Ok(())
    }
}

fn is_known(name: &str) -> bool {
    ["-f", "-n", "-o"].contains(&name) || USAGE_FLAGS.contains(&name) || SERVER.contains(&name)
}

fn invalid(name: &str, value: &str, takes: &'static str) -> CheckUsageError {
    let known = USAGE_FLAGS.into_iter().find(|known| *known == name);
    let long = known.unwrap_or(match name {
        "-o" => "--output",
        _ => "--help",
    });
    CheckUsageError::InvalidValue(long, value.to_owned(), takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<CheckArguments, CheckUsageError> {
        CheckArguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_stand_anywhere_and_in_either_form() {
        let one = parse("-f a,b --output=json -n x --crds c --skip A,B").unwrap();
        let other =
            parse("--skip A --skip=B --filename a b -ojson --namespace x --crds=c").unwrap();
        assert_eq!(one, other);
        assert_eq!(one.files, ["a", "b"].map(PathBuf::from));
        let version = parse("a --kubernetes-version v1.35 --feature-gates=A=true").unwrap();
        assert_eq!(version.server, ["--emulated-version=1.35", "--feature-gates=A=true"]);
    }

    #[test]
    fn mistakes_are_refused_with_what_was_meant() {
        for (line, why) in [
            ("", "must specify -f with a file, a directory or - for standard input"),
            ("a --crd b", "unknown flag: --crd\ndid you mean --crds?"),
            ("a --output", "flag needs an argument: --output"),
            (
                "a -o yaml",
                "invalid value \"yaml\" of --output: it takes text, json, github or sarif",
            ),
            (
                "a --validate=maybe",
                "invalid value \"maybe\" of --validate: it takes strict, warn or ignore",
            ),
            (
                "a --warnings-as-errors=2",
                "invalid value \"2\" of --warnings-as-errors: it takes true or false",
            ),
            ("a -x", "unknown flag: -x"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), why, "{line}");
        }
    }
}
