//! Tests of handshakes with backends, with all kinds of responses, and of tunnels from end to end.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, sockets, soon, until};
use http::{HeaderMap, HeaderValue, Method, Request};
use kevel_streaming::channel::{self, Protocol, STDIN, STDOUT};
use kevel_streaming::copy::copy_bidirectional;
use kevel_streaming::testing::Kubelet;
use kevel_streaming::testing::client::{
    PortForward, WebSocketCommand, spdy_command, websocket as ask_websocket,
};
use kevel_streaming::translator::Options;
use kevel_streaming::tunnel;
use kevel_streaming::upgrade::backend::{Answer, Error, MAX_BODY, handshake, spdy_request};
use kevel_streaming::upgrade::{PROTOCOL_VERSION, protocol_version};
use kevel_streaming::websocket::{Role, Socket, Tunnel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Response of a backend that always sends these bytes.
async fn answer(bytes: &[u8]) -> Result<Answer<TcpStream>, Error> {
    let (near, mut far) = sockets().await;
    let bytes = bytes.to_vec();
    tokio::spawn(async move {
        let mut asked = [0; 16];
        far.read_exact(&mut asked).await.unwrap();
        let _ = far.write_all(&bytes).await;
        let _ = far.shutdown().await;
        let _ = far.read_to_end(&mut Vec::new()).await;
    });
    let request = spdy_request("http://node:10250/exec?x=1".parse().unwrap(), &["v4"]);
    soon("an answer", handshake(near, &request)).await
}

fn shown(answer: &Answer<TcpStream>) -> String {
    let shown = |status: http::StatusCode, headers: &HeaderMap, body: &[u8]| {
        let headers = headers.iter().map(|(n, v)| format!("{n}={}", v.to_str().unwrap()));
        let headers = headers.collect::<Vec<_>>().join(",");
        format!("{} {headers} {}", status.as_u16(), String::from_utf8_lossy(body))
    };
    match answer {
        Answer::Switched(parts, _) => shown(parts.status, &parts.headers, b""),
        Answer::Refused(answer) => shown(answer.status(), answer.headers(), answer.body()),
    }
}

#[tokio::test]
async fn answers_of_backends_are_read() {
    for (bytes, expected) in [
        ("HTTP/1.1 101 X\r\nUpgrade: SPDY/3.1\r\n\r\n", "101 upgrade=SPDY/3.1 "),
        // Without carriage returns, which Go always accepts.
        ("HTTP/1.1 101 X\nA: b\n\n", "101 a=b "),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nA: b\r\n\r\nno more", "404 a=b no"),
        ("HTTP/1.0 500 X\r\n\r\nuntil the end", "500  until the end"),
        (
            "HTTP/1.1 403 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
            "403  abcde",
        ),
        // A truncated body is passed on as far as it goes.
        ("HTTP/1.1 403 X\r\nContent-Length: 99\r\n\r\nabc", "403  abc"),
        ("HTTP/1.1 403 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", "403  abc"),
        // Hop-by-hop headers of the backend are dropped.
        (
            "HTTP/1.1 302 X\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
            "302 location=/ ",
        ),
    ] {
        assert_eq!(shown(&answer(bytes.as_bytes()).await.unwrap()), expected, "{bytes:?}");
    }
    for bytes in [
        "",
        "HTTP/1.1 101 X\r\nUpgrade",
        "HTTP/2 101\r\n\r\n",
        "HTTP/1.1 99999 X\r\n\r\n",
        "HTTP/1.1 200 X\r\nno colon\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "\r\n\r\n\r\n",
    ] {
        let found = answer(bytes.as_bytes()).await;
        assert!(matches!(found, Err(Error::Io(_) | Error::Malformed(_))), "{bytes:?}: {found:?}");
    }
}

#[tokio::test]
async fn answers_of_backends_are_bounded() {
    let long = format!("HTTP/1.1 101 X\r\nA: {}\r\n\r\n", "b".repeat(80 << 10));
    assert!(matches!(answer(long.as_bytes()).await, Err(Error::TooLarge)));
    let many = format!("HTTP/1.1 101 X\r\n{}\r\n", "A: b\r\n".repeat(101));
    assert!(matches!(answer(many.as_bytes()).await, Err(Error::Malformed(_))));
    let large = format!("HTTP/1.1 500 X\r\n\r\n{}", "b".repeat(3 << 20));
    let Answer::Refused(cut) = answer(large.as_bytes()).await.unwrap() else { panic!() };
    assert_eq!(cut.body().len(), MAX_BODY);
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "b".repeat(1 << 20));
    let large = format!("HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}");
    let Answer::Refused(cut) = answer(large.as_bytes()).await.unwrap() else { panic!() };
    assert_eq!(cut.body().len(), MAX_BODY);
}

/// Bytes right behind the response's head are not lost.
#[tokio::test]
async fn what_was_read_ahead_comes_first() {
    let Answer::Switched(_, mut io) = answer(b"HTTP/1.1 101 X\r\n\r\nahead").await.unwrap() else {
        panic!()
    };
    let mut heard = String::new();
    soon("it", io.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "ahead");
}

