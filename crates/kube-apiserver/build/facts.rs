//! Facts of a program's build: commit, state of the tree, date.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Variables of the commit, the state of the tree (`clean` or `dirty`) and the date (RFC 3339).
pub const VARIABLES: [&str; 3] = ["KEVEL_GIT_COMMIT", "KEVEL_GIT_TREE_STATE", "KEVEL_BUILD_DATE"];
/// Variable of the date in seconds since 1970, which reproducible builds set.
pub const EPOCH_VARIABLE: &str = "SOURCE_DATE_EPOCH";
/// Commit of a build outside of git.
const UNKNOWN: &str = "unknown";

/// Facts of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildFacts {
    /// Commit, or `unknown`.
    pub commit: String,
    /// `clean` or `dirty`; empty if unknown.
    pub tree_state: String,
    /// Date; 1970 if unknown, as in a build of the reference without its scripts.
    pub date: String,
}

impl BuildFacts {
    /// The facts: by the environment, else by the repository and the time.
    pub fn new(
        environment: impl Fn(&str) -> Option<String>,
        repository: Option<&Repository>,
        now: Option<SystemTime>,
    ) -> Self {
        let [commit, tree_state, date] = VARIABLES.map(&environment);
        let epoch = environment(EPOCH_VARIABLE).and_then(|text| text.trim().parse().ok());
        let epoch = epoch.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let time = epoch.or(now).unwrap_or(SystemTime::UNIX_EPOCH);
        // The state is that of the commit: a commit that is given has no other.
        let found = repository.filter(|_| commit.is_none());
        BuildFacts {
            commit: commit
                .or_else(|| found.map(|repository| repository.commit.clone()))
                .unwrap_or_else(|| UNKNOWN.to_owned()),
            tree_state: tree_state
                .or_else(|| found.map(|repository| repository.tree_state().to_owned()))
                .unwrap_or_default(),
            date: date.unwrap_or_else(|| rfc3339(time)),
        }
    }
}

/// A git repository with a commit.
#[derive(Debug)]
pub struct Repository {
    root: PathBuf,
    commit: String,
}

impl Repository {
    /// The repository whose work tree has `root` at its top. That of a folder further up is another's.
    pub fn open(root: &Path) -> Option<Self> {
        let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
        if top.canonicalize().ok()? != root.canonicalize().ok()? {
            return None;
        }
        let commit = git(root, &["rev-parse", "--verify", "HEAD"])?;
        Some(Repository { root: root.to_owned(), commit })
    }

    /// Whether the work tree is as the commit has it.
    fn tree_state(&self) -> &'static str {
        match git(&self.root, &["status", "--porcelain", "--untracked-files=no"]) {
            Some(changes) if changes.is_empty() => "clean",
            _ => "dirty",
        }
    }

    /// Files that change with the commit.
    pub fn files(&self) -> Vec<PathBuf> {
        let branch = git(&self.root, &["rev-parse", "--symbolic-full-name", "HEAD"]);
        let names = ["HEAD".to_owned(), "packed-refs".to_owned()].into_iter().chain(branch);
        let files = names.filter_map(|name| git(&self.root, &["rev-parse", "--git-path", &name]));
        // A file that does not exist would look like one that has changed at each build.
        files.map(|file| self.root.join(file)).filter(|file| file.exists()).collect()
    }
}

/// Output of a git command; `None` if it fails or there is no git.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    // A repository of another user is not read: such is the default of git.
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A time as `2006-01-02T15:04:05Z`.
fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date so many days after 1970-01-01 in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    // Days since 0000-03-01: the leap day is the last of such a year, and 400 years have the same days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months since March, of 153 days each five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + carry, month, day)
}
