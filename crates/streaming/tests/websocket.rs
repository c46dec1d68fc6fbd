//! Tests of WebSockets: the RFC's example frames, violations, channels, and handshakes.

#![allow(clippy::unwrap_used)]

mod common;

use bytes::BytesMut;
use common::{Random, sockets, soon, unhex};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use kevel_streaming::channel::{
    Demultiplexer, KUBELET, Protocol, Signal, TRANSLATED, V1_BASE64, V4, V4_BASE64, V5,
};
use kevel_streaming::upgrade::{is_upgrade_request, websocket};
use kevel_streaming::websocket::{
    CloseCode, Decoder, Event, MAX_MESSAGE, Opcode, Role, Socket, Tunnel, write_frame,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Decoded events, with data joined.
fn heard(role: Role, pieces: &[&[u8]]) -> Result<Vec<String>, u16> {
    let mut decoder = Decoder::new(role);
    let (mut all, mut message) = (Vec::new(), Vec::new());
    for piece in pieces {
        let mut piece = piece.to_vec();
        let mut input = &mut piece[..];
        while let Some(event) = decoder.next(&mut input).map_err(|violation| violation.code.0)? {
            match event {
                Event::Data { text, bytes, last } => {
                    message.extend_from_slice(bytes);
                    if last {
                        let shown = String::from_utf8_lossy(&message).into_owned();
                        all.push(format!("{} {shown}", if text { "text" } else { "binary" }));
                        message.clear();
                    }
                }
                Event::Ping(payload) => all.push(format!("ping {}", payload.len())),
                Event::Pong => all.push("pong".to_owned()),
                Event::Close(code) => all.push(format!("close {}", code.0)),
            }
        }
    }
    Ok(all)
}

#[test]
fn frames_are_those_of_the_rfc() {
    for (bytes, expected) in [
        // 5.7: masked text, fragments with a ping in between, a pong.
        ("818537fa213d7f9f4d5158", vec!["text Hello"]),
        (
            "018337fa213d7f9f4d 898537fa213d7f9f4d5158 808237fa213d5b95",
            vec!["ping 5", "text Hello"],
        ),
        ("8a8537fa213d7f9f4d5158", vec!["pong"]),
        ("828000000000", vec!["binary "]),
        ("888200000000 03e8", vec!["close 1000"]),
        ("888000000000", vec!["close 1005"]),
        // Empty fragments.
        ("028000000000 008000000000 808100000000 61", vec!["binary a"]),
        // The same length in more bytes than it needs.
        ("82fe0001 00000000 61", vec!["binary a"]),
        ("82ff0000000000000001 00000000 61", vec!["binary a"]),
    ] {
        let bytes = unhex(bytes);
        assert_eq!(heard(Role::Server, &[&bytes]).unwrap(), expected);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(heard(Role::Server, &single).unwrap(), expected);
    }
    assert_eq!(heard(Role::Client, &[b"\x81\x05Hello"]).unwrap(), ["text Hello"]);
}

#[test]
fn what_breaks_the_rules_closes_the_connection() {
    for (what, bytes, code) in [
        ("not masked", "8105 48656c6c6f", 1002),
        ("an extension's bit", "c18000000000", 1002),
        ("an unknown kind of data", "838000000000", 1002),
        ("an unknown kind of control", "8b8000000000", 1002),
        ("a control frame in fragments", "098000000000", 1002),
        ("a control frame that is too long", "89fe007e", 1002),
        ("nothing to continue", "808000000000", 1002),
        ("a message in a message", "018000000000 818000000000", 1002),
        ("a close frame of one byte", "888100000000 03", 1002),
        ("a code that is never sent", "888200000000 03ed", 1002),
        ("an unknown code", "888200000000 07d0", 1002),
        ("a reason that is no text", "888300000000 03e8ff", 1007),
        ("a message that is too large", "82ff0000000002000001 00000000", 1009),
        ("one that no file system holds", "82ffffffffffffffffff 00000000", 1009),
        ("one of 2^63 bytes", "82ff8000000000000000 00000000", 1009),
        ("a fragment of 2^64 after another", "028100000000 61 80ffffffffffffffffff 00000000", 1009),
    ] {
        let mut bytes = unhex(bytes);
        // Room for a head that is longer than the case needs.
        bytes.extend([0; 8]);
        assert_eq!(heard(Role::Server, &[&bytes]), Err(code), "{what}");
    }
    assert_eq!(heard(Role::Client, &[&unhex("818037fa213d")]), Err(1002), "masked by a server");
    // Fragments count together.
    let half = |first: u8| {
        let mut frame = vec![first, 0xff];
        frame.extend((MAX_MESSAGE / 2 + 1).to_be_bytes());
        frame.extend([0; 4]);
        frame
    };
    let body = vec![0; (MAX_MESSAGE / 2 + 1) as usize];
    let ended = heard(Role::Server, &[&half(0x02), &body, &half(0x80)]);
    assert_eq!(ended, Err(1009));
}

/// Masks at any offset and length, in pieces of any size.
#[test]
fn where_reads_end_means_nothing() {
    let mut random = Random(3);
    for _ in 0..300 {
        let length = random.below(70_000);
        let payload = random.bytes(length);
        let mask = random.bytes(4);
        let mut frame = vec![0x82, 0xff];
        frame.extend((length as u64).to_be_bytes());
        frame.extend(&mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        let mut decoder = Decoder::new(Role::Server);
        let mut read = Vec::new();
        let mut rest = &mut frame[..];
        while !rest.is_empty() {
            let count = 1 + random.below(rest.len().min(9000));
            let (mut piece, after) = std::mem::take(&mut rest).split_at_mut(count);
            rest = after;
            while let Some(event) = decoder.next(&mut piece).unwrap() {
                let Event::Data { bytes, .. } = event else { panic!("{event:?}") };
                read.extend_from_slice(bytes);
            }
        }
        assert!(read == payload);
    }
}

#[test]
fn lengths_are_written_as_short_as_they_can_be() {
    let head = |length: usize| {
        let mut out = BytesMut::new();
        write_frame(Opcode::Text, &[], &vec![b'x'; length], &mut out);
        out[..out.len() - length].to_vec()
    };
    assert_eq!(head(125), b"\x81\x7d");
    assert_eq!(head(126), b"\x81\x7e\x00\x7e");
    assert_eq!(head(65535), b"\x81\x7e\xff\xff");
    assert_eq!(head(65536), b"\x81\x7f\0\0\0\0\0\x01\0\0");
}

/// Signals in messages, each of which comes in pieces.
fn signals(protocol: Protocol, messages: &[&[&str]]) -> Result<Vec<String>, String> {
    let mut demultiplexer = Demultiplexer::new(protocol);
    let mut all = Vec::new();
    for message in messages {
        for (index, piece) in message.iter().enumerate() {
            // `~` is the byte 255, which no text has.
            let piece: Vec<u8> =
                piece.bytes().map(|byte| if byte == b'~' { 255 } else { byte }).collect();
            let last = index + 1 == message.len();
            let read = demultiplexer.read(&piece, last, |signal| {
                all.push(match signal {
                    Signal::Data(channel, bytes) => {
                        format!("{channel} {}", String::from_utf8_lossy(bytes))
                    }
                    Signal::End(channel) => format!("{channel} ended"),
                });
            });
            read.map_err(|bad| bad.to_string())?;
        }
    }
    Ok(all)
}

#[test]
fn messages_are_taken_apart() {
    /// A subprotocol, messages in pieces, and the expected signals.
    type Case<'t> = (Protocol, &'t [&'t [&'t str]], &'t [&'t str]);
    let cases: &[Case<'_>] = &[
        (V5, &[&["\0hello"], &["\u{4}{}"]], &["0 hello", "4 {}"]),
        (V5, &[&["\0", "hel", "lo"]], &["0 hel", "0 lo"]),
        (V5, &[&["", "\0a"], &["\0"], &[""]], &["0 a"]),
        // An unknown channel.
        (V5, &[&["\u{9}x"]], &[]),
        (V5, &[&["~\0"], &["~", "\u{4}"]], &["0 ended", "4 ended"]),
        // Before v5 this is an unknown channel.
        (V4, &[&["~\0"]], &[]),
        (V4_BASE64, &[&["0aGVsbG8="], &["4e30="]], &["0 hello", "4 {}"]),
        (V4_BASE64, &[&["0aG", "Vsb", "G8", "="]], &["0 hel", "0 lo"]),
        (V1_BASE64, &[&["0aGVs\r\nbG8=\n"]], &["0 hello"]),
        // Data that cannot be decoded are dropped, without further effect.
        (V1_BASE64, &[&["0!!!!"], &["0aGk"], &["0aGk="]], &["0 hi"]),
        (V1_BASE64, &[&["0aGVsbG8=", "aGVsbG8="]], &["0 hello"]),
    ];
    for (protocol, messages, expected) in cases {
        let found = signals(*protocol, messages).unwrap();
        assert_eq!(found, *expected, "{protocol:?} {messages:?}");
    }
    for bad in ["~", "~\0\0", "~\u{5}", "~\u{9}"] {
        assert!(signals(V5, &[&[bad]]).is_err(), "{bad:?}");
    }
}