/// A request with headers about a body is sent without them: no request can be smuggled in it.
#[tokio::test]
async fn requests_have_no_bodies() {
    let (near, mut far) = sockets().await;
    let mut request = Request::post("http://node:10250/exec/a%20b?x=1").body(()).unwrap();
    for (name, value) in [
        ("content-length", "5"),
        ("content-length", "6"),
        ("transfer-encoding", "chunked"),
        ("expect", "100-continue"),
        ("x-kept", "yes"),
    ] {
        request.headers_mut().append(name, HeaderValue::from_static(value));
    }
    let asking = tokio::spawn(async move { drop(handshake(near, &request).await) });
    let mut asked = vec![0; 1024];
    let mut length = 0;
    while !asked[..length].ends_with(b"\r\n\r\n") {
        length += soon("a request", far.read(&mut asked[length..])).await.unwrap();
    }
    let expected = "POST /exec/a%20b?x=1 HTTP/1.1\r\nhost: node:10250\r\nx-kept: yes\r\n\
                    content-length: 0\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&asked[..length]), expected);
    drop(far);
    soon("the end", asking).await.unwrap();
}

#[test]
fn versions_are_chosen_as_the_reference_does() {
    let server = ["v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"];
    let choose = |lines: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(PROTOCOL_VERSION, HeaderValue::from_static(line));
        }
        protocol_version(&headers, &server).map_err(|refusal| {
            let count = refusal.headers().get_all("x-accepted-stream-protocol-versions").iter();
            (refusal.status().as_u16(), count.count(), (*refusal).into_body())
        })
    };
    assert_eq!(choose(&["v5.channel.k8s.io", "v3.channel.k8s.io, channel.k8s.io"]), Ok(server[1]));
    assert_eq!(choose(&["channel.k8s.io", "v4.channel.k8s.io"]), Ok(server[2]));
    let none = "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with \
                0 headers\n";
    assert_eq!(choose(&[]), Err((400, 0, none.to_owned())));
    let empty = "unable to upgrade: header X-Stream-Protocol-Version contains [ , ], but no valid \
                 protocols\n";
    assert_eq!(choose(&[" , "]), Err((400, 0, empty.to_owned())));
    let unknown = "unable to upgrade: unable to negotiate protocol: client supports [v9 v8], \
                   server accepts [v4.channel.k8s.io v3.channel.k8s.io channel.k8s.io]\n";
    assert_eq!(choose(&["v9", "v8"]), Err((403, 3, unknown.to_owned())));
}

fn tunnel_request(protocols: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", protocols),
        ("x-stream-protocol-version", "smuggled"),
        ("user-agent", "test"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

#[test]
fn a_request_for_a_tunnel_stands_for_one_for_spdy() {
    let client = tunnel_request("x, SPDY/3.1+portforward.k8s.io, SPDY/3.1+v2.portforward.k8s.io");
    let headers = tunnel::spdy_headers(&client).unwrap();
    let mut lines: Vec<String> =
        headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "connection: Upgrade",
            "upgrade: SPDY/3.1",
            "user-agent: test",
            "x-stream-protocol-version: portforward.k8s.io",
            "x-stream-protocol-version: v2.portforward.k8s.io",
        ]
    );
    let refusal = tunnel::spdy_headers(&tunnel_request("v5.channel.k8s.io")).unwrap_err();
    let told = "unable to upgrade: no tunneling spdy protocols provided\n";
    assert_eq!((refusal.status().as_u16(), refusal.body().as_str()), (400, told));
}

#[test]
fn a_tunnel_has_the_subprotocol_that_the_kubelet_has_chosen() {
    let client = tunnel_request("SPDY/3.1+portforward.k8s.io");
    let kubelet = |headers: &[(&'static str, &'static str)]| {
        let mut response = http::Response::new(());
        for (name, value) in headers {
            response.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        response.into_parts().0
    };
    let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    let chosen = |version: &'static str| {
        let kubelet = kubelet(&[spdy[0], spdy[1], ("x-stream-protocol-version", version)]);
        let accepted = tunnel::accept(&Method::GET, &client, &kubelet).unwrap();
        let protocol = accepted.headers().get("sec-websocket-protocol");
        protocol.map(|protocol| protocol.to_str().unwrap().to_owned())
    };
    assert_eq!(chosen(" portforward.k8s.io ").as_deref(), Some("SPDY/3.1+portforward.k8s.io"));
    // A protocol that the client does not support.
    assert_eq!(chosen("v9.portforward.k8s.io"), None);
    assert_eq!(chosen(""), None);
    let refusal = tunnel::accept(&Method::GET, &client, &kubelet(&[])).unwrap_err();
    let told = "unable to upgrade: missing upgrade headers in response\n";
    assert_eq!((refusal.status().as_u16(), refusal.body().as_str()), (500, told));
    // Errors in the client's request are found last, as in the reference.
    let refused = |name: &'static str, value: &'static str, method: Method| {
        let mut client = client.clone();
        client.insert(name, HeaderValue::from_static(value));
        let refusal = tunnel::accept(&method, &client, &kubelet(&spdy)).unwrap_err();
        assert_eq!(refusal.headers()["sec-websocket-version"], "13");
        (refusal.status().as_u16(), (*refusal).into_body())
    };
    let bad = (400, "Bad Request\n".to_owned());
    assert_eq!(refused("sec-websocket-key", "short", Method::GET), bad);
    assert_eq!(refused("sec-websocket-version", "8", Method::GET), bad);
    assert_eq!(refused("connection", "close", Method::GET), bad);
    assert_eq!(refused("upgrade", "x", Method::GET), (426, "Upgrade Required\n".to_owned()));
    assert_eq!(refused("x", "", Method::POST), (405, "Method Not Allowed\n".to_owned()));
}

