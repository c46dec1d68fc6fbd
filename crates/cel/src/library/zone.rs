//! Named time zones, from the system's zone files (RFC 8536).

use std::path::Path;

use crate::value::Timestamp;

const FOLDERS: &[&str] = &["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo"];
/// Limit on the size of a zone file; they have a few kilobytes.
const MAX_FILE: u64 = 1 << 20;

/// Seconds east of UTC in a zone at a time.
pub(super) fn offset(zone: &str, seconds: i64) -> Option<i64> {
    if zone == "Local" {
        let local = std::fs::read("/etc/localtime").ok();
        return Some(local.and_then(|file| Zone::parse(&file)?.offset(seconds)).unwrap_or(0));
    }
    let plain = zone.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+/".contains(&b));
    if !plain || zone.starts_with('/') {
        return None;
    }
    let file = FOLDERS.iter().find_map(|folder| {
        let path = Path::new(folder).join(zone);
        let known = std::fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= MAX_FILE);
        known.then(|| std::fs::read(path).ok()).flatten()
    })?;
    Zone::parse(&file)?.offset(seconds)
}

struct Zone<'f> {
    /// Times of offset changes; `types` has the index of the new offset for each.
    times: Vec<i64>,
    types: &'f [u8],
    offsets: Vec<i64>,
    /// Rule after the last change: `CET-1CEST,M3.5.0,M10.5.0/3`.
    rule: &'f str,
}

impl<'f> Zone<'f> {
    fn parse(file: &'f [u8]) -> Option<Self> {
        // The second block has 64-bit times; the first is for old readers.
        let (first, version) = header(file)?;
        let [utc, standard, leap, time, ty, names] = first;
        let size = time * 5 + ty * 6 + names + leap * 8 + standard + utc;
        let file = file.get(if version >= 2 { 44 + size } else { return None }..)?;
        let ([utc, standard, leap, time, ty, names], _) = header(file)?;
        let body = file.get(44..)?;
        let (times, body) = body.split_at_checked(time * 8)?;
        let (types, body) = body.split_at_checked(time)?;
        let (infos, body) = body.split_at_checked(ty * 6)?;
        let footer = body.get(names + leap * 12 + standard + utc..)?;
        let times = times.chunks_exact(8);
        let infos = infos.chunks_exact(6);
        Some(Zone {
            times: times
                .map(|t| t.try_into().map(i64::from_be_bytes))
                .collect::<Result<_, _>>()
                .ok()?,
            types,
            offsets: infos
                .map(|i| Some(i64::from(i32::from_be_bytes(i.get(..4)?.try_into().ok()?))))
                .collect::<Option<_>>()?,
            rule: std::str::from_utf8(footer).ok()?.trim_matches('\n'),
        })
    }

    fn offset(&self, seconds: i64) -> Option<i64> {
        let before = self.times.partition_point(|time| *time <= seconds);
        if before == self.times.len()
            && let Some(offset) = rule_offset(self.rule, seconds)
        {
            return Some(offset);
        }
        match before.checked_sub(1) {
            Some(last) => self.offsets.get(usize::from(*self.types.get(last)?)).copied(),
            None => self.offsets.first().copied(),
        }
    }
}

