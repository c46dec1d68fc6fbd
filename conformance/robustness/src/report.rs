//! Report of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::history::{History, Outcome, Request, Seen};
use crate::run::{Plan, Summary};
use crate::watcher::TIME_IS_UP;

/// Plan of a run, so that it can be repeated.
pub fn plan(plan: &Plan) -> String {
    let shown: Vec<String> = plan.faults.iter().take(12).map(ToString::to_string).collect();
    let more = plan.faults.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let store = match plan.members {
        0 => "the embedded store".to_owned(),
        members => format!("etcd, {members} member(s)"),
    };
    format!(
        "seed {}: {} on {store}, {} clients, {} watchers, {} objects\nfaults: {}{more}",
        plan.seed,
        plan.program.display(),
        plan.clients,
        plan.watchers,
        plan.keys,
        shown.join(", "),
    )
}

/// Table of counts, and the verdict.
pub fn summary(plan: &Plan, summary: &Summary) -> String {
    let mut rows = counts(&summary.history);
    let checked = &summary.checked;
    let mut row = |name: &str, count: String| rows.push((name.to_owned(), count));
    row("traffic", format!("{:.1} s", summary.took.as_secs_f64()));
    row("answered per second", format!("{:.1} (at least {})", summary.rate, plan.min_rate));
    row("revisions known", checked.revisions.to_string());
    row("operations put in order", checked.ordered.to_string());
    row("states compared", checked.lists.to_string());
    row("events compared", checked.events.to_string());
    row("unclear, not compared", checked.unclear.to_string());
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (name, count) in rows {
        let _ = writeln!(text, "  {name:<width$}  {count}");
    }
    match summary.violations.first() {
        None => text.push_str("PASS\n"),
        Some(first) => {
            let _ = writeln!(
                text,
                "FAIL: {} violation(s), the first:\n  promise: {}\n  seen:    {}\n  history: {}",
                summary.violations.len(),
                first.promise,
                first.what,
                plan.output.join(format!("history-{}.txt", plan.seed)).display(),
            );
        }
    }
    text
}

fn counts(history: &History) -> Vec<(String, String)> {
    let count = |wanted: &dyn Fn(&Outcome) -> bool, write: bool| {
        let all = history.operations.iter();
        all.filter(|o| o.request.is_write() == write && wanted(&o.outcome)).count().to_string()
    };
    let acknowledged = |outcome: &Outcome| matches!(outcome, Outcome::Object(_) | Outcome::Deleted);
    let unknown = |outcome: &Outcome| matches!(outcome, Outcome::Unknown(_));
    let any = |_: &Outcome| true;
    let mut rows = vec![
        ("writes".to_owned(), count(&any, true)),
        ("  acknowledged".to_owned(), count(&acknowledged, true)),
        ("  unknown".to_owned(), count(&unknown, true)),
        ("reads".to_owned(), count(&any, false)),
        ("  in pages".to_owned(), paged(history).to_string()),
        ("  410".to_owned(), count(&|outcome| *outcome == Outcome::Gone, false)),
        ("  without an answer".to_owned(), count(&unknown, false)),
    ];
    let seen = |wanted: &dyn Fn(&Seen) -> bool| {
        let lines = history.watchers.iter().flat_map(|watcher| &watcher.log);
        lines.filter(|(_, seen)| wanted(seen)).count().to_string()
    };
    rows.extend([
        ("watch events".to_owned(), seen(&|seen| matches!(seen, Seen::Event { .. }))),
        ("  bookmarks".to_owned(), seen(&|seen| matches!(seen, Seen::Bookmark { .. }))),
        ("  resumptions".to_owned(), seen(&|seen| matches!(seen, Seen::Opened { after: Some(_) }))),
        ("  cut off".to_owned(), seen(&|s| matches!(s, Seen::Ended(why) if why != TIME_IS_UP))),
        ("  410".to_owned(), seen(&|seen| matches!(seen, Seen::Gone))),
    ]);
    let mut faults: BTreeMap<&str, usize> = BTreeMap::new();
    for fault in &history.faults {
        *faults.entry(&fault.what).or_default() += 1;
    }
    rows.push(("faults".to_owned(), history.faults.len().to_string()));
    rows.extend(faults.into_iter().map(|(what, count)| (format!("  {what}"), count.to_string())));
    rows
}

fn paged(history: &History) -> usize {
    let lists = history.operations.iter().filter(|o| matches!(o.request, Request::List { .. }));
    lists.filter(|o| matches!(o.outcome, Outcome::List { pages: 2.., .. })).count()
}
