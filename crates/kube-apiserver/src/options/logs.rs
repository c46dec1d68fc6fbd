//! Flags of the log.

use crate::flags::{EFFECTIVE, Value, ValueType, parse_uint, section};
use kevel_api::duration::Duration;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::quantity::Quantity;
use kevel_api::quote::quote;
use kevel_features::{Feature, FeatureGates};

section! {
    /// Options of the log.
    Logs, "logs" {
        /// Longest time for which information is held back by --log-text-info-buffer-size or
        /// --log-json-info-buffer-size. Other lines are written at once.
        log_flush_frequency: Duration = "5s", EFFECTIVE;
        /// Bytes of information to hold back in the json format with split streams, for fewer
        /// writes. Needs the feature LoggingAlphaOptions.
        log_json_info_buffer_size: Quantity = "0", EFFECTIVE;
        /// In the json format, write errors to standard error and the rest to standard output.
        /// Needs the feature LoggingAlphaOptions.
        log_json_split_stream: bool = "false", EFFECTIVE;
        /// Bytes of information to hold back in the text format with split streams, for fewer
        /// writes. Needs the feature LoggingAlphaOptions.
        log_text_info_buffer_size: Quantity = "0", EFFECTIVE;
        /// In the text format, write warnings and errors to standard error and the rest to standard
        /// output. Needs the feature LoggingAlphaOptions.
        log_text_split_stream: bool = "false", EFFECTIVE;
        /// Form of the log: text, a line per message, or json, an object per message.
        logging_format: String = "text", EFFECTIVE;
        /// Verbosity of the log: 0 for the most important, 4 for debugging, 5 and above for tracing.
        v: Level = "0", EFFECTIVE.short('v');
        /// Other levels for single modules, as module=N, comma separated. A module is named by its
        /// last part or its whole path; '*' and '?' stand for any characters. Only for the text
        /// format.
        vmodule: VModule, EFFECTIVE;
    }
}

/// Verbosity of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(pub u32);

impl Value for Level {
    fn value_type(&self) -> ValueType {
        ValueType::new("Level", "0")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        self.0 = parse_uint(text, 10, 31)? as u32;
        Ok(())
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// Verbosity for modules that match a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VModule(pub Vec<(String, Level)>);

impl Value for VModule {
    fn value_type(&self) -> ValueType {
        ValueType::new("pattern=N,...", "")
    }

    /// Patterns join those that are there.
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let malformed = || format!("{} does not have the pattern=N format", quote(item));
            let (pattern, level) = item.split_once('=').ok_or_else(malformed)?;
            if pattern.is_empty() || level.is_empty() || level.contains('=') {
                return Err(malformed());
            }
            let level = parse_uint(level, 10, 31)
                .map_err(|error| format!("parsing verbosity in {}: {error}", quote(item)))?;
            self.0.push((pattern.to_owned(), Level(level as u32)));
        }
        Ok(())
    }

    fn text(&self) -> String {
        let items: Vec<String> =
            self.0.iter().map(|(pattern, level)| format!("{pattern}={}", level.0)).collect();
        items.join(",")
    }
}

impl Logs {
    /// Validation errors of these options.
    pub fn validate(&self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.log_flush_frequency.0 <= 0 {
            errors.push(FieldError::invalid(
                &Path::new("flushFrequency"),
                self.log_flush_frequency.to_string(),
                "Must be greater than zero",
            ));
        }
        let format = self.logging_format.as_str();
        if !matches!(format, "text" | "json") {
            let path = Path::new("format");
            errors.push(FieldError::invalid(&path, format, "Unsupported log format"));
        } else if format == "json" && !gates.enabled(Feature::LoggingBetaOptions) {
            let disabled = "Log format json is disabled, see LoggingBetaOptions feature";
            errors.push(FieldError::forbidden(&Path::new("format"), disabled));
        }
        if !self.vmodule.0.is_empty() && !matches!(format, "" | "text") {
            let path = Path::new("vmodule");
            errors.push(FieldError::forbidden(&path, "Only supported for text log format"));
        }
        let options = Path::new("options");
        for (format, split, buffer) in [
            ("text", self.log_text_split_stream, &self.log_text_info_buffer_size),
            ("json", self.log_json_split_stream, &self.log_json_info_buffer_size),
        ] {
            let format = options.child(format);
            for (field, used) in [("splitStream", split), ("infoBufferSize", buffer.value() != 0)] {
                if used && !gates.enabled(Feature::LoggingAlphaOptions) {
                    let disabled = "Feature LoggingAlphaOptions is disabled";
                    errors.push(FieldError::forbidden(&format.child(field), disabled));
                }
            }
        }
        errors
    }
}