/// The six counts of a header, and the version.
fn header(file: &[u8]) -> Option<([usize; 6], u8)> {
    let header = file.get(..44).filter(|h| h.starts_with(b"TZif"))?;
    let count = |i: usize| {
        let bytes = header.get(20 + i * 4..24 + i * 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
    };
    let version = header[4].saturating_sub(b'0');
    Some(([count(0)?, count(1)?, count(2)?, count(3)?, count(4)?, count(5)?], version))
}

/// Offset by a rule in POSIX notation.
fn rule_offset(rule: &str, seconds: i64) -> Option<i64> {
    let (_, rest) = name(rule)?;
    let (standard, rest) = clock(rest)?;
    if rest.is_empty() {
        return Some(-standard);
    }
    let (_, rest) = name(rest)?;
    let (summer, rest) = match rest.strip_prefix(',') {
        Some(rest) => (standard - 3600, rest),
        None => {
            let (summer, rest) = clock(rest)?;
            (summer, rest.strip_prefix(',')?)
        }
    };
    let (start, end) = rest.split_once(',')?;
    let year = Timestamp { seconds: seconds - standard, nanos: 0, offset: 0 }.civil(0).year;
    let start = change(start, year)? + standard;
    let end = change(end, year)? + summer;
    let is_summer = match start < end {
        true => (start..end).contains(&seconds),
        false => !(end..start).contains(&seconds),
    };
    Some(if is_summer { -summer } else { -standard })
}

fn name(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('<') {
        Some(text) => text.split_once('>'),
        None => {
            let len = text.bytes().take_while(u8::is_ascii_alphabetic).count();
            (len > 0).then(|| text.split_at(len))
        }
    }
}

/// Parses `[+-]hh[:mm[:ss]]` to seconds, with the rest of the text.
fn clock(text: &str) -> Option<(i64, &str)> {
    let len = text.bytes().take_while(|b| b.is_ascii_digit() || b"+-:".contains(b)).count();
    let (clock, rest) = text.split_at(len);
    let unsigned = clock.trim_start_matches(['+', '-']);
    let mut seconds = 0;
    for (part, unit) in unsigned.split(':').zip([3600, 60, 1]) {
        seconds += part.parse::<i64>().ok()? * unit;
    }
    Some((if clock.starts_with('-') { -seconds } else { seconds }, rest))
}

/// Time of a change in a year, in seconds of local time: `M3.2.0/2`, `J60`, `59`.
fn change(text: &str, year: i64) -> Option<i64> {
    let (day, time) = match text.split_once('/') {
        Some((day, time)) => (day, clock(time)?.0),
        None => (text, 7200),
    };
    let january = Timestamp::parse(&format!("{year:04}-01-01T00:00:00Z"))?.seconds / 86_400;
    let leap = Timestamp::parse(&format!("{year:04}-02-29T00:00:00Z")).is_some();
    let day = if let Some(day) = day.strip_prefix('J') {
        let day: i64 = day.parse().ok()?;
        january + day - 1 + i64::from(leap && day >= 60)
    } else if let Some(rule) = day.strip_prefix('M') {
        let mut parts = rule.split('.').map(|part| part.parse::<i64>().ok());
        let (month, week, weekday) = (parts.next()??, parts.next()??, parts.next()??);
        let first = Timestamp::parse(&format!("{year:04}-{month:02}-01T00:00:00Z"))?;
        let skip = (weekday - first.civil(0).weekday).rem_euclid(7);
        let mut day = first.seconds / 86_400 + skip + (week - 1) * 7;
        let of_month =
            |day: i64| Timestamp { seconds: day * 86_400, nanos: 0, offset: 0 }.civil(0).month;
        while of_month(day) != month {
            day -= 7;
        }
        day
    } else {
        january + day.parse::<i64>().ok()?
    };
    Some(day * 86_400 + time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        let at = |text| Timestamp::parse(text).unwrap().seconds;
        for (rule, time, hours) in [
            ("CET-1CEST,M3.5.0,M10.5.0/3", "2030-03-31T00:59:59Z", 1),
            ("CET-1CEST,M3.5.0,M10.5.0/3", "2030-03-31T01:00:00Z", 2),
            ("CET-1CEST,M3.5.0,M10.5.0/3", "2030-10-27T01:00:00Z", 1),
            ("PST8PDT,M3.2.0,M11.1.0", "2030-07-01T00:00:00Z", -7),
            ("AEST-10AEDT,M10.1.0,M4.1.0/3", "2030-01-01T00:00:00Z", 11),
            ("<+03>-3", "2030-01-01T00:00:00Z", 3),
        ] {
            assert_eq!(rule_offset(rule, at(time)), Some(hours * 3600), "{rule} {time}");
        }
    }
}
