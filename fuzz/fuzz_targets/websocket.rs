//! Any bytes as a WebSocket with channels: no panic, where reads end means nothing, and a command whose
//! client says them ends.
#![no_main]

use kevel_streaming::channel::{Demultiplexer, KUBELET, Protocol, Signal, V5};
use kevel_streaming::remote_command::Version;
use kevel_streaming::translator::{Options, translate};
use kevel_streaming::websocket::{Decoder, Event, Role};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fuzz_target!(|data: &[u8]| {
    let Some(([choice, step], bytes)) = data.split_first_chunk() else { return };
    let protocols: Vec<Protocol> = KUBELET.iter().copied().chain([V5]).collect();
    let protocol = protocols[usize::from(choice >> 1) % protocols.len()];
    let role = if choice & 1 == 0 { Role::Server } else { Role::Client };
    let step = usize::from(*step).max(1);
    let pieces = heard(bytes.chunks(step), role, protocol);
    // What of a text in base64 cannot be read depends on how much of it is there.
    if !protocol.base64 {
        assert_eq!(pieces, heard([bytes].into_iter(), role, protocol));
    }
    if role == Role::Server {
        translated(bytes, protocol);
    }
});

/// Messages, the bytes on each channel, and the error.
fn heard<'b>(
    pieces: impl Iterator<Item = &'b [u8]>,
    role: Role,
    protocol: Protocol,
) -> (Vec<String>, [usize; 5]) {
    let (mut decoder, mut demultiplexer) = (Decoder::new(role), Demultiplexer::new(protocol));
    let (mut said, mut data) = (Vec::new(), [0; 5]);
    for piece in pieces {
        let mut piece = piece.to_vec();
        let mut input = &mut piece[..];
        loop {
            match decoder.next(&mut input) {
                Ok(None) => break,
                Ok(Some(Event::Data { bytes, last, .. })) => {
                    let read = demultiplexer.read(bytes, last, |signal| match signal {
                        Signal::Data(channel, bytes) => data[usize::from(channel)] += bytes.len(),
                        Signal::End(channel) => said.push(format!("{channel} ended")),
                    });
                    if read.is_err() {
                        return (said, data);
                    }
                }
                Ok(Some(event)) => said.push(format!("{event:?}")),
                Err(violation) => {
                    said.push(violation.to_string());
                    return (said, data);
                }
            }
        }
    }
    (said, data)
}

/// A command whose client says this, and whose kubelet agrees to nothing.
fn translated(bytes: &[u8], protocol: Protocol) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (mut client, near) = tokio::io::duplex(1 << 10);
        let (far, mut kubelet) = tokio::io::duplex(1 << 10);
        let options = Options { stdin: true, stdout: true, stderr: false, tty: true };
        let connected = async { Ok((far, Version::V4)) };
        let command = translate(near, protocol, options, None, connected);
        let asks = async {
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            let _ = client.read_to_end(&mut Vec::new()).await;
        };
        let answers = async {
            let _ = kubelet.read_to_end(&mut Vec::new()).await;
        };
        let _ = tokio::join!(command, asks, answers);
    });
}
