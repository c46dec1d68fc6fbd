//! Any bytes as SPDY: no panic, where reads end means nothing, headers are bounded, and a connection that
//! hears them ends, with no more in memory than its window.
#![no_main]

use kevel_streaming::spdy::{self, Decoder, Frame, MAX_HEADER_BYTES, MAX_HEADERS, WINDOW};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let step = usize::from(first >> 1).max(1);
    assert_eq!(decoded(bytes.chunks(step)), decoded([bytes].into_iter()));
    connection(bytes, first & 1 == 1);
});

/// The frames, how many bytes of data each stream got, and what was wrong.
fn decoded<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> Vec<String> {
    let mut decoder = Decoder::default();
    let (mut frames, mut data) = (Vec::new(), 0);
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece) {
                Ok(None) => break,
                Ok(Some(Frame::Data { bytes, .. })) => data += bytes.len(),
                Ok(Some(frame)) => {
                    if let Frame::SynStream { headers, .. } = &frame {
                        let size: usize = headers.values().map(|value| value.len()).sum();
                        assert!(size <= MAX_HEADER_BYTES && headers.keys_len() <= MAX_HEADERS);
                    }
                    frames.push(format!("{frame:?}"));
                }
                Err(error) => {
                    frames.push(error.to_string());
                    frames.push(data.to_string());
                    return frames;
                }
            }
        }
    }
    frames.push(data.to_string());
    frames
}

/// A connection whose peer says this, and whose streams are accepted and answered.
fn connection(bytes: &[u8], server: bool) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (mut peer, near) = tokio::io::duplex(1 << 10);
        let (connection, driver) = if server { spdy::server(near) } else { spdy::client(near) };
        let asked = connection.create_stream(&http::HeaderMap::new());
        let answers = async {
            while let Some(incoming) = connection.accept().await {
                let stream = incoming.accept();
                assert!(connection.unread() <= WINDOW + (32 << 10));
                tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut &stream, &mut &stream).await;
                });
            }
        };
        let asks = async {
            let _ = peer.write_all(bytes).await;
            let _ = peer.shutdown().await;
            let _ = peer.read_to_end(&mut Vec::new()).await;
        };
        let _ = tokio::join!(driver, answers, asks);
        drop(asked);
    });
}
