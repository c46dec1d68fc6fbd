//! The ratchet of crates as boundaries: how large they are, how much they show, which modules know each other.

use super::items::items;
use super::source::{Crate, Source};
use super::{Hit, Hits, modules};

/// A crate with more lines is too large to be a boundary: it may not grow, nor show more.
const LARGE: usize = 20_000;

/// `lines`: lines of `src` without tests, which may always be added. `public`: items at module level that are declared `pub` in `src`.
/// Both of crates over [`LARGE`] alone.
/// `cycle`: top-level modules that import each other, directly or by others.
pub fn measure(crates: &[Crate]) -> Hits {
    let mut hits = Hits::default();
    for owner in crates {
        let size = Size::of(owner);
        if size.lines > LARGE {
            hits.set(&owner.name, "lines", size.lines);
            size.public.into_iter().for_each(|hit| hits.add(&owner.name, "public", hit));
        }
        for (module, others) in size.cycles {
            let text = format!("imports {}", others.join(", "));
            hits.add(&owner.name, "cycle", Hit { position: module, text });
        }
    }
    hits
}

/// The table of all crates.
pub fn table(crates: &[Crate]) -> String {
    let mut lines = vec![format!(
        "{:15} {:>7} {:>12} {:>17}",
        "crate", "lines", "public items", "modules in cycles"
    )];
    for owner in crates {
        let size = Size::of(owner);
        let (public, cycles) = (size.public.len(), size.cycles.len());
        lines.push(format!("{:15} {:>7} {public:>12} {cycles:>17}", owner.name, size.lines));
    }
    lines.join("\n")
}

struct Size {
    lines: usize,
    public: Vec<Hit>,
    cycles: Vec<(String, Vec<String>)>,
}

impl Size {
    fn of(owner: &Crate) -> Size {
        let lines = owner.sources.iter().map(lines).sum();
        let public = owner.sources.iter().flat_map(public).collect();
        Size { lines, public, cycles: modules::cycles(owner) }
    }
}

fn lines(source: &Source) -> usize {
    let code = source.code.lines().zip(source.production.lines());
    let tests =
        code.filter(|(code, production)| !code.trim().is_empty() && production.trim().is_empty());
    let all = source.below_src.as_ref().map_or(0, |_| source.text.lines().count());
    all.saturating_sub(tests.count())
}

fn public(source: &Source) -> Vec<Hit> {
    let shown = items(&source.production).into_iter().filter(|item| item.public);
    let hit = |item: super::items::Item<'_>| Hit {
        position: source.position(item.offset),
        text: format!("pub {} {}", item.keyword, item.name),
    };
    shown.map(hit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_crates_are_held_small_ones_are_not() {
        let sources = |lines: usize| {
            vec![Source::new(
                "a.rs",
                &format!("{}#[cfg(test)]\nmod tests {{\n}}", "pub fn a() {}\n".repeat(lines)),
                Some("a.rs"),
            )]
        };
        let crates = [
            Crate { name: "large".to_owned(), sources: sources(LARGE + 1) },
            Crate { name: "small".to_owned(), sources: sources(LARGE) },
        ];
        let counts: Vec<_> = measure(&crates).counts().into_iter().collect();
        let held = |measure: &str| (("large".to_owned(), measure.to_owned()), LARGE + 1);
        assert_eq!(counts, [held("lines"), held("public")]);
    }
}
