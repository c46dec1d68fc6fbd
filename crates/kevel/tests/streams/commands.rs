//! `pods/exec` and `pods/attach`.

use std::time::Duration;

use kevel_streaming::channel::{ERROR, RESIZE, STDERR, STDIN, STDOUT, V4, V5};
use kevel_streaming::testing::client::{WebSocketCommand, spdy_command, websocket};
use kevel_streaming::translator::Options;
use kevel_streaming::websocket::CloseCode;
use kevel_test_support::{soon, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Node, PODS, start};

fn exec(query: &str) -> http::Uri {
    format!("https://127.0.0.1{PODS}/p/exec?{query}").parse().unwrap()
}

/// Output of a command on stdout, stderr and the error channel, by a WebSocket.
async fn run(node: &Node, protocol: &str, query: &str, stdin: &[u8]) -> [String; 3] {
    let io = node.connect().await;
    let (chosen, socket) = soon(websocket(io, exec(query), protocol)).await.unwrap();
    assert_eq!(chosen, protocol);
    let protocol = if protocol == V5.name { V5 } else { V4 };
    let mut command = WebSocketCommand::new(socket, protocol);
    let code = soon(command.converse(stdin, |_| false)).await.unwrap();
    assert!(matches!(code, Some(CloseCode::NORMAL) | None), "{code:?}");
    [STDOUT, STDERR, ERROR].map(|channel| String::from_utf8_lossy(command.heard(channel)).into())
}