fn request(headers: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ]
    .iter()
    .chain(headers)
    {
        let name = HeaderName::from_static(name);
        // An empty value removes the header.
        match value.is_empty() {
            true => map.remove(name),
            false => map.insert(name, HeaderValue::from_static(value)),
        };
    }
    map
}

#[test]
fn subprotocols_are_chosen_as_the_reference_does() {
    const NAME: &str = "sec-websocket-protocol";
    for (server, client, expected) in [
        (TRANSLATED, "v5.channel.k8s.io", Some("v5.channel.k8s.io")),
        (TRANSLATED, "v4.channel.k8s.io, v5.channel.k8s.io", Some("v5.channel.k8s.io")),
        (TRANSLATED, "v4.channel.k8s.io", None),
        (TRANSLATED, "", None),
        (KUBELET, "", Some("")),
        (KUBELET, "v5.channel.k8s.io,base64.channel.k8s.io", Some("base64.channel.k8s.io")),
        (KUBELET, "channel.k8s.io , v4.channel.k8s.io", Some("channel.k8s.io")),
        (KUBELET, "v4.base64.channel.k8s.io", Some("v4.base64.channel.k8s.io")),
        (KUBELET, "v5.channel.k8s.io", None),
    ] {
        let headers = request(&[(NAME, client)]);
        let found = websocket::accept(&Method::GET, &headers, server);
        match (found, expected) {
            (Ok((answer, protocol)), Some(expected)) => {
                assert_eq!(protocol.name, expected, "{client}");
                let said = answer.headers().get(NAME).map(|value| value.to_str().unwrap());
                assert_eq!(said.unwrap_or_default(), expected);
                assert_eq!(answer.status(), 101);
                let accept = &answer.headers()["sec-websocket-accept"];
                assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
            }
            (Err(refusal), None) => {
                assert_eq!((refusal.status().as_u16(), refusal.body().as_str()), (403, ""));
            }
            (found, _) => panic!("{client}: {found:?}"),
        }
    }
}

