//! Any text as a label or field selector: no panic, and what is printed reads back the same.
#![no_main]

use kevel_api::selector::{field::FieldSelector, label::LabelSelector};
use kevel_api::value::Map;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(selector) = text.parse::<LabelSelector>() {
        let printed = selector.to_string();
        let again: LabelSelector = printed.parse().unwrap();
        assert_eq!(again.to_string(), printed);
        selector.selects(&Map::from_iter([("a", "a".into()), ("b", "1".into())]));
    }
    if let Ok(selector) = text.parse::<FieldSelector>() {
        // Terms are sorted as they are written, as in the reference, so `==` may move a term once.
        let printed = reprint(&selector);
        let again: FieldSelector = printed.parse().unwrap();
        assert_eq!(reprint(&again), printed);
        selector.matches(|_| Some("a"));
    }
});

fn reprint(selector: &FieldSelector) -> String {
    selector.to_string().parse::<FieldSelector>().unwrap().to_string()
}