const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_for_clients_of_every_protocol() {
    let node = start(&[]).await;
    for protocol in [V5.name, V4.name] {
        let echo = run(&node, protocol, "stdout=1&stderr=1&command=echo&command=a+b", b"").await;
        assert_eq!(echo[0], "a b\n", "{protocol}");
        assert!(echo[2].contains(r#""status":"Success""#), "{protocol}: {echo:?}");
        let wrong = run(&node, protocol, "stderr=true&command=complain&command=oh", b"").await;
        assert_eq!((&*wrong[0], &*wrong[1]), ("", "oh"), "{protocol}");
        let exit = run(&node, protocol, "stdout=1&command=exit&command=7", b"").await;
        assert!(exit[2].contains(r#""reason":"NonZeroExitCode""#), "{exit:?}");
        assert!(exit[2].contains(r#""message":"7""#), "{exit:?}");
    }
    let data: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let hashes = run(&node, V5.name, "stdin=1&stdout=1&command=hash", &data).await;
    assert_eq!(hashes[2], SUCCESS);
    let options = Options { stdin: true, stdout: true, ..Options::default() };
    let target = exec("stdin=1&stdout=1&command=hash");
    let mut spdy = soon(spdy_command(node.connect().await, target, options)).await.unwrap();
    let mut stdin = spdy.stdin.take().unwrap();
    soon(stdin.write_all(&data)).await.unwrap();
    soon(stdin.shutdown()).await.unwrap();
    let mut stdout = String::new();
    soon(spdy.stdout.take().unwrap().read_to_string(&mut stdout)).await.unwrap();
    assert_eq!(stdout, hashes[0]);
    let mut ended = String::new();
    soon(spdy.error.read_to_string(&mut ended)).await.unwrap();
    assert!(ended.contains("Success"), "{ended}");
    drop(spdy);
    until(async || node.kubelet.connections() == 0).await;
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_has_a_size() {
    let node = start(&[]).await;
    let target = exec("stdin=1&stdout=1&tty=1&command=sizes&command=2");
    let (_, socket) = soon(websocket(node.connect().await, target, V5.name)).await.unwrap();
    let mut command = WebSocketCommand::new(socket, V5);
    command.say(RESIZE, br#"{"Width":80,"Height":24}"#).await.unwrap();
    command.say(RESIZE, br#"{"Width":132,"Height":43}"#).await.unwrap();
    soon(command.converse(b"", |_| false)).await.unwrap();
    let heard = String::from_utf8_lossy(command.heard(STDOUT)).into_owned();
    assert!(heard.contains("80") && heard.contains("132"), "{heard}");
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_can_be_attached_to() {
    let node = start(&[]).await;
    let target = format!("https://127.0.0.1{PODS}/p/attach?stdin=1&stdout=1&container=c");
    let target = target.parse().unwrap();
    let (_, socket) = soon(websocket(node.connect().await, target, V5.name)).await.unwrap();
    let mut command = WebSocketCommand::new(socket, V5);
    soon(command.converse(b"hello", |_| false)).await.unwrap();
    assert_eq!(command.heard(STDOUT), b"attached\nhello");
    let asked = node.kubelet.requests().pop().unwrap();
    assert_eq!(asked.uri().to_string(), "/attach/default/p/c?input=1&output=1");
    node.cluster.stop().await;
}

/// Errors of the kubelet reach the client as its protocol defines.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_refuses_is_told_of() {
    let node = start(&[]).await;
    for (pod, expected) in [
        ("missing", "unable to upgrade connection: pod does not exist: missing"),
        ("moved", "redirect not allowed"),
    ] {
        let target = format!("https://127.0.0.1{PODS}/{pod}/exec?stdout=1&command=echo");
        let target: http::Uri = target.parse().unwrap();
        let io = node.connect().await;
        let (_, socket) = soon(websocket(io, target.clone(), V5.name)).await.unwrap();
        let mut command = WebSocketCommand::new(socket, V5);
        soon(command.converse(b"", |_| false)).await.unwrap();
        let told = String::from_utf8_lossy(command.heard(ERROR)).into_owned();
        assert!(told.contains(expected), "{pod}: {told}");
        let options = Options { stdout: true, ..Options::default() };
        let told = soon(spdy_command(node.connect().await, target, options)).await.unwrap_err();
        let expected = match pod {
            "missing" => "404: pod does not exist: missing",
            _ => "invalid upgrade response: status code 302",
        };
        assert!(told.to_string().contains(expected), "{pod}: {told}");
    }
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_exec_options_are_refused_without_the_kubelet() {
    let node = start(&[]).await;
    let pod = serde_json::json!({
        "metadata": {"name": "waits"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    node.cluster.admin.create(PODS, &pod).await;
    for (what, expected) in [
        ("POST p/exec?command=a", "400 Upgrade request required"),
        ("GET p/exec?command=a", "400 Upgrade request required"),
        ("POST p/exec?dryRun=All", "400 dryRun is not supported"),
        ("POST p/exec?container=x", "400 container x is not valid for pod p"),
        ("POST none/exec", "404 pods \"none\" not found"),
        ("POST waits/exec", "400 pod waits does not have a host assigned"),
        ("POST waits/portforward", "400 pod waits does not have a host assigned"),
        (
            "POST p/portforward?ports=x",
            "400 cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        ("PUT p/exec", "405 the server does not allow this method on the requested resource"),
        ("POST p/exec/x", "404 the server could not find the requested resource"),
    ] {
        let (method, path) = what.split_once(' ').unwrap();
        let what = format!("{method} {PODS}/{path}");
        assert_eq!(node.cluster.refused("admin", &what, "").await, expected, "{what}");
    }
    assert_eq!(node.kubelet.requests().len(), 0);
    node.cluster.stop().await;
}

/// A connection that breaks on either side leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_when_one_side_goes() {
    let node = start(&[]).await;
    let target = exec("stdin=1&stdout=1&command=hang");
    let mut sockets = Vec::new();
    for protocol in [V5.name, V4.name] {
        let io = node.connect().await;
        sockets.push(soon(websocket(io, target.clone(), protocol)).await.unwrap().1);
    }
    let silent: http::Uri =
        format!("https://127.0.0.1{PODS}/silent/exec?stdout=1").parse().unwrap();
    sockets.push(soon(websocket(node.connect().await, silent, V5.name)).await.unwrap().1);
    until(async || node.kubelet.connections() == 3).await;
    drop(sockets);
    until(async || node.kubelet.connections() == 0).await;
    // The kubelet goes.
    let (_, socket) = soon(websocket(node.connect().await, target, V5.name)).await.unwrap();
    let mut command = WebSocketCommand::new(socket, V5);
    command.say(STDIN, b"x").await.unwrap();
    until(async || node.kubelet.connections() == 1).await;
    node.kubelet.disconnect();
    soon(command.converse(b"", |_| false)).await.unwrap();
    let told = String::from_utf8_lossy(command.heard(ERROR)).into_owned();
    assert!(told.contains("Failure"), "{told}");
    node.cluster.stop().await;
}

/// A server that stops does not wait for commands for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_all_streams() {
    let node = start(&["--shutdown-delay-duration=0s"]).await;
    let target = exec("stdin=1&stdout=1&command=cat");
    let (_, socket) = soon(websocket(node.connect().await, target, V5.name)).await.unwrap();
    let mut command = WebSocketCommand::new(socket, V5);
    command.say(STDIN, b"x").await.unwrap();
    soon(command.converse(b"", |heard| !heard[1].is_empty())).await.unwrap();
    drop(command);
    soon(node.cluster.stop()).await;
    until(async || node.kubelet.connections() == 0).await;
}

/// A kubelet that knows WebSockets gets them as they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_knows_websockets_gets_them() {
    let node = start(&[]).await;
    let path = "PATCH /api/v1/nodes/n/status";
    let features = r#"{"status":{"declaredFeatures":["ExtendWebSocketsToKubelet"]}}"#;
    let patched = node.cluster.ok("admin", path, features).await;
    assert_eq!(patched["status"]["declaredFeatures"][0], "ExtendWebSocketsToKubelet");
    let echo = run(&node, V5.name, "stdout=1&command=echo&command=a", b"").await;
    assert_eq!(echo[0], "a\n");
    let asked = node.kubelet.requests().pop().unwrap();
    assert_eq!(asked.headers()["upgrade"], "websocket");
    assert_eq!(asked.headers()["sec-websocket-protocol"], V5.name);
    node.cluster.stop().await;
}

/// A connection may be kept slow, whatever it speaks.
#[tokio::test(flavor = "multi_thread")]
async fn no_connection_is_faster_than_it_may_be() {
    const RATE: u64 = 100_000;
    const BYTES: u64 = 150_000;
    // What goes in the first and the last tenth of a second is not held against it.
    const AT_LEAST: Duration = Duration::from_millis(1_300);
    let node = start(&[&format!("--max-connection-bytes-per-sec={RATE}")]).await;
    let query = format!("stdout=1&command=yes&command={BYTES}");
    let begun = kevel_clock::monotonic_now();
    let (_, socket) = soon(websocket(node.connect().await, exec(&query), V5.name)).await.unwrap();
    let mut command = WebSocketCommand::new(socket, V5);
    soon(command.converse(b"", |_| false)).await.unwrap();
    assert_eq!(command.heard(STDOUT).len() as u64, BYTES);
    assert!(begun.elapsed() >= AT_LEAST, "{:?}", begun.elapsed());
    let begun = kevel_clock::monotonic_now();
    let options = Options { stdout: true, ..Options::default() };
    let mut spdy = soon(spdy_command(node.connect().await, exec(&query), options)).await.unwrap();
    let mut heard = Vec::new();
    soon(spdy.stdout.as_mut().unwrap().read_to_end(&mut heard)).await.unwrap();
    assert_eq!(heard.len() as u64, BYTES);
    assert!(begun.elapsed() >= AT_LEAST, "{:?}", begun.elapsed());
    node.cluster.stop().await;
}