#[test]
fn requests_are_told_apart() {
    for (headers, upgrade, socket, translated, tunnel) in [
        (vec![], true, true, false, false),
        (vec![("connection", "close")], false, false, false, false),
        (vec![("upgrade", "SPDY/3.1")], true, false, false, false),
        (vec![("sec-websocket-protocol", "v4.channel.k8s.io")], true, true, false, false),
        (vec![("sec-websocket-protocol", "x, v5.channel.k8s.io")], true, true, true, false),
        (vec![("sec-websocket-protocol", "SPDY/3.1+portforward.k8s.io")], true, true, false, true),
        (vec![("sec-websocket-protocol", "SPDY/3.1+portforward")], true, true, false, false),
    ] {
        let map = request(&headers);
        assert_eq!(is_upgrade_request(&map), upgrade, "{headers:?}");
        assert_eq!(websocket::is_request(&map), socket, "{headers:?}");
        assert_eq!(websocket::is_stream_close_request(&map), translated, "{headers:?}");
        assert_eq!(websocket::is_tunneling_request(&map), tunnel, "{headers:?}");
    }
}

#[test]
fn what_is_wrong_with_a_handshake_is_said() {
    let ask = |method: Method, header: (&'static str, &'static str)| {
        let refusal = websocket::accept(&method, &request(&[header]), KUBELET).unwrap_err();
        (refusal.status().as_u16(), (*refusal).into_body())
    };
    let none = ("x", "");
    assert_eq!(ask(Method::POST, none), (405, "bad method".to_owned()));
    let not = (400, "not websocket protocol".to_owned());
    assert_eq!(ask(Method::GET, ("upgrade", "")), not);
    assert_eq!(ask(Method::GET, ("connection", "close")), not);
    let key = (400, "mismatch challenge/response".to_owned());
    assert_eq!(ask(Method::GET, ("sec-websocket-key", "")), key);
    let version = (400, "missing or bad WebSocket Version".to_owned());
    assert_eq!(ask(Method::GET, ("sec-websocket-version", "8")), version);
}

