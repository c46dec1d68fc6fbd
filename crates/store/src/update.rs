//! The retrying update that every change of an object goes through (upstream: `GuaranteedUpdate`).

use std::{fmt, future::Future, time::Duration};

use bytes::Bytes;

use crate::{Engine, Entry, Error, Revision};

/// Conflicting writes after which an update gives up. Each of them made progress, so this is a bound on starvation, not
/// a normal end.
pub const MAX_CONFLICTS: usize = 100;

/// Outcome that an update function asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Write this value, with a time to live if there is one. If the stored bytes are the same and not stale
    /// ([`Engine::is_stale`]), nothing is written and the revision stays.
    Put(Bytes, Option<Duration>),
    /// Delete the key.
    Delete,
    /// Leave the key as it is.
    Keep,
}

/// Error of [`guaranteed_update`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateError<E> {
    /// The store failed.
    Store(Error),
    /// The caller's function refused the key's present state.
    Refused(E),
}

impl<E> From<Error> for UpdateError<E> {
    fn from(error: Error) -> Self {
        UpdateError::Store(error)
    }
}

impl<E: fmt::Display> fmt::Display for UpdateError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateError::Store(error) => error.fmt(f),
            UpdateError::Refused(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for UpdateError<E> {}

/// Result of [`guaranteed_update`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Updated {
    /// The key's entry now; after a deletion, its last entry.
    pub entry: Option<Entry>,
    /// The revision of the write; `None` when nothing had to be written.
    pub written: Option<Revision>,
}

/// Calls `change` with the entry of `key` and carries out the returned [`Change`]; again after a conflicting write.
///
/// `cached` is a first guess that saves a read. It may be stale: an error or "no change" that `change` returns for it
/// is checked against the present entry first. `change` may be called several times and must not keep state between
/// calls.
///
/// ```
/// # use kevel_store::{*, embedded::*};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let store = Embedded::memory(Options::default()).unwrap();
/// let updated = guaranteed_update(&store, b"/registry/a", None, |current| async move {
///     match current {
///         None => Ok(Change::Put("created".into(), None)),
///         Some(_) => Err("it is there"),
///     }
/// });
/// assert_eq!(updated.await.unwrap().written, Some(Revision(2)));
/// # }
/// ```
pub async fn guaranteed_update<E, F>(
    engine: &dyn Engine,
    key: &[u8],
    cached: Option<Entry>,
    mut change: impl FnMut(Option<Entry>) -> F + Send,
) -> Result<Updated, UpdateError<E>>
where
    F: Future<Output = Result<Change, E>> + Send,
{
    let mut is_current = cached.is_none();
    let mut state = match cached {
        Some(entry) => Some(entry),
        None => engine.get(key, None).await?.entry,
    };
    let mut conflicts = 0;
    loop {
        let outcome = change(state.clone()).await;
        let (value, ttl) = match outcome {
            Ok(Change::Put(value, ttl))
                if !is_same(&state, &value) || engine.is_stale(key).await? =>
            {
                (Some(value), ttl)
            }
            Ok(Change::Delete) => (None, None),
            // Nothing to write, or refused: final only if `state` is the present entry.
            settled if is_current => {
                settled.map_err(UpdateError::Refused)?;
                return Ok(Updated { entry: state, written: None });
            }
            settled => {
                let present = engine.get(key, None).await?.entry;
                is_current = true;
                if revision_of(&present) == revision_of(&state) {
                    settled.map_err(UpdateError::Refused)?;
                    return Ok(Updated { entry: state, written: None });
                }
                state = present;
                continue;
            }
        };
        let written = match (&state, &value) {
            (Some(entry), Some(value)) => {
                engine.update(key, value.clone(), entry.mod_revision, ttl).await
            }
            (Some(entry), None) => engine.delete(key, entry.mod_revision).await,
            (None, Some(value)) => engine.create(key, value.clone(), ttl).await,
            (None, None) => Err(Error::NotFound),
        };
        state = match written {
            Ok(revision) => return Ok(updated(key, state, value, revision)),
            Err(Error::Conflict(entry) | Error::Exists(entry)) if conflicts < MAX_CONFLICTS => {
                Some(*entry)
            }
            // Deleted in between: call `change` again, unless a key that does not exist was to be deleted.
            Err(Error::NotFound)
                if conflicts < MAX_CONFLICTS && !(is_current && state.is_none()) =>
            {
                None
            }
            Err(error) => return Err(error.into()),
        };
        is_current = true;
        conflicts += 1;
    }
}

fn is_same(state: &Option<Entry>, value: &Bytes) -> bool {
    state.as_ref().is_some_and(|entry| entry.value == value)
}

fn revision_of(state: &Option<Entry>) -> Option<Revision> {
    state.as_ref().map(|entry| entry.mod_revision)
}

fn updated(key: &[u8], state: Option<Entry>, value: Option<Bytes>, revision: Revision) -> Updated {
    let create_revision = state.as_ref().map_or(revision, |entry| entry.create_revision);
    let entry = match value {
        Some(value) => {
            let key = Bytes::copy_from_slice(key);
            Some(Entry { key, value, create_revision, mod_revision: revision })
        }
        None => state,
    };
    Updated { entry, written: Some(revision) }
}
