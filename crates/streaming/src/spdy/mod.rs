//! SPDY/3.1 as Kubernetes uses it (`github.com/moby/spdystream`): streams in both directions on one connection, without
//! flow control.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use http::HeaderMap;
//! use kevel_streaming::spdy;
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! let (near, far) = tokio::io::duplex(1024);
//! let (client, client_driver) = spdy::client(near);
//! let (server, server_driver) = spdy::server(far);
//! let asks = async {
//!     let mut stream = client.create_stream(&HeaderMap::new()).unwrap();
//!     stream.opened().await.unwrap();
//!     stream.write_all(b"hello").await.unwrap();
//!     stream.shutdown().await.unwrap();
//!     let mut answer = String::new();
//!     stream.read_to_string(&mut answer).await.unwrap();
//!     client.close();
//!     answer
//! };
//! let answers = async {
//!     let stream = server.accept().await.unwrap().accept();
//!     tokio::io::copy(&mut &stream, &mut &stream).await.unwrap();
//!     stream.finish();
//!     assert!(server.accept().await.is_none());
//! };
//! let (_, _, answer, ()) = tokio::join!(client_driver, server_driver, asks, answers);
//! assert_eq!(answer, "hello");
//! # });
//! ```

mod connection;
mod decoder;
mod dictionary;
mod driver;
mod error;
mod frame;
mod headers;
mod state;
mod stream;

pub use connection::{Connection, Incoming, client, server};
pub use decoder::{Decoder, MAX_CONTROL_FRAME};
pub use driver::Driver;
pub use error::{CreateError, Error};
pub use frame::{Frame, ResetStatus};
pub use headers::{MAX_HEADER_BYTES, MAX_HEADERS};
pub use state::{Ending, MAX_DATA, MAX_OUT, MAX_REPLIES, MAX_STREAMS, WINDOW};
pub use stream::Stream;
