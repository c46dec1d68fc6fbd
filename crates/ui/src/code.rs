//! Single-use codes, by which the person at the server's terminal signs in.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kevel_clock::{Clock, Moment};
use ring::rand::{SecureRandom as _, SystemRandom};
use subtle::ConstantTimeEq as _;

/// Validity of a code: long enough to walk from the terminal to the browser.
const VALIDITY: Duration = Duration::from_secs(10 * 60);
/// Attempts for one code. With 60 bits, guesses come to nothing; a typing error does not cost the code.
const MAX_ATTEMPTS: u32 = 100;
/// Time between two codes, so that a client cannot fill the terminal.
const INTERVAL: Duration = Duration::from_secs(30);
/// Characters of a code, five bits each; without those that look like others.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
/// Characters in a code: 60 bits.
const LENGTH: usize = 12;
/// Characters between two dashes, as a code is shown.
const SHOWN_TOGETHER: usize = 4;

/// A code to sign in with, as it is shown.
pub struct SignInCode(String);

impl SignInCode {
    /// The text for the terminal, and for nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for SignInCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignInCode")
    }
}

/// Codes of a server: one is valid at a time.
#[derive(Debug)]
pub struct SignInCodes {
    clock: Clock,
    random: SystemRandom,
    state: Mutex<CodeState>,
}

#[derive(Debug, Default)]
struct CodeState {
    current: Option<IssuedCode>,
    last_issued: Option<Moment>,
}

struct IssuedCode {
    characters: [u8; LENGTH],
    expires: Moment,
    attempts: u32,
}

impl std::fmt::Debug for IssuedCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedCode").field("attempts", &self.attempts).finish_non_exhaustive()
    }
}

impl SignInCodes {
    /// No code yet.
    pub fn new(clock: Clock) -> Self {
        SignInCodes { clock, random: SystemRandom::new(), state: Mutex::default() }
    }

    /// A new code, unless one is valid or the last one is too recent.
    pub fn issue(&self) -> Option<SignInCode> {
        let now = self.clock.moment();
        let mut state = self.lock();
        let valid = state.current.as_ref().is_some_and(|code| code.expires > now);
        let recent = state.last_issued.is_some_and(|last| last + INTERVAL > now);
        if valid || recent {
            return None;
        }
        let mut random = [0; LENGTH];
        self.random.fill(&mut random).ok()?;
        let characters = random.map(|byte| ALPHABET[usize::from(byte) % ALPHABET.len()]);
        let shown = characters.chunks(SHOWN_TOGETHER).map(String::from_utf8_lossy);
        let shown = shown.collect::<Vec<_>>().join("-");
        state.current = Some(IssuedCode { characters, expires: now + VALIDITY, attempts: 0 });
        state.last_issued = Some(now);
        Some(SignInCode(shown))
    }

    /// Whether this is the valid code, which it then is no longer.
    pub fn redeem(&self, given: &str) -> bool {
        let now = self.clock.moment();
        let mut state = self.lock();
        let Some(code) = state.current.as_mut() else { return false };
        code.attempts += 1;
        let expired = code.expires <= now;
        let equal = bool::from(code.characters.as_slice().ct_eq(&typed(given)));
        if expired || equal || code.attempts >= MAX_ATTEMPTS {
            state.current = None;
        }
        equal && !expired
    }

    fn lock(&self) -> MutexGuard<'_, CodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Characters of a code as typed: in any case, with or without dashes and spaces. No more than are compared.
fn typed(text: &str) -> Vec<u8> {
    let characters = text.bytes().filter(|byte| !matches!(byte, b'-' | b' '));
    characters.map(|byte| byte.to_ascii_uppercase()).take(LENGTH + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_clock::ManualClock;

    fn codes() -> (ManualClock, SignInCodes) {
        let manual = ManualClock::at_present();
        let codes = SignInCodes::new(manual.clock());
        (manual, codes)
    }

    #[test]
    fn code_signs_in_once() {
        let (_, codes) = codes();
        let code = codes.issue().unwrap();
        assert!(!codes.redeem(""));
        assert!(!codes.redeem("AAAA-AAAA-AAAA"));
        assert!(!codes.redeem(&format!("{}A", code.reveal())));
        assert!(codes.redeem(&code.reveal().to_lowercase().replace('-', " ")));
        assert!(!codes.redeem(code.reveal()));
    }

    #[test]
    fn code_expires() {
        let (clock, codes) = codes();
        let code = codes.issue().unwrap();
        clock.advance(VALIDITY);
        assert!(!codes.redeem(code.reveal()));
        assert!(codes.issue().is_some());
    }

    #[test]
    fn code_ends_after_too_many_attempts() {
        let (_, codes) = codes();
        let code = codes.issue().unwrap();
        for _ in 0..MAX_ATTEMPTS {
            assert!(!codes.redeem("wrong"));
        }
        assert!(!codes.redeem(code.reveal()));
    }

    #[test]
    fn terminal_is_not_filled_with_codes() {
        let (clock, codes) = codes();
        let first = codes.issue().unwrap();
        assert!(codes.issue().is_none(), "one is valid");
        assert!(codes.redeem(first.reveal()));
        assert!(codes.issue().is_none(), "too soon");
        clock.advance(INTERVAL);
        assert_ne!(codes.issue().unwrap().reveal(), first.reveal());
    }
}
