use super::*;

/// Rounds of a write: whether a second one begins, by the rounds that request it.
#[test]
fn a_second_round_begins_once_and_only_if_requested() {
    for (requests, expected) in [
        ([false, false], [false, false]),
        ([true, false], [true, false]),
        ([true, true], [true, false]),
        ([false, true], [false, true]),
    ] {
        let reinvocation = Reinvocation::default();
        assert_eq!((reinvocation.is_reinvoke(), reinvocation.round()), (false, 0));
        let begun = requests.map(|request| {
            if request {
                reinvocation.request();
            }
            assert_eq!(reinvocation.is_requested(), request || requests[0]);
            reinvocation.begin_second_round()
        });
        assert_eq!(begun, expected, "{requests:?}");
        let second = begun.contains(&true);
        assert_eq!(reinvocation.is_reinvoke(), second, "{requests:?}");
        assert_eq!(reinvocation.round(), u32::from(second), "{requests:?}");
    }
}

#[test]
fn plug_ins_remember_their_own_values_between_rounds() {
    let reinvocation = Reinvocation::default();
    for (plugin, expected) in [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)] {
        let count = reinvocation.with(plugin, |count: &mut u32| {
            *count += 1;
            *count
        });
        assert_eq!(count, expected, "{plugin}");
    }
    // State of another type is separate.
    assert_eq!(reinvocation.with("a", |text: &mut String| text.clone()), "");
    assert_eq!(reinvocation.with("a", |count: &mut u32| *count), 3);
}