/// SPDY in a WebSocket, unwrapped, to the kubelet: ports answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_are_forwarded_through_a_tunnel() {
    let kubelet = Kubelet::start().await.unwrap();
    let (near, far) = sockets().await;
    let client = tunnel_request("SPDY/3.1+portforward.k8s.io");
    let mut request = Request::post("/portForward/default/pod").body(()).unwrap();
    *request.headers_mut() = tunnel::spdy_headers(&client).unwrap();
    let io = TcpStream::connect(kubelet.address).await.unwrap();
    let Answer::Switched(parts, backend) = handshake(io, &request).await.unwrap() else { panic!() };
    tunnel::accept(&Method::GET, &client, &parts).unwrap();
    let tunnel = Tunnel::new(Socket::new(far, Role::Server));
    let copy = tokio::spawn(copy_bidirectional(tunnel, backend, None));
    let mut forward = PortForward::new(Tunnel::new(Socket::new(near, Role::Client)));
    let sent = Random(4).bytes(10 << 20);
    for port in [80, 8080] {
        let (data, _error) = soon("a connection", forward.connect(port)).await.unwrap();
        let mut heard = Vec::new();
        let both = async {
            tokio::join!(
                async {
                    (&data).write_all(&sent).await.unwrap();
                    (&data).shutdown().await.unwrap();
                },
                async { (&data).read_to_end(&mut heard).await.unwrap() }
            )
        };
        soon("an echo", both).await;
        assert!(heard == sent);
    }
    let (_data, mut error) = soon("a connection", forward.connect(1)).await.unwrap();
    let mut why = String::new();
    soon("an error", error.read_to_string(&mut why)).await.unwrap();
    assert!(why.contains("connection refused"), "{why}");
    soon("a close", forward.close()).await.unwrap();
    soon("the copy", copy).await.unwrap().unwrap();
    until("no connection left", || kubelet.connections() == 0).await;
}

/// Tests of the stand-in itself: the subprotocols that the API server passes on to kubelets.
#[tokio::test]
async fn the_stand_in_speaks_what_kubelets_speak() {
    let kubelet = Kubelet::start().await.unwrap();
    let target = |command: &str| {
        let address = kubelet.address;
        format!("http://{address}/exec/n/p/c?{command}&input=1&output=1&error=1").parse().unwrap()
    };
    let all: Vec<Protocol> = channel::KUBELET.iter().copied().chain([channel::V5]).collect();
    for protocol in all {
        let io = TcpStream::connect(kubelet.address).await.unwrap();
        let uri = target("command=cat");
        let (chosen, socket) = ask_websocket(io, uri, protocol.name).await.unwrap();
        assert_eq!(chosen, protocol.name);
        let mut command = WebSocketCommand::new(socket, protocol);
        command.say(STDIN, b"hello").await.unwrap();
        let echoed = |heard: &[Vec<u8>]| heard[usize::from(STDOUT)] == b"hello";
        soon(protocol.name, command.converse(b"", echoed)).await.unwrap();
        assert_eq!(command.heard(STDOUT), b"hello", "{protocol:?}");
    }
    until("no connection left", || kubelet.connections() == 0).await;

    let io = TcpStream::connect(kubelet.address).await.unwrap();
    let options = Options { stdin: true, stdout: true, stderr: true, tty: false };
    let mut command = spdy_command(io, target("command=exit&command=7"), options).await.unwrap();
    let mut status = String::new();
    soon("a status", command.error.read_to_string(&mut status)).await.unwrap();
    assert!(status.contains(r#""reason":"ExitCode","message":"7""#), "{status}");
    soon("the end", command.driver).await.unwrap().unwrap();

    let io = TcpStream::connect(kubelet.address).await.unwrap();
    let uri = format!("http://{}/exec/n/missing/c?output=1", kubelet.address).parse().unwrap();
    let refused = spdy_command(io, uri, options).await.unwrap_err();
    assert_eq!(refused.to_string(), "404: pod does not exist: missing");
}
