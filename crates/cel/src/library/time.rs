//! Accessors of timestamps and durations.

use super::{Row, row};
use crate::error::Error;
use crate::value::{Timestamp, Value};

pub(super) const ROWS: &[Row] = &[
    row("getFullYear", "timestamp_to_year", "timestamp.() -> int", |args| part(args, year)),
    row("getFullYear", "timestamp_to_year_with_tz", "timestamp.(string) -> int", |args| {
        part(args, year)
    }),
    row("getMonth", "timestamp_to_month", "timestamp.() -> int", |args| part(args, month)),
    row("getMonth", "timestamp_to_month_with_tz", "timestamp.(string) -> int", |args| {
        part(args, month)
    }),
    row("getDayOfYear", "timestamp_to_day_of_year", "timestamp.() -> int", |args| {
        part(args, day_of_year)
    }),
    row("getDayOfYear", "timestamp_to_day_of_year_with_tz", "timestamp.(string) -> int", |args| {
        part(args, day_of_year)
    }),
    row("getDayOfMonth", "timestamp_to_day_of_month", "timestamp.() -> int", |args| {
        part(args, day_of_month)
    }),
    row(
        "getDayOfMonth",
        "timestamp_to_day_of_month_with_tz",
        "timestamp.(string) -> int",
        |args| part(args, day_of_month),
    ),
    row("getDate", "timestamp_to_day_of_month_1_based", "timestamp.() -> int", |args| {
        part(args, date)
    }),
    row(
        "getDate",
        "timestamp_to_day_of_month_1_based_with_tz",
        "timestamp.(string) -> int",
        |args| part(args, date),
    ),
    row("getDayOfWeek", "timestamp_to_day_of_week", "timestamp.() -> int", |args| {
        part(args, day_of_week)
    }),
    row("getDayOfWeek", "timestamp_to_day_of_week_with_tz", "timestamp.(string) -> int", |args| {
        part(args, day_of_week)
    }),
    row("getHours", "timestamp_to_hours", "timestamp.() -> int", |args| part(args, hours)),
    row("getHours", "timestamp_to_hours_with_tz", "timestamp.(string) -> int", |args| {
        part(args, hours)
    }),
    row("getHours", "duration_to_hours", "duration.() -> int", |args| {
        whole(args, 3_600_000_000_000)
    }),
    row("getMinutes", "timestamp_to_minutes", "timestamp.() -> int", |args| part(args, minutes)),
    row("getMinutes", "timestamp_to_minutes_with_tz", "timestamp.(string) -> int", |args| {
        part(args, minutes)
    }),
    row("getMinutes", "duration_to_minutes", "duration.() -> int", |args| {
        whole(args, 60_000_000_000)
    }),
    row("getSeconds", "timestamp_to_seconds", "timestamp.() -> int", |args| part(args, seconds)),
    row("getSeconds", "timestamp_to_seconds_tz", "timestamp.(string) -> int", |args| {
        part(args, seconds)
    }),
    row("getSeconds", "duration_to_seconds", "duration.() -> int", |args| {
        whole(args, 1_000_000_000)
    }),
    row("getMilliseconds", "timestamp_to_milliseconds", "timestamp.() -> int", |args| {
        part(args, milliseconds)
    }),
    row(
        "getMilliseconds",
        "timestamp_to_milliseconds_with_tz",
        "timestamp.(string) -> int",
        |args| part(args, milliseconds),
    ),
    row("getMilliseconds", "duration_to_milliseconds", "duration.() -> int", |args| {
        whole(args, 1_000_000)
    }),
];

type Part = fn(&Timestamp, i64) -> i64;

fn part<'a>(args: &[Value<'a>], part: Part) -> Result<Value<'a>, Error> {
    match args {
        [Value::Timestamp(time)] => Ok(Value::Int(part(time, 0))),
        [Value::Timestamp(time), Value::String(zone)] => {
            Ok(Value::Int(part(time, offset(zone, time)?)))
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn whole<'a>(args: &[Value<'a>], unit: i64) -> Result<Value<'a>, Error> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / unit)),
        _ => Err(Error::no_such_overload()),
    }
}

fn year(time: &Timestamp, offset: i64) -> i64 {
    time.civil(offset).year
}

fn month(time: &Timestamp, offset: i64) -> i64 {
    time.civil(offset).month - 1
}

fn day_of_year(time: &Timestamp, offset: i64) -> i64 {
    time.civil(offset).day_of_year - 1
}

fn day_of_month(time: &Timestamp, offset: i64) -> i64 {
    time.civil(offset).day - 1
}

fn date(time: &Timestamp, offset: i64) -> i64 {
    time.civil(offset).day
}

fn day_of_week(time: &Timestamp, offset: i64) -> i64 {
    time.civil(offset).weekday
}

fn hours(time: &Timestamp, offset: i64) -> i64 {
    time.civil(offset).hour
}

fn minutes(time: &Timestamp, offset: i64) -> i64 {
    time.civil(offset).minute
}

fn seconds(time: &Timestamp, offset: i64) -> i64 {
    time.civil(offset).second
}

fn milliseconds(time: &Timestamp, _: i64) -> i64 {
    i64::from(time.nanos / 1_000_000)
}

/// Seconds east of UTC of a fixed offset (`-08:00`), or of a named zone at that time.
fn offset(zone: &str, time: &Timestamp) -> Result<i64, Error> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" => Ok(0),
            _ if zone.contains("..") || zone.starts_with(['/', '\\']) => {
                Err(Error::new("time: invalid location name"))
            }
            _ => super::zone::offset(zone, time.seconds)
                .ok_or_else(|| Error::new(format!("unknown time zone {zone}"))),
        };
    };
    let number = |text: &str| {
        text.parse::<i32>().map(i64::from).map_err(|_| {
            let text = kevel_api::quote::quote(text);
            Error::new(format!("strconv.Atoi: parsing {text}: invalid syntax"))
        })
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    Ok((hours * 60 + sign * minutes) * 60)
}