/// Bytes in a tunnel, over real sockets, with pings in between.
#[tokio::test]
async fn a_tunnel_carries_bytes() {
    let (near, far) = sockets().await;
    let mut tunnel = Tunnel::new(Socket::new(far, Role::Server));
    let echo = tokio::spawn(async move {
        let mut all = Vec::new();
        tunnel.read_to_end(&mut all).await.unwrap();
        tunnel.write_all(&all).await.unwrap();
        tunnel.shutdown().await.unwrap();
        all.len()
    });
    let mut socket = Socket::new(near, Role::Client);
    let sent = Random(9).bytes(1 << 20);
    for (index, part) in sent.chunks(7001).enumerate() {
        socket.send(Opcode::Binary, &part[..1], &part[1..]);
        if index % 3 == 0 {
            socket.send(Opcode::Ping, b"ping", &[]);
        }
        soon("room", std::future::poll_fn(|context| socket.poll_flush(context))).await.unwrap();
    }
    socket.close(CloseCode::NORMAL);
    soon("room", std::future::poll_fn(|context| socket.poll_flush(context))).await.unwrap();
    let mut heard = Vec::new();
    let closed = loop {
        let received = std::future::poll_fn(|context| {
            socket.poll_receive(context, 4096, |text, bytes, _| {
                assert!(!text);
                heard.extend_from_slice(bytes);
            })
        });
        match soon("an echo", received).await.unwrap().unwrap() {
            kevel_streaming::websocket::Received::Some => {}
            other => break other,
        }
    };
    assert_eq!(closed, kevel_streaming::websocket::Received::Closed(CloseCode::NORMAL));
    assert!(heard == sent);
    assert_eq!(echo.await.unwrap(), sent.len());
}

#[tokio::test]
async fn a_tunnel_has_no_texts() {
    for (opcode, what, code) in [
        (Opcode::Text, "invalid message type received", 1000),
        (Opcode::Continuation, "WebSocket frame continues what has not begun", 1002),
    ] {
        let (near, far) = sockets().await;
        let mut tunnel = Tunnel::new(Socket::new(far, Role::Server));
        let mut socket = Socket::new(near, Role::Client);
        socket.send(opcode, b"x", &[]);
        std::future::poll_fn(|context| socket.poll_flush(context)).await.unwrap();
        let read = soon("an error", tunnel.read(&mut [0; 16])).await;
        assert_eq!(read.unwrap_err().to_string(), what);
        // The peer gets a close frame.
        let received =
            std::future::poll_fn(|context| socket.poll_receive(context, 64, |_, _, _| {}));
        let received = soon("a close", received).await.unwrap().unwrap();
        assert_eq!(received, kevel_streaming::websocket::Received::Closed(CloseCode(code)));
    }
}

/// A side whose peer does not read still reads: otherwise two sides that both send much would block each other.
#[tokio::test]
async fn who_cannot_speak_can_hear() {
    let (near, mut peer) = tokio::io::duplex(256);
    let mut tunnel = Tunnel::new(Socket::new(near, Role::Server));
    let stuck = tokio::time::timeout(std::time::Duration::from_millis(20), async {
        while tunnel.write_all(&[1; 1 << 10]).await.is_ok() {}
    });
    assert!(stuck.await.is_err());
    peer.write_all(&unhex("828200000000 6869 898000000000")).await.unwrap();
    let mut heard = [0; 2];
    soon("what the peer said", tunnel.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"hi");
}

/// A ping right before the close is answered before the close frame.
#[tokio::test]
async fn nothing_follows_a_close_frame() {
    let (near, mut peer) = tokio::io::duplex(256);
    let mut socket = Socket::new(near, Role::Server);
    peer.write_all(&unhex("898100000000 61 888200000000 03e8")).await.unwrap();
    let received = std::future::poll_fn(|context| socket.poll_receive(context, 64, |_, _, _| {}));
    let closed = kevel_streaming::websocket::Received::Closed(CloseCode::NORMAL);
    assert_eq!(received.await.unwrap().unwrap(), closed);
    socket.close(CloseCode::NORMAL);
    socket.close(CloseCode::PROTOCOL_ERROR);
    socket.send(Opcode::Binary, b"late", &[]);
    std::future::poll_fn(|context| socket.poll_shutdown(context)).await.unwrap();
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, unhex("8a0161 880203e8"));
}
