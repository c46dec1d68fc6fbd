//! The time that all files of a package bear.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use kevel_api::time::NanoTime;

use super::PackageError;

/// Seconds since 1970: `SOURCE_DATE_EPOCH`, or the time of the last commit.
#[derive(Debug, Clone, Copy)]
pub struct BuildTime(pub u64);

impl BuildTime {
    pub fn find(root: &Path) -> Result<Self, PackageError> {
        let text = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text,
            Err(_) => commit_time(root)?,
        };
        text.trim().parse().map(BuildTime).map_err(|_| PackageError::Time(text))
    }

    /// `2026-11-18T20:14:11Z`
    pub fn rfc3339(&self) -> Result<String, PackageError> {
        let unprintable = || PackageError::Time(self.0.to_string());
        let seconds = i64::try_from(self.0).map_err(|_| unprintable())?;
        NanoTime::at(seconds, 0).to_rfc3339().map_err(|_| unprintable())
    }

    /// `Wed, 18 Nov 2026 20:14:11 +0000`, as Debian's changelogs have it.
    pub fn rfc2822(&self) -> Result<String, PackageError> {
        // HTTP's dates take four digits of a year.
        self.rfc3339()?;
        let time = UNIX_EPOCH + Duration::from_secs(self.0);
        Ok(httpdate::fmt_http_date(time).replace("GMT", "+0000"))
    }

    /// Year, month, day, hour, minute and second, in UTC.
    pub fn parts(&self) -> Result<[u16; 6], PackageError> {
        let text = self.rfc3339()?;
        let mut parts = [0; 6];
        for (part, digits) in parts.iter_mut().zip(text.split(['-', 'T', ':', 'Z'])) {
            *part = digits.parse().map_err(|_| PackageError::Time(text.clone()))?;
        }
        Ok(parts)
    }
}

fn commit_time(root: &Path) -> Result<String, PackageError> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(root);
    super::build::output(&mut git)
}

#[cfg(test)]
mod tests {
    use super::BuildTime;

    #[test]
    fn times_are_printed() {
        for (seconds, short, long) in [
            (0, "1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 +0000"),
            (951_782_400, "2000-02-29T00:00:00Z", "Tue, 29 Feb 2000 00:00:00 +0000"),
            (1_795_033_267, "2026-11-18T20:21:07Z", "Wed, 18 Nov 2026 20:21:07 +0000"),
        ] {
            let time = BuildTime(seconds);
            assert_eq!(
                (time.rfc3339().unwrap().as_str(), time.rfc2822().unwrap().as_str()),
                (short, long)
            );
        }
    }
}
