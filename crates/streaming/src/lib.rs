//! Protocols of `pods/exec`, `attach` and `portforward`: SPDY and WebSocket, translated into each other or passed
//! through. Works on connections and headers alone: no server, no tasks.

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
