//! Tests with arbitrary bytes from fixed seeds: no panic, no hang, no growth.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, soon, unhex};
use kevel_streaming::channel::{CHANNELS, Demultiplexer, KUBELET, Protocol, Signal, V5};
use kevel_streaming::remote_command::{Version, connect};
use kevel_streaming::spdy::{
    self, Decoder, Frame, MAX_HEADER_BYTES, MAX_OUT, MAX_REPLIES, MAX_STREAMS, WINDOW,
};
use kevel_streaming::translator::{Options, translate};
use kevel_streaming::upgrade::backend::{handshake, spdy_request};
use kevel_streaming::websocket::{self, Event, Role};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

/// Valid frames, of which invalid ones are made.
const FRAMES: &[&str] = &[
    "80030001000000290000000100000000000078f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800000000ffff",
    "800300010000001700000003000000000000c22e555c92929907000000ffff",
    "800300010100001d00000005000000000000c22ac595925892c890989e989907000000ffff",
    "80030008000000110000000582ca335680884a00000000ffff",
    "800300020000000e000000016260606000000000ffff",
    "000000010000000568656c6c6f",
    "0000000101000000",
    "80030003000000080000000300000005",
    "800300060000000400000001",
    "800300060000000400000002",
    "80030007000000080000000700000000",
    "800300040000000c000000010100000700010000",
    "80030009000000080000000300008000",
];

/// Consecutive frames, some of them damaged.
fn frames(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(12) {
        let mut frame = unhex(FRAMES[random.below(FRAMES.len())]);
        match random.below(8) {
            0 => {
                let at = random.below(frame.len());
                frame[at] ^= 1 << random.below(8);
            }
            1 => frame.truncate(random.below(frame.len())),
            2 => {
                let length = random.below(64);
                frame = random.bytes(length);
            }
            3 => {
                // Data of a random stream, of random length.
                let length = random.below(100_000);
                frame = (1 + random.below(8) as u32).to_be_bytes().to_vec();
                frame.extend((length as u32).to_be_bytes());
                frame.resize(8 + length, 7);
            }
            _ => {}
        }
        bytes.extend(frame);
    }
    bytes
}

/// Splits bytes into random pieces.
fn split<'b>(bytes: &'b [u8], random: &mut Random) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + random.below(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[test]
fn any_bytes_as_spdy() {
    let mut random = Random(1);
    for _ in 0..6_000 {
        let bytes = frames(&mut random);
        let read = |pieces: &[&[u8]]| {
            let mut decoder = Decoder::default();
            let (mut shown, mut data) = (Vec::new(), 0);
            for mut piece in pieces.iter().copied() {
                loop {
                    match decoder.next(&mut piece) {
                        Ok(None) => break,
                        Ok(Some(Frame::Data { bytes, .. })) => data += bytes.len(),
                        Ok(Some(frame)) => {
                            if let Frame::SynStream { headers, .. } = &frame {
                                let size = headers.values().map(|value| value.len()).sum::<usize>();
                                assert!(size <= MAX_HEADER_BYTES);
                            }
                            shown.push(format!("{frame:?}"));
                        }
                        Err(error) => {
                            shown.push(error.to_string());
                            return (shown, data);
                        }
                    }
                }
            }
            (shown, data)
        };
        let whole = read(&[&bytes]);
        assert_eq!(read(&split(&bytes, &mut random)), whole);
    }
}

#[tokio::test]
async fn any_bytes_to_a_spdy_connection() {
    let mut random = Random(2);
    for round in 0..600 {
        let bytes = frames(&mut random);
        let (mut peer, far) = duplex(1 + random.below(4096));
        let (connection, driver) =
            if round % 2 == 0 { spdy::server(far) } else { spdy::client(far) };
        let opened = connection.create_stream(&http::HeaderMap::new());
        let driving = tokio::spawn(driver);
        let feeding = tokio::spawn(async move {
            let _ = peer.write_all(&bytes).await;
            let _ = peer.shutdown().await;
            let _ = peer.read_to_end(&mut Vec::new()).await;
        });
        // Some streams are read, some are not.
        let mut held = Vec::new();
        while let Ok(Some(incoming)) =
            tokio::time::timeout(std::time::Duration::from_millis(1), connection.accept()).await
        {
            let stream = incoming.accept();
            match random.below(3) {
                0 => held.push(stream),
                1 => drop(stream),
                _ => drop(tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut &stream, &mut &stream).await;
                })),
            }
            assert!(connection.unread() <= WINDOW + (32 << 10), "{}", connection.unread());
            let most = MAX_OUT + MAX_REPLIES + (64 << 10);
            assert!(connection.unsent() <= most, "{}", connection.unsent());
            assert!(held.len() <= MAX_STREAMS);
        }
        drop((opened, held));
        connection.close();
        let _ = soon("the driver", driving).await.unwrap();
        soon("the peer", feeding).await.unwrap();
    }
}

