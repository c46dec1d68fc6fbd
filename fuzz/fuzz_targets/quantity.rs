//! Any text as a quantity, a time, a duration: no panic, and what is printed reads back the same.
#![no_main]

use kevel_api::duration::Duration;
use kevel_api::quantity::{self, Quantity};
use kevel_api::time::{MicroTime, Time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(quantity) = text.parse::<Quantity>() {
        let printed = quantity.to_string();
        let again: Quantity = printed.parse().unwrap();
        assert_eq!(again.to_string(), printed);
    }
    let _ = quantity::canonicalize_json(text);
    if let Ok(time) = text.parse::<Time>() {
        assert_eq!(time.to_string().parse::<Time>().ok(), Some(time));
    }
    if let Ok(time) = text.parse::<MicroTime>() {
        let printed = time.to_string();
        assert_eq!(printed.parse::<MicroTime>().map(|t| t.to_string()).ok(), Some(printed));
    }
    if let Ok(duration) = text.parse::<Duration>() {
        assert_eq!(duration.to_string().parse(), Ok(duration));
    }
});
