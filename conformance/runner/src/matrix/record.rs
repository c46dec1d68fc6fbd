//! Recorded answers: a line per case, with its answers and the users that got each.

use std::collections::BTreeMap;

use super::answer::Answer;
use super::cases::Case;
use crate::Result;

/// Stands for all users that no other answer names.
const OTHERS: &str = "*";

/// Answers to a case, in the order of its users.
pub type Answers = Vec<Answer>;

/// Writes a recording.
pub fn write(cases: &[Case], answers: &[Answers]) -> String {
    let mut text = String::new();
    for (case, answers) in cases.iter().zip(answers) {
        text.push_str(&case.title());
        let mut groups: BTreeMap<&Answer, Vec<&str>> = BTreeMap::new();
        for (user, answer) in case.users.iter().zip(answers) {
            groups.entry(answer).or_default().push(user);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, users)| std::cmp::Reverse(users.len()));
        for (index, (answer, users)) in groups.iter().enumerate() {
            let users = if index == 0 { OTHERS.to_owned() } else { users.join(",") };
            text.push_str(&format!("\t{users}: {answer}"));
        }
        text.push('\n');
    }
    text
}

/// Reads a recording of these cases.
pub fn read(cases: &[Case], text: &str) -> Result<Vec<Answers>> {
    let lines: Vec<&str> = text.lines().collect();
    let changed = || "the cases have changed since: conformance matrix --record";
    if lines.len() != cases.len() {
        return Err(changed().into());
    }
    let mut all = Vec::new();
    for (case, line) in cases.iter().zip(lines) {
        let mut parts = line.split('\t');
        if parts.next() != Some(&case.title()) {
            return Err(format!("{}: {}", changed(), case.title()).into());
        }
        let groups: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once(": ")).collect();
        let of = |user: &str| {
            let named = groups.iter().find(|(users, _)| users.split(',').any(|one| one == user));
            let found = named.or_else(|| groups.iter().find(|(users, _)| *users == OTHERS));
            found.map(|(_, answer)| Answer((*answer).to_owned())).ok_or_else(changed)
        };
        all.push(case.users.iter().map(|user| of(user)).collect::<std::result::Result<_, _>>()?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let case = Case { users: &["admin", "none", "node"], ..Case::new("GET", "/") };
        let answers = ["200 a: b", "403", "403"].map(|text| Answer(text.to_owned())).to_vec();
        let text = write(std::slice::from_ref(&case), std::slice::from_ref(&answers));
        assert_eq!(text, "GET /\t*: 403\tadmin: 200 a: b\n");
        assert_eq!(read(&[case], &text).unwrap(), [answers]);
    }
}
