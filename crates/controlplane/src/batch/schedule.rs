//! Parser of cron schedules: `*/5 * * * *`, `@daily`, `@every 1h`.

use kevel_api::duration::Duration;

use super::time_zone;

/// Bounds of a field in a schedule: minimum, maximum and names of the numbers.
type Bounds = (u64, u64, &'static [&'static str]);

const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const MONTHS: &[&str] =
    &["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

const PLACES: [Bounds; 5] =
    [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, MONTHS), (0, 6, DAYS)];

const DESCRIPTORS: &[&str] =
    &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Parses a schedule; an error if it is invalid.
pub fn parse(text: &str) -> Result<(), String> {
    let mut text = text;
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let Some((zone, rest)) = text.split_once(' ') else {
            let why = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
            return Err(why.to_owned());
        };
        let name = zone.split_once('=').map_or("", |(_, name)| name);
        if !matches!(name, "" | "UTC" | "Local") && !time_zone::is_known(name) {
            return Err(format!("provided bad location {name}: unknown time zone {name}"));
        }
        text = rest.trim();
    }
    if text.starts_with('@') {
        return descriptor(text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != PLACES.len() {
        let (found, list) = (fields.len(), fields.join(" "));
        return Err(format!("expected exactly {} fields, found {found}: [{list}]", PLACES.len()));
    }
    for (field, bounds) in fields.into_iter().zip(PLACES) {
        let mut ranges = field.split(',').filter(|range| !range.is_empty());
        ranges.try_for_each(|range| parse_range(range, bounds))?;
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) => match duration.parse::<Duration>() {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("failed to parse duration {text}: {error}")),
        },
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

fn parse_range(range: &str, (min, max, names): Bounds) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let limits: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let (mut start, mut end) = (min, max);
    match limits.as_slice() {
        ["*" | "?", ..] => {}
        [one] => {
            start = number_or_name(one, names)?;
            end = start;
        }
        [first, last] => {
            start = number_or_name(first, names)?;
            end = number_or_name(last, names)?;
        }
        [first, ..] => {
            number_or_name(first, names)?;
            return Err(format!("too many hyphens: {range}"));
        }
        [] => {}
    }
    let step = match parts.as_slice() {
        [_, step] => {
            if limits.len() == 1 {
                end = max;
            }
            number(step)?
        }
        [_, _, ..] => return Err(format!("too many slashes: {range}")),
        _ => 1,
    };
    if start < min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {range}"));
    }
    if end > max {
        return Err(format!("end of range ({end}) above maximum ({max}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number_or_name(text: &str, names: &[&str]) -> Result<u64, String> {
    let named = names.iter().position(|name| !name.is_empty() && name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |position| Ok(position as u64))
}

fn number(text: &str) -> Result<u64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}")
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_the_reference_reads_them() {
        for (text, expected) in [
            ("*/5 * * * *", Ok(())),
            ("0 0 1,15 jan-mar MON", Ok(())),
            ("? ? ? ? ?", Ok(())),
            ("@hourly", Ok(())),
            ("@every 1h30m", Ok(())),
            ("TZ=Europe/Berlin 0 0 * * *", Ok(())),
            ("x", Err("expected exactly 5 fields, found 1: [x]")),
            ("60 * * * *", Err("end of range (60) above maximum (59): 60")),
            ("* * 0 * *", Err("beginning of range (0) below minimum (1): 0")),
            ("5-1 * * * *", Err("beginning of range (5) beyond end of range (1): 5-1")),
            ("*/0 * * * *", Err("step of range should be a positive number: */0")),
            ("1-2-3 * * * *", Err("too many hyphens: 1-2-3")),
            (
                "a * * * *",
                Err("failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ),
            (
                "-1 * * * *",
                Err("failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
            ),
            ("@never", Err("unrecognized descriptor: @never")),
        ] {
            assert_eq!(parse(text), expected.map_err(str::to_owned), "{text}");
        }
    }
}