#[test]
fn any_bytes_as_a_websocket() {
    let mut random = Random(3);
    let good = [
        "818537fa213d7f9f4d5158",
        "018337fa213d7f9f4d",
        "808237fa213d5b95",
        "898537fa213d7f9f4d5158",
        "888200000000 03e8",
        "82fe0001 00000000 61",
        "8105 48656c6c6f",
    ];
    for _ in 0..15_000 {
        let mut bytes = Vec::new();
        for _ in 0..1 + random.below(8) {
            let mut frame = unhex(good[random.below(good.len())]);
            if random.below(4) == 0 {
                let at = random.below(frame.len());
                frame[at] = random.next() as u8;
            }
            bytes.extend(frame);
        }
        let role = if random.below(4) == 0 { Role::Client } else { Role::Server };
        let protocols: Vec<Protocol> = KUBELET.iter().copied().chain([V5]).collect();
        let protocol = protocols[random.below(protocols.len())];
        let read = |pieces: &[&[u8]]| {
            let mut decoder = websocket::Decoder::new(role);
            let mut demultiplexer = Demultiplexer::new(protocol);
            let (mut shown, mut data) = (Vec::new(), vec![0; usize::from(CHANNELS)]);
            for piece in pieces {
                let mut piece = piece.to_vec();
                let mut input = &mut piece[..];
                loop {
                    match decoder.next(&mut input) {
                        Ok(None) => break,
                        Ok(Some(Event::Data { bytes, last, .. })) => {
                            let read = demultiplexer.read(bytes, last, |signal| match signal {
                                Signal::Data(channel, bytes) => {
                                    data[usize::from(channel)] += bytes.len();
                                }
                                Signal::End(channel) => shown.push(format!("{channel} ended")),
                            });
                            if read.is_err() {
                                return (shown, data);
                            }
                        }
                        Ok(Some(event)) => shown.push(format!("{event:?}")),
                        Err(violation) => {
                            shown.push(violation.to_string());
                            return (shown, data);
                        }
                    }
                }
            }
            (shown, data)
        };
        let whole = read(&[&bytes]);
        let pieces = read(&split(&bytes, &mut random));
        // With invalid base64 the decoded data depend on the pieces.
        if !protocol.base64 {
            assert_eq!(pieces, whole);
        }
    }
}

#[tokio::test]
async fn any_bytes_as_an_answer() {
    let mut random = Random(4);
    let parts = [
        "HTTP/1.1 101 X\r\n",
        "HTTP/1.1 500 X\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\n",
        "ffffffffffffffff\r\n",
        "5\r\nabcde\r\n",
        "0\r\n\r\n",
        "\r\n",
        "\n\n",
        "Connection: Upgrade\r\n",
        "\0\u{ff}",
    ];
    let request = spdy_request("http://node/exec".parse().unwrap(), &["v4.channel.k8s.io"]);
    for _ in 0..1500 {
        let count = 1 + random.below(8);
        let text: String = (0..count).map(|_| parts[random.below(parts.len())]).collect();
        let (near, mut peer) = duplex(64 << 10);
        peer.write_all(text.as_bytes()).await.unwrap();
        peer.shutdown().await.unwrap();
        let _ = soon("an answer", handshake(near, &request)).await;
    }
}

/// A client and a kubelet that both send random bytes.
#[tokio::test]
async fn any_bytes_to_the_translator() {
    let mut random = Random(5);
    let options = Options { stdin: true, stdout: true, stderr: true, tty: false };
    let talk = async |mut io: tokio::io::DuplexStream, bytes: Vec<u8>| {
        let _ = io.write_all(&bytes).await;
        let _ = io.shutdown().await;
        let mut heard = Vec::new();
        let _ = io.read_to_end(&mut heard).await;
        heard
    };
    for round in 0..400 {
        let (client, near) = duplex(1 + random.below(8192));
        let (far, kubelet) = duplex(1 + random.below(8192));
        let length = random.below(200);
        let said = random.bytes(length);
        let answered = frames(&mut random);
        let target = "http://node/exec".parse().unwrap();
        let connecting = async {
            match round % 2 {
                0 => connect(far, target).await.map(|(io, version)| (Either::Left(io), version)),
                _ => Ok((Either::Right(far), Version::V4)),
            }
        };
        let translation = translate(near, V5, options, None, connecting);
        let all = async { tokio::join!(translation, talk(client, said), talk(kubelet, answered)) };
        soon("all of them", all).await;
    }
}

/// Either of two connections.
enum Either {
    Left(kevel_streaming::upgrade::Rewound<tokio::io::DuplexStream>),
    Right(tokio::io::DuplexStream),
}

macro_rules! either {
    ($self:ident, $io:ident => $call:expr) => {
        match $self.get_mut() {
            Either::Left(io) => {
                let $io = std::pin::Pin::new(io);
                $call
            }
            Either::Right(io) => {
                let $io = std::pin::Pin::new(io);
                $call
            }
        }
    };
}

type Poll<T> = std::task::Poll<std::io::Result<T>>;
type Context<'c, 'w> = &'c mut std::task::Context<'w>;

impl tokio::io::AsyncRead for Either {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        context: Context<'_, '_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<()> {
        either!(self, io => io.poll_read(context, buffer))
    }
}

impl tokio::io::AsyncWrite for Either {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        context: Context<'_, '_>,
        bytes: &[u8],
    ) -> Poll<usize> {
        either!(self, io => io.poll_write(context, bytes))
    }

    fn poll_flush(self: std::pin::Pin<&mut Self>, context: Context<'_, '_>) -> Poll<()> {
        either!(self, io => io.poll_flush(context))
    }

    fn poll_shutdown(self: std::pin::Pin<&mut Self>, context: Context<'_, '_>) -> Poll<()> {
        either!(self, io => io.poll_shutdown(context))
    }
}
