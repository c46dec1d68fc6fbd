//! Optimistic writes, retried after a conflict (upstream: `GuaranteedUpdate`).

use std::future::Future;

use kevel_api::status::StatusError;
use kevel_store::cache::At;
use kevel_store::{MAX_CONFLICTS, Revision};

use crate::failure::store_error;

/// Reads an object and writes the result of `write`, again after a conflict.
///
/// `first` is the freshness of the first read. Cached data may be stale: a conflict, error or NotFound on it is retried
/// once on fresh data before it is returned. `write` may be called several times and must not keep state. `too_many` is
/// the error after too many conflicts.
pub(crate) async fn guaranteed_update<S, T, R, W>(
    first: At,
    read: impl Fn(At) -> R,
    write: impl Fn(Option<S>) -> W,
    too_many: impl FnOnce() -> StatusError,
) -> Result<T, StatusError>
where
    S: Versioned,
    R: Future<Output = Result<Option<S>, StatusError>>,
    W: Future<Output = Result<T, Failed>>,
{
    let mut at = first;
    let mut refused: Option<(Revision, StatusError)> = None;
    for _ in 0..MAX_CONFLICTS {
        let fresh = at == At::Consistent;
        let found = read(at).await?;
        at = At::Consistent;
        let revision = found.as_ref().map(Versioned::revision);
        if let Some((seen, error)) = refused.take()
            && revision == Some(seen)
        {
            // The error was seen on the same revision as the current one: another try would return it again.
            return Err(error);
        }
        if found.is_none() && !fresh {
            continue;
        }
        match write(found).await {
            Ok(written) => return Ok(written),
            Err(Failed::Changed) => {}
            Err(Failed::Unknown(error)) => return Err(error),
            Err(Failed::Refused(error)) if fresh => return Err(error),
            Err(Failed::Refused(error)) => refused = revision.map(|seen| (seen, error)),
        }
    }
    Err(too_many())
}

/// A read value with its revision.
pub(crate) trait Versioned {
    fn revision(&self) -> Revision;
}

impl<T> Versioned for (T, Revision) {
    fn revision(&self) -> Revision {
        self.1
    }
}

/// Failure of a write.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The object has changed since it was read.
    Changed,
    /// The write is refused.
    Refused(StatusError),
    /// The store was called with an unknown result: the write may have been done. It is not retried, or it could be
    /// done twice, or conflict with itself.
    Unknown(StatusError),
}

impl From<StatusError> for Failed {
    fn from(error: StatusError) -> Self {
        Failed::Refused(error)
    }
}

impl From<kevel_store::Error> for Failed {
    fn from(error: kevel_store::Error) -> Self {
        match error {
            kevel_store::Error::Conflict(_) | kevel_store::Error::NotFound => Failed::Changed,
            error @ kevel_store::Error::Unavailable(_) => Failed::Unknown(store_error(error)),
            error => Failed::Refused(store_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Situation of a write: the cached revision, the stored revision at each read, and the result of each attempt.
    struct Case {
        cached: Option<u64>,
        there: &'static [Option<u64>],
        attempts: &'static [Result<&'static str, Option<&'static str>>],
        expected: Result<&'static str, &'static str>,
        /// Revisions that were written on.
        seen: &'static [Option<u64>],
    }

    async fn check(case: Case) {
        let there = RefCell::new(case.there.iter().copied());
        let attempts = RefCell::new(case.attempts.iter());
        let seen = RefCell::new(Vec::new());
        let read = |at| {
            let found = match at {
                At::Any => case.cached,
                _ => there.borrow_mut().next().expect("it was read more often"),
            };
            std::future::ready(Ok(found.map(|revision| ((), Revision(revision)))))
        };
        let write = |found: Option<((), Revision)>| {
            seen.borrow_mut().push(found.map(|found| found.1.0));
            std::future::ready(match attempts.borrow_mut().next() {
                Some(Ok(written)) => Ok(*written),
                Some(Err(Some(why))) => Err(StatusError::bad_request(*why).into()),
                _ => Err(Failed::Changed),
            })
        };
        let too_many = || StatusError::bad_request("too many");
        let result = guaranteed_update(At::Any, read, write, too_many).await;
        let result = result.map_err(|error| error.status().message.to_string());
        assert_eq!(result, case.expected.map_err(str::to_owned));
        assert_eq!(*seen.borrow(), case.seen);
    }

    #[tokio::test]
    async fn what_is_old_is_not_believed() {
        let written = Ok("written");
        for case in [
            Case {
                cached: Some(1),
                there: &[],
                attempts: &[Ok("written")],
                expected: written,
                seen: &[Some(1)],
            },
            // Two conflicts.
            Case {
                cached: Some(1),
                there: &[Some(2), Some(3)],
                attempts: &[Err(None), Err(None), Ok("written")],
                expected: written,
                seen: &[Some(1), Some(2), Some(3)],
            },
            // Refused on a stale revision, then on the current one.
            Case {
                cached: Some(1),
                there: &[Some(2)],
                attempts: &[Err(Some("no")), Ok("written")],
                expected: written,
                seen: &[Some(1), Some(2)],
            },
            Case {
                cached: Some(1),
                there: &[Some(1)],
                attempts: &[Err(Some("no"))],
                expected: Err("no"),
                seen: &[Some(1)],
            },
            Case {
                cached: Some(1),
                there: &[Some(2)],
                attempts: &[Err(Some("no")), Err(Some("never"))],
                expected: Err("never"),
                seen: &[Some(1), Some(2)],
            },
            // The cache does not have the object yet, or the object does not exist.
            Case {
                cached: None,
                there: &[Some(2)],
                attempts: &[Ok("written")],
                expected: written,
                seen: &[Some(2)],
            },
            Case {
                cached: None,
                there: &[None],
                attempts: &[Ok("created")],
                expected: Ok("created"),
                seen: &[None],
            },
        ] {
            check(case).await;
        }
    }

    #[tokio::test]
    async fn what_may_have_been_written_is_not_written_again() {
        let attempts = RefCell::new(0);
        // At the second read the write has been done.
        let read = |at| {
            let revision = Revision(if at == At::Any { 1 } else { 2 });
            std::future::ready(Ok(Some(((), revision))))
        };
        let write = |_| {
            *attempts.borrow_mut() += 1;
            let lost = kevel_store::Error::Unavailable("connection reset".into());
            std::future::ready(Err::<(), Failed>(lost.into()))
        };
        let too_many = || StatusError::bad_request("too many");
        let result = guaranteed_update(At::Any, read, write, too_many).await;
        assert!(result.unwrap_err().status().message.contains("connection reset"));
        assert_eq!(*attempts.borrow(), 1);
    }

    #[tokio::test]
    async fn who_always_comes_second_gives_up() {
        let read = |_| std::future::ready(Ok(Some(((), Revision(1)))));
        let write = |_| std::future::ready(Err::<(), _>(Failed::Changed));
        let too_many = || StatusError::bad_request("too many");
        let result = guaranteed_update(At::Any, read, write, too_many).await;
        assert_eq!(result.unwrap_err().status().message, "too many");
    }
}
