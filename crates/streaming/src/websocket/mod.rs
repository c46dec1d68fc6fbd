//! WebSockets (RFC 6455): frames, connections, and byte tunnels in messages. The handshake is in
//! [`crate::upgrade::websocket`].

mod decoder;
mod frame;
mod socket;
mod tunnel;

pub use decoder::{Decoder, Event, MAX_MESSAGE};
pub use frame::{CloseCode, MAX_CONTROL, Opcode, Role, Violation, write_frame};
pub use socket::{Received, Socket};
pub use tunnel::Tunnel;
