//! Named sets of characters: `\d`, `[:alpha:]`, `\p{Greek}`.
//!
//! The names are Go's (1.26, Unicode 15.0). Their characters are those of the tables of
//! `regex-syntax`, whose Unicode is newer by a few thousand characters.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex_syntax::hir::{Class, HirKind};

use crate::fold::add_folded;
use crate::runes::{MAX_RUNE, Runes};

/// A named set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    /// Code points in ranges: `\w`, `[:alpha:]`.
    Ranges(&'static [(u32, u32)]),
    /// A general category, by its short name.
    Category(&'static str),
    Script(&'static str),
    Any,
    Assigned,
}

const DIGIT: &[(u32, u32)] = &[(0x30, 0x39)];
const WORD: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
const ASCII: &[(u32, u32)] = &[(0, 0x7F)];

/// `\d`, `\s` and `\w`, and their complements: ASCII only, and without the vertical tab.
pub(crate) fn perl(letter: char) -> Option<(Named, bool)> {
    let ranges: &[(u32, u32)] = match letter.to_ascii_lowercase() {
        'd' => DIGIT,
        's' => &[(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)],
        'w' => WORD,
        _ => return None,
    };
    Some((Named::Ranges(ranges), letter.is_ascii_uppercase()))
}

/// Set of a POSIX class, by the name between `[:` and `:]`, and whether it is negated.
pub(crate) fn posix(name: &str) -> Option<(Named, bool)> {
    let (name, negated) = match name.strip_prefix('^') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let ranges: &[(u32, u32)] = match name {
        "alnum" => &[(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)],
        "alpha" => &[(0x41, 0x5A), (0x61, 0x7A)],
        "ascii" => ASCII,
        "blank" => &[(0x09, 0x09), (0x20, 0x20)],
        "cntrl" => &[(0, 0x1F), (0x7F, 0x7F)],
        "digit" => DIGIT,
        "graph" => &[(0x21, 0x7E)],
        "lower" => &[(0x61, 0x7A)],
        "print" => &[(0x20, 0x7E)],
        "punct" => &[(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
        "space" => &[(0x09, 0x0D), (0x20, 0x20)],
        "upper" => &[(0x41, 0x5A)],
        "word" => WORD,
        "xdigit" => &[(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
        _ => return None,
    };
    Some((Named::Ranges(ranges), negated))
}

/// Set of `\p{…}`. Case, spaces, hyphens and underscores in names are ignored.
pub(crate) fn property(name: &str) -> Option<Named> {
    let name = canonical(name);
    let same = |known: &&&'static str| **known == name;
    match name.as_str() {
        "Any" => return Some(Named::Any),
        "Assigned" => return Some(Named::Assigned),
        "Ascii" => return Some(Named::Ranges(ASCII)),
        "Lc" => return Some(Named::Category("LC")),
        _ => {}
    }
    if let Some(category) = CATEGORIES.iter().find(same) {
        return Some(Named::Category(category));
    }
    if let Some(script) = SCRIPTS.iter().find(same) {
        return Some(Named::Script(script));
    }
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    alias.map(|(_, category)| Named::Category(category))
}

/// Canonical form of a name for comparison: `uppercase_letter` becomes `Uppercaseletter`.
fn canonical(name: &str) -> String {
    let mut canonical = String::with_capacity(name.len());
    for character in name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')) {
        canonical.push(match canonical.is_empty() {
            true => character.to_ascii_uppercase(),
            false => character.to_ascii_lowercase(),
        });
    }
    canonical
}

type Key = (Named, bool, bool);

/// Cache of computed sets. There are some hundreds of names.
static KNOWN: LazyLock<Mutex<HashMap<Key, Arc<Runes>>>> = LazyLock::new(Mutex::default);

/// Characters of a named set, or its complement. Folding comes before negation.
pub(crate) fn runes(named: Named, fold: bool, negated: bool) -> Arc<Runes> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = known.entry((named, fold, negated));
    entry.or_insert_with(|| Arc::new(make(named, fold, negated))).clone()
}

fn make(named: Named, fold: bool, negated: bool) -> Runes {
    let mut set = match named {
        Named::Any => Runes::new(vec![(0, MAX_RUNE)]),
        Named::Assigned => unassigned().negated(),
        Named::Category("Cn") => unassigned(),
        Named::Category("Cs") => Runes::new(SURROGATES.to_vec()),
        Named::Category("C") => table("\\p{gc=C}").union(&Runes::new(SURROGATES.to_vec())),
        Named::Category(name) => table(&format!("\\p{{gc={name}}}")),
        Named::Script(name) => table(&format!("\\p{{sc={name}}}")),
        Named::Ranges(ranges) => Runes::new(ranges.to_vec()),
    };
    if fold {
        let mut ranges = set.ranges().to_vec();
        for (low, high) in set.ranges() {
            add_folded(*low, *high, &mut ranges);
        }
        set = Runes::new(ranges);
    }
    if negated { set.negated() } else { set }
}

const SURROGATES: [(u32, u32); 1] = [(0xD800, 0xDFFF)];

/// Unassigned code points; surrogates count as assigned.
fn unassigned() -> Runes {
    let surrogates = Runes::new(SURROGATES.to_vec());
    table("\\p{gc=Cn}").negated().union(&surrogates).negated()
}

fn table(property: &str) -> Runes {
    match regex_syntax::parse(property).as_ref().map(regex_syntax::hir::Hir::kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => Runes::of(class),
        _ => Runes::default(),
    }
}

const CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn",
    "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm",
    "So", "Z", "Zl", "Zp", "Zs",
];

/// Long names of general categories, in canonical form.
const ALIASES: &[(&str, &str)] = &[
    ("Casedletter", "LC"),
    ("Closepunctuation", "Pe"),
    ("Cntrl", "Cc"),
    ("Combiningmark", "M"),
    ("Connectorpunctuation", "Pc"),
    ("Control", "Cc"),
    ("Currencysymbol", "Sc"),
    ("Dashpunctuation", "Pd"),
    ("Decimalnumber", "Nd"),
    ("Digit", "Nd"),
    ("Enclosingmark", "Me"),
    ("Finalpunctuation", "Pf"),
    ("Format", "Cf"),
    ("Initialpunctuation", "Pi"),
    ("Letter", "L"),
    ("Letternumber", "Nl"),
    ("Lineseparator", "Zl"),
    ("Lowercaseletter", "Ll"),
    ("Mark", "M"),
    ("Mathsymbol", "Sm"),
    ("Modifierletter", "Lm"),
    ("Modifiersymbol", "Sk"),
    ("Nonspacingmark", "Mn"),
    ("Number", "N"),
    ("Openpunctuation", "Ps"),
    ("Other", "C"),
    ("Otherletter", "Lo"),
    ("Othernumber", "No"),
    ("Otherpunctuation", "Po"),
    ("Othersymbol", "So"),
    ("Paragraphseparator", "Zp"),
    ("Privateuse", "Co"),
    ("Punct", "P"),
    ("Punctuation", "P"),
    ("Separator", "Z"),
    ("Spaceseparator", "Zs"),
    ("Spacingmark", "Mc"),
    ("Surrogate", "Cs"),
    ("Symbol", "S"),
    ("Titlecaseletter", "Lt"),
    ("Unassigned", "Cn"),
    ("Uppercaseletter", "Lu"),
];

/// Scripts. Go has those of several words under names with underscores, but removes underscores from the name that it
/// looks up: it rejects them, and so does this.
const SCRIPTS: &[&str] = &[
    "Adlam",
    "Ahom",
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "Batak",
    "Bengali",
    "Bhaiksuki",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "Carian",
    "Chakma",
    "Cham",
    "Cherokee",
    "Chorasmian",
    "Common",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Dogra",
    "Duployan",
    "Elbasan",
    "Elymaic",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Grantha",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Han",
    "Hangul",
    "Hanunoo",
    "Hatran",
    "Hebrew",
    "Hiragana",
    "Inherited",
    "Javanese",
    "Kaithi",
    "Kannada",
    "Katakana",
    "Kawi",
    "Kharoshthi",
    "Khmer",
    "Khojki",
    "Khudawadi",
    "Lao",
    "Latin",
    "Lepcha",
    "Limbu",
    "Lisu",
    "Lycian",
    "Lydian",
    "Mahajani",
    "Makasar",
    "Malayalam",
    "Mandaic",
    "Manichaean",
    "Marchen",
    "Medefaidrin",
    "Miao",
    "Modi",
    "Mongolian",
    "Mro",
    "Multani",
    "Myanmar",
    "Nabataean",
    "Nandinagari",
    "Newa",
    "Nko",
    "Nushu",
    "Ogham",
    "Oriya",
    "Osage",
    "Osmanya",
    "Palmyrene",
    "Phoenician",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Sharada",
    "Shavian",
    "Siddham",
    "Sinhala",
    "Sogdian",
    "Soyombo",
    "Sundanese",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "Takri",
    "Tamil",
    "Tangsa",
    "Tangut",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Tirhuta",
    "Toto",
    "Ugaritic",
    "Vai",
    "Vithkuqi",
    "Wancho",
    "Yezidi",
    "Yi",
];
