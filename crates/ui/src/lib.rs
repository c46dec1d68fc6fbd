//! The page `/ui/`: a view of the cluster in a browser, by the public API and with the user's own rights.
//!
//! ```text
//! browser ─ /ui/, /ui/app.js …     ─▶ Front ─▶ files of the page, for everybody
//!         ─ /ui/session, /ui/code  ─▶ Front ─▶ sign in, sign out
//!         ─ /ui/api/PATH           ─▶ Front ─ session ─▶ handler chain ─▶ PATH: API, /ui/search
//! ```
//!
//! *Who may do what.* The page itself holds no data: anyone may load it. All else is done as the user of a session, by
//! requests that pass the whole handler chain: authentication, audit, priority and fairness, authorization, admission.
//! The page has no right of its own.
//!
//! *Sign in.* Either by a token of the user's own, which the server keeps in its memory and sends with each request of
//! the session, so that it is judged each time and ends when it is revoked. Or by a single-use code that the server
//! prints on its terminal (never anywhere else), which makes the session one of the administrator of the generated
//! kubeconfig: reading the terminal is no less than reading that file. A code is valid for ten minutes and a bounded
//! number of attempts, and is compared in constant time.
//!
//! *Sessions.* A cookie (`HttpOnly`, `Secure`, `SameSite=Strict`, for `/ui/` alone) with 256 random bits, of which the
//! server keeps a hash. Sessions are bounded in number (in all, for each user), idle time and age, and live in memory:
//! they end with the server. Nothing of them is in a URL or in the browser's storage.
//!
//! *How a session becomes a user.* [`Front`] stands before the chain. A request for `/ui/api/PATH` with a valid session
//! becomes a new request for `PATH`: path and query are read again (`RequestInfo`), so that what is authorized is what
//! is served; only a few harmless headers are taken along, so that nothing impersonates, upgrades or adds credentials;
//! the connection's client certificates are left out. The user of a token is known by that token, as anywhere. The
//! administrator is known by an extension of the request, whose type only this crate can make and which no client can
//! send ([`SessionAuthenticator`]). Without a session nothing is passed on.
//!
//! *Foreign pages.* A request on behalf of a session needs the header `X-Kevel-UI`, which other origins cannot send
//! without a preflight, and is refused if `Origin` or `Sec-Fetch-Site` says that it comes from elsewhere, other ports of
//! the same host included. Neither frames nor scripts, styles or connections from elsewhere are allowed (CSP). What is
//! passed on from the API comes with a policy that lets nothing run; proxies into pods, which could serve pages of
//! this origin, are not reached by it.
//!
//! *Search.* `GET /ui/search?q=WORDS` looks at all stored kinds in the watch caches, and shows only objects that the
//! user may list; the authorizer is asked before an object is looked at, so that not even the time tells of others. It
//! is bounded in time, results and questions to the authorizer, and charges its turn, so that large stores hold no
//! worker. The endpoint is open to all authenticated users ([`SearchAuthorizer`]), with or without the page.

mod answers;
mod assets;
mod authenticator;
mod code;
mod front;
mod origin;
mod search;
mod sessions;

pub use authenticator::SessionAuthenticator;
pub use code::{SignInCode, SignInCodes};
pub use front::{Front, UiConfig};
pub use search::{ObjectSearch, SEARCH_PATH, SearchAuthorizer};
