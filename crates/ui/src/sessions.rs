//! Sessions of signed-in users, in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use kevel_clock::{Clock, Moment};
use kevel_registry::user::User;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

/// Sessions of all users. One is a few hundred bytes and its token.
const MAX_SESSIONS: usize = 256;
/// Sessions of one user: a new one ends the one that was used longest ago, so that no user takes all.
const MAX_FOR_USER: usize = 16;
/// Time without a request after which a session ends. A page that is open asks more often.
const MAX_IDLE: Duration = Duration::from_secs(60 * 60);
/// Age at which a session ends: a working day.
const MAX_AGE: Duration = Duration::from_secs(12 * 60 * 60);
/// Random bytes of a session's ID.
const ID_BYTES: usize = 32;

/// Credential of a session.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// The administrator, by a code.
    Administrator(Arc<User>),
    /// The `Authorization` header with the user's token.
    Token(HeaderValue),
}

/// A session, as requests find it.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    pub credential: Credential,
    /// Name of the user, to be shown.
    pub user: Arc<str>,
}

#[derive(Debug)]
struct UiSession {
    signed_in: SignedIn,
    began: Moment,
    used: Moment,
}

/// Hash of a session's ID: finding it takes no time that depends on the secret.
type IdHash = [u8; 32];

/// The sessions of a server.
#[derive(Debug)]
pub(crate) struct Sessions {
    clock: Clock,
    random: SystemRandom,
    sessions: Mutex<HashMap<IdHash, UiSession>>,
}

impl Sessions {
    pub(crate) fn new(clock: Clock) -> Self {
        Sessions { clock, random: SystemRandom::new(), sessions: Mutex::default() }
    }

    /// Begins a session; the ID is for the cookie alone. `None` if there are too many.
    pub(crate) fn begin(&self, credential: Credential, user: &str) -> Option<String> {
        let mut id = [0; ID_BYTES];
        self.random.fill(&mut id).ok()?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let now = self.clock.moment();
        let mut sessions = self.lock();
        sessions.retain(|_, session| is_valid(session, now));
        let own = |session: &UiSession| *session.signed_in.user == *user;
        if sessions.values().filter(|session| own(session)).count() >= MAX_FOR_USER {
            let own = sessions.iter().filter(|(_, session)| own(session));
            let oldest = own.min_by_key(|(_, session)| session.used).map(|(hash, _)| *hash);
            oldest.and_then(|hash| sessions.remove(&hash));
        }
        if sessions.len() >= MAX_SESSIONS {
            return None;
        }
        let signed_in = SignedIn { credential, user: user.into() };
        sessions.insert(hash(&id), UiSession { signed_in, began: now, used: now });
        Some(id)
    }

    /// The session of an ID, if it is still valid.
    pub(crate) fn find(&self, id: &str) -> Option<SignedIn> {
        let (hash, now) = (hash(id), self.clock.moment());
        let mut sessions = self.lock();
        let session = sessions.get_mut(&hash)?;
        if !is_valid(session, now) {
            sessions.remove(&hash);
            return None;
        }
        session.used = now;
        Some(session.signed_in.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &str) {
        let hash = hash(id);
        self.lock().remove(&hash);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IdHash, UiSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_valid(session: &UiSession, now: Moment) -> bool {
    session.began + MAX_AGE > now && session.used + MAX_IDLE > now
}

fn hash(id: &str) -> IdHash {
    let mut hash = IdHash::default();
    hash.copy_from_slice(digest(&SHA256, id.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_clock::ManualClock;

    fn sessions() -> (ManualClock, Sessions) {
        let manual = ManualClock::at_present();
        let sessions = Sessions::new(manual.clock());
        (manual, sessions)
    }

    fn begin(sessions: &Sessions, user: &str) -> Option<String> {
        sessions.begin(Credential::Token(HeaderValue::from_static("Bearer x")), user)
    }

    #[test]
    fn session_ends_when_idle_old_or_signed_out() {
        let (clock, sessions) = sessions();
        let id = begin(&sessions, "jane").unwrap();
        assert_eq!(id.len(), ID_BYTES * 2);
        assert!(sessions.find("").is_none());
        assert_eq!(&*sessions.find(&id).unwrap().user, "jane");
        clock.advance(MAX_IDLE);
        assert!(sessions.find(&id).is_none(), "idle");

        let id = begin(&sessions, "jane").unwrap();
        let step = MAX_IDLE / 2;
        for _ in 1..MAX_AGE.as_secs() / step.as_secs() {
            clock.advance(step);
            assert!(sessions.find(&id).is_some(), "in use");
        }
        clock.advance(step);
        assert!(sessions.find(&id).is_none(), "too old");

        let id = begin(&sessions, "jane").unwrap();
        sessions.end(&id);
        assert!(sessions.find(&id).is_none(), "signed out");
    }

    #[test]
    fn sessions_are_bounded_in_all_and_for_each_user() {
        let (clock, sessions) = sessions();
        let first = begin(&sessions, "jane").unwrap();
        clock.advance(Duration::from_secs(1));
        let others: Vec<_> = (0..MAX_FOR_USER).map(|_| begin(&sessions, "jane").unwrap()).collect();
        assert!(sessions.find(&first).is_none());
        assert!(others.iter().all(|id| sessions.find(id).is_some()));
        let mut users = 0;
        while begin(&sessions, &format!("user-{users}")).is_some() {
            users += 1;
        }
        assert_eq!(users, MAX_SESSIONS - MAX_FOR_USER);
        clock.advance(MAX_IDLE);
        assert!(begin(&sessions, "joe").is_some());
    }

    #[test]
    fn credentials_are_not_shown() {
        let mut token = HeaderValue::from_static("Bearer secret");
        token.set_sensitive(true);
        assert!(!format!("{:?}", Credential::Token(token)).contains("secret"));
    }
}
