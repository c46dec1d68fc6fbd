//! Protocols of `pods/exec`, `attach` and `portforward`: SPDY and WebSocket, translated into each other or passed
//! through. Works on connections and headers alone: no server, no tasks.
//!
//! # Design
//!
//! ```text
//! client ─ WebSocket, channels ─▶ Translator ─ SPDY streams ─▶ kubelet     exec, attach: v5.channel.k8s.io
//! client ─ WebSocket ─ bytes ───▶ Tunnel, copy ─ bytes ──────▶ kubelet     portforward: SPDY/3.1+portforward.k8s.io
//! client ─ any upgrade ─────────▶ copy ─ same bytes ─────────▶ backend     all other upgrades
//!
//! spdy::Decoder       bytes in pieces → frames; no I/O          websocket::Decoder   the same, unmasked in place
//! spdy::Connection    opens, accepts and closes streams         websocket::Socket    frames on a connection
//! spdy::Driver        the future that reads and writes          websocket::Tunnel    binary messages of a socket as bytes
//! spdy::Stream        AsyncRead + AsyncWrite, half-close        upgrade::Rewound     a connection after read-ahead bytes
//! ```
//!
//! - The crate starts no tasks: everything is a future of the caller. Dropping it ends both sides in any state.
//! - *Idle connections are cheap.* A read uses a buffer on the stack for that one call; bytes are on the heap only
//!   between a side that has sent them and one that does not take them yet. SPDY headers are sent as stored blocks,
//!   which need no compression window; for received headers only the text is kept, a dictionary of a few KiB.
//! - *A window per connection.* SPDY as Kubernetes uses it has no flow control (neither side sends or obeys
//!   `WINDOW_UPDATE`). Unread bytes of all streams are counted together; above `WINDOW` the connection is not read, and
//!   TCP slows the sender down. A stalled stream stalls its neighbours, as in the reference. Pending output never
//!   blocks reading, except unread answers to pings.
//! - *Frames are not collected.* Data are passed on in the pieces in which they arrive. Only header frames are held
//!   whole; their size, decompressed size, number of headers and number of streams are limited by constants.
//! - *An end is an end.* `RST_STREAM`, `GOAWAY` and a lost connection read as the end of a stream, as in the reference:
//!   kubelets reset streams that ended well. Success or failure is in the error stream's `Status`. One deliberate
//!   difference: if the connection to the kubelet breaks before there is a status, the client gets a failure.
//! - *Wakers.* A `Driver` registers its waker before it checks for work, because streams are used in other tasks.
//! - The client is answered before the kubelet is contacted (an unreachable kubelet is reported on channel 3), except
//!   for tunnels, whose subprotocol the kubelet chooses.

mod chunk;

pub mod channel;
pub mod copy;
pub mod rate;
pub mod remote_command;
pub mod spdy;
#[cfg(feature = "testing")]
pub mod testing;
pub mod translator;
pub mod tunnel;
pub mod upgrade;
pub mod websocket;
