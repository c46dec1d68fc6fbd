//! Tests of the translator between a WebSocket client and a SPDY kubelet, over real sockets.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Random, Session, hash, pattern, session, sockets, soon, tasks, translated, until};
use kevel_streaming::channel::{ERROR, RESIZE, STDERR, STDIN, STDOUT, V5};
use kevel_streaming::rate::Rate;
use kevel_streaming::remote_command::{Outcome, Version, connect};
use kevel_streaming::testing::Kubelet;
use kevel_streaming::translator::{Options, Translated, translate};
use kevel_streaming::websocket::CloseCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const OUTPUTS: Options = Options { stdin: false, stdout: true, stderr: true, tty: false };
const ALL: Options = Options { stdin: true, ..OUTPUTS };
const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Output on stdout, stderr and the error channel, and the end of the connection.
#[tokio::test]
async fn commands_run_and_say_how_they_ended() {
    let failed = |why: &str| {
        format!(
            r#"{{"metadata":{{}},"status":"Failure","message":"Internal error occurred: {why}","reason":"InternalError","details":{{"causes":[{{"message":"{why}"}}]}},"code":500}}"#
        )
    };
    let not_found = r#"Internal error occurred: error executing command in container: exec: \"nosuch\": executable file not found in $PATH"#;
    for (command, stdout, stderr, status) in [
        ("command=echo&command=hello&command=you", "hello you\n", "", SUCCESS.to_owned()),
        ("command=complain&command=ouch", "", "ouch", SUCCESS.to_owned()),
        ("command=exit&command=0", "", "", SUCCESS.to_owned()),
        (
            "command=exit&command=3",
            "",
            "",
            r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command terminated with exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#.to_owned(),
        ),
        ("command=nosuch", "", "", failed(not_found)),
    ] {
        let mut session = session(command, OUTPUTS, None).await;
        let closed = soon(command, session.client.converse(b"", |_| false)).await.unwrap();
        assert_eq!(closed, Some(CloseCode::NORMAL), "{command}");
        let heard = |channel| text(session.client.heard(channel));
        assert_eq!((heard(STDOUT), heard(STDERR)), (stdout, stderr), "{command}");
        assert_eq!(heard(ERROR), status, "{command}");
        soon("the end", session.translation).await.unwrap();
        until("no connection left", || session.kubelet.connections() == 0).await;
    }
}

#[tokio::test]
async fn ten_megabytes_each_way_and_the_end_of_stdin() {
    let before = tasks();
    let Session { kubelet, mut client, translation } = session("command=cat", ALL, None).await;
    let sent = Random(5).bytes(10 << 20);
    let closed = soon("an echo", client.converse(&sent, |_| false)).await.unwrap();
    assert_eq!(closed, Some(CloseCode::NORMAL));
    assert_eq!(hash(client.heard(STDOUT)), hash(&sent));
    assert_eq!(text(client.heard(ERROR)), SUCCESS);
    assert_eq!(soon("the end", translation).await.unwrap(), Translated::Ended(Outcome::Success));
    drop((kubelet, client));
    until("no task left", || tasks() == before).await;
}

#[tokio::test]
async fn stdin_arrives_whole_and_its_end_is_heard() {
    let mut session = session("command=hash", ALL, None).await;
    let sent = Random(6).bytes(3 << 20);
    soon("a hash", session.client.converse(&sent, |_| false)).await.unwrap();
    assert_eq!(text(session.client.heard(STDOUT)), hash(&sent));
}

#[tokio::test]
async fn what_is_printed_arrives_whole() {
    let mut session = session("command=yes&command=10000000", OUTPUTS, None).await;
    soon("the output", session.client.converse(b"", |_| false)).await.unwrap();
    assert!(session.client.heard(STDOUT) == pattern(10_000_000));
}

#[tokio::test]
async fn a_terminal_has_sizes_and_one_output() {
    let options = Options { stdin: true, stdout: true, stderr: true, tty: true };
    let Session { mut client, kubelet, translation } =
        session("command=sizes&command=2", options, None).await;
    client.say(RESIZE, br#"{"Width":80,"Height":24}"#).await.unwrap();
    client.say(RESIZE, br#"{"Width":132,"Height":50}"#).await.unwrap();
    soon("sizes", client.converse(b"", |_| false)).await.unwrap();
    let sizes = "{\"Width\":80,\"Height\":24}\n{\"Width\":132,\"Height\":50}\n";
    assert_eq!(text(client.heard(STDOUT)), sizes);
    assert_eq!(text(client.heard(ERROR)), SUCCESS);
    soon("the end", translation).await.unwrap();
    let asked = &kubelet.requests()[0];
    assert_eq!(asked.method(), "POST");
    let header = |name| asked.headers().get_all(name).iter().map(|v| v.to_str().unwrap());
    assert_eq!(header("upgrade").collect::<Vec<_>>(), ["SPDY/3.1"]);
    assert_eq!(header("x-stream-protocol-version").next(), Some("v5.channel.k8s.io"));
    assert_eq!(header("x-stream-protocol-version").count(), 5);
}

/// Sizes without a terminal, unrequested stdin, and channels that are not the client's to write.
#[tokio::test]
async fn unrequested_streams_are_discarded() {
    let Session { mut client, kubelet: _kubelet, .. } =
        session("command=yes&command=300000", OUTPUTS, None).await;
    for _ in 0..50 {
        client.say(RESIZE, br#"{"Width":80,"Height":24}"#).await.unwrap();
        client.say(STDIN, &[7; 1000]).await.unwrap();
        client.say(STDOUT, b"mine").await.unwrap();
        client.say(99, b"whose").await.unwrap();
    }
    let closed = soon("the end", client.converse(b"", |_| false)).await.unwrap();
    assert_eq!(closed, Some(CloseCode::NORMAL));
    assert_eq!(client.heard(STDOUT).len(), 300_000);
}

/// A command that ends without reading its input: the client gets the result.
#[tokio::test]
async fn unread_stdin_blocks_no_other_stream() {
    let Session { mut client, kubelet: _kubelet, .. } =
        session("command=exit&command=4", ALL, None).await;
    let closed = soon("the end", client.converse(&vec![1; 4 << 20], |_| false)).await;
    // The client gets the result though it was still sending.
    assert!(text(client.heard(ERROR)).contains(r#""message":"4""#), "{closed:?}");
}

#[tokio::test]
async fn a_client_that_goes_takes_the_kubelets_side_with_it() {
    for how in ["drop", "close", "violation", "bad close signal"] {
        let before = tasks();
        let Session { kubelet, mut client, translation } = session("command=hang", ALL, None).await;
        until("the kubelet", || kubelet.connections() == 1).await;
        match how {
            "close" => {
                client.close(CloseCode::NORMAL).await.unwrap();
                let closed = soon("a close", client.converse(b"", |_| false)).await.unwrap();
                assert_eq!(closed, Some(CloseCode::NORMAL));
            }
            "violation" => {
                client.raw(b"\x83\x80\0\0\0\0").await.unwrap();
                let closed = soon("a close", client.converse(b"", |_| false)).await.unwrap();
                assert_eq!(closed, Some(CloseCode::PROTOCOL_ERROR));
            }
            "bad close signal" => client.say(255, b"\x09").await.unwrap(),
            _ => {}
        }
        drop(client);
        let ended = soon(how, translation).await.unwrap();
        assert_eq!(ended, Translated::ClientGone, "{how}");
        until("no connection left", || kubelet.connections() == 0).await;
        drop(kubelet);
        until("no task left", || tasks() == before).await;
    }
}

/// The same while output is sent.
#[tokio::test]
async fn a_client_that_goes_while_it_is_told_something() {
    let Session { kubelet, mut client, translation } =
        session("command=yes&command=1000000000", OUTPUTS, None).await;
    let enough = |heard: &[Vec<u8>]| heard[usize::from(STDOUT)].len() > 1 << 20;
    soon("some output", client.converse(b"", enough)).await.unwrap();
    drop(client);
    assert_eq!(soon("the end", translation).await.unwrap(), Translated::ClientGone);
    until("no connection left", || kubelet.connections() == 0).await;
}

/// A client that does not read holds the data under way, and the command waits.
#[tokio::test]
async fn a_client_that_does_not_read_stops_the_command() {
    let Session { mut client, translation, kubelet: _kubelet } =
        session("command=yes&command=50000000", OUTPUTS, None).await;
    // Blocked: only the client can end it.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    assert!(!translation.is_finished());
    soon("the rest", client.converse(b"", |_| false)).await.unwrap();
    assert!(client.heard(STDOUT) == pattern(50_000_000));
}

/// A killed kubelet is a failure, not a success as in the reference.
#[tokio::test]
async fn a_kubelet_that_goes_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let kubelet = tokio::spawn(async move {
        let (io, _) = listener.accept().await.unwrap();
        let serving = tokio::spawn(kevel_streaming::testing::serve(io));
        (listener, serving)
    });
    let (mut client, translation) =
        translated(&address, "exec/default/pod/c?command=cat", ALL, None).await;
    client.say(STDIN, b"ping").await.unwrap();
    let pinged = |heard: &[Vec<u8>]| heard[usize::from(STDOUT)] == b"ping";
    soon("an echo", client.converse(b"", pinged)).await.unwrap();
    kubelet.await.unwrap().1.abort();
    let closed = soon("the end", client.converse(b"", |_| false)).await.unwrap();
    assert_eq!(closed, Some(CloseCode::NORMAL));
    let status = text(client.heard(ERROR));
    let why = "Internal error occurred: error reading from error stream: unexpected EOF";
    assert!(status.contains(why) && status.contains(r#""code":500"#), "{status}");
    assert!(matches!(translation.await.unwrap(), Translated::Ended(Outcome::Failure(_))));
}

/// Unreachable, refusing and redirecting kubelets: the client gets the error on its error channel.
#[tokio::test]
async fn a_kubelet_that_does_not_agree_is_a_failure() {
    let kubelet = Kubelet::start().await.unwrap();
    let address = kubelet.address.to_string();
    for (path, why) in [
        (
            "exec/default/missing/c?command=cat",
            "unable to upgrade connection: pod does not exist: missing",
        ),
        ("nowhere/default/pod/c?command=cat", "unable to upgrade connection: 404 page not found"),
        (
            "exec/default/moved/c?command=cat",
            r#"error sending request: Post \"https://169.254.169.254/latest\": redirect not allowed"#,
        ),
    ] {
        let (mut client, _) = translated(&address, path, ALL, None).await;
        let closed = soon(path, client.converse(b"", |_| false)).await.unwrap();
        assert_eq!(closed, Some(CloseCode::NORMAL), "{path}");
        let status = text(client.heard(ERROR));
        let message = format!(r#""message":"Internal error occurred: {why}""#);
        assert!(status.contains(&message), "{status}");
    }
    drop(kubelet);
    let (mut client, _) = translated(&address, "exec/default/pod/c?command=cat", ALL, None).await;
    soon("an error", client.converse(b"", |_| false)).await.unwrap();
    assert!(text(client.heard(ERROR)).contains("refused"), "{}", text(client.heard(ERROR)));
}

/// A client can disconnect while its kubelet does not answer.
#[tokio::test]
async fn a_client_can_go_before_the_kubelet_answers() {
    let kubelet = Kubelet::start().await.unwrap();
    let address = kubelet.address.to_string();
    let path = "exec/default/silent/c?command=cat";
    let (mut client, translation) = translated(&address, path, ALL, None).await;
    client.say(STDIN, b"early").await.unwrap();
    until("the request", || kubelet.requests().len() == 1).await;
    drop(client);
    assert_eq!(soon("the end", translation).await.unwrap(), Translated::ClientGone);
    // The stand-in does not check whether a client waits.
}

/// Input that a client sends before its command runs is not lost.
#[tokio::test]
async fn a_client_may_speak_early() {
    let Session { mut client, kubelet: _kubelet, .. } = session("command=cat", ALL, None).await;
    client.say(STDIN, b"early").await.unwrap();
    client.end_stdin().await.unwrap();
    soon("an echo", client.converse(b"", |_| false)).await.unwrap();
    assert_eq!(text(client.heard(STDOUT)), "early");
    assert_eq!(text(client.heard(ERROR)), SUCCESS);
}

#[tokio::test]
async fn a_rate_is_kept() {
    const BYTES: usize = 60_000;
    let rate = Rate::per_second(100_000);
    for (command, sent) in [("command=yes&command=60000", 0), ("command=hash", BYTES)] {
        let mut session = session(command, ALL, rate).await;
        let begun = kevel_clock::monotonic_now();
        let sent = vec![1; sent];
        soon(command, session.client.converse(&sent, |_| false)).await.unwrap();
        // Six samples of 10,000 bytes: the first at once, the last after half a second.
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(400), "{command}: {took:?}");
    }
}

/// Plain texts of old kubelets, and invalid ones.
#[test]
fn outcomes_are_the_references() {
    for (version, message, expected) in [
        (Version::V1, "", "Success"),
        (Version::V1, "no", r#"Failure("Error executing remote command: no")"#),
        (Version::V2, "no", r#"Failure("error executing remote command: no")"#),
        (Version::V3, "no", r#"Failure("error executing remote command: no")"#),
        (Version::V4, r#"{"status":"Success"}"#, "Success"),
        (Version::V4, r#"{"status":"Failure","message":"broken"}"#, r#"Failure("broken")"#),
        (
            Version::V5,
            r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"x"},{"reason":"ExitCode","message":"255"}]}}"#,
            "Exit(255)",
        ),
        (
            Version::V4,
            r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"256"}]}}"#,
            r#"Failure("error stream protocol error: invalid exit code value \"256\"")"#,
        ),
        (
            Version::V4,
            r#"{"status":"Failure","reason":"NonZeroExitCode","details":{}}"#,
            r#"Failure("error stream protocol error: no ExitCode cause given")"#,
        ),
        (
            Version::V4,
            r#"{"status":"Failure","reason":"NonZeroExitCode"}"#,
            r#"Failure("error stream protocol error: details must be set")"#,
        ),
        (Version::V4, "{}", r#"Failure("error stream protocol error: unknown error")"#),
    ] {
        let outcome = version.outcome(message.as_bytes());
        assert_eq!(format!("{outcome:?}"), expected, "{message}");
    }
    let Outcome::Failure(why) = Version::V4.outcome(b"no JSON") else { panic!() };
    assert!(why.starts_with("error stream protocol error: "), "{why}");
    assert!(why.ends_with(r#"in "no JSON""#), "{why}");
}

/// Kubelets that send random bytes: the client always gets a result.
#[tokio::test]
async fn whatever_a_kubelet_says_the_client_hears_of_an_end() {
    let mut random = Random(11);
    for round in 0..60 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let length = random.below(3000);
        let mut answer = random.bytes(length);
        if round % 3 != 0 {
            let head = b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";
            let replies: &[u8] = if round % 3 == 1 { b"" } else { b"\x80\x03\0\x02" };
            answer = [head, replies, &answer].concat();
        }
        let kubelet = tokio::spawn(async move {
            let (mut io, _) = listener.accept().await.unwrap();
            let _ = io.write_all(&answer).await;
            let _ = io.shutdown().await;
            let _ = io.read_to_end(&mut Vec::new()).await;
        });
        let path = "exec/default/pod/c?command=cat";
        let (mut client, translation) = translated(&address.to_string(), path, ALL, None).await;
        soon("an end", client.converse(b"", |_| false)).await.unwrap();
        assert!(text(client.heard(ERROR)).contains("Failure"), "{}", text(client.heard(ERROR)));
        drop(client);
        soon("the translator", translation).await.unwrap();
        soon("the kubelet", kubelet).await.unwrap();
    }
}

/// After four hours without data the client is taken for gone.
#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_for_hours_is_gone() {
    let (near, far) = tokio::io::duplex(4096);
    let (kubelet, served) = tokio::io::duplex(4096);
    tokio::spawn(kevel_streaming::testing::serve(served));
    let target = "http://kubelet/exec/default/pod/c?command=hang&output=1".parse().unwrap();
    let options = Options { stdout: true, ..Options::default() };
    let begun = kevel_clock::timer_now();
    let ended = translate(far, V5, options, None, connect(kubelet, target)).await;
    assert_eq!(ended, Translated::ClientGone);
    let hours = begun.elapsed().as_secs() / 3600;
    assert_eq!(hours, 4);
    drop(near);
}

/// A kubelet that upgrades the connection, and then does not accept the streams.
#[tokio::test(start_paused = true)]
async fn streams_that_are_not_opened_are_not_waited_for() {
    let (mut near, far) = tokio::io::duplex(4096);
    let (kubelet, _silent) = tokio::io::duplex(4096);
    let options = Options { stdout: true, ..Options::default() };
    let agreed = async { Ok((kubelet, Version::V4)) };
    let translation = tokio::spawn(translate(far, V5, options, None, agreed));
    let mut heard = Vec::new();
    near.read_to_end(&mut heard).await.unwrap();
    let heard = String::from_utf8_lossy(&heard).into_owned();
    assert!(heard.contains("Internal error occurred: Timeout occurred"), "{heard}");
    drop(near);
    let ended = translation.await.unwrap();
    assert_eq!(ended, Translated::Ended(Outcome::Failure("Timeout occurred".to_owned())));
}

/// A real socket that is closed in the middle of the handshake.
#[tokio::test]
async fn a_kubelet_that_hangs_up_is_a_failure() {
    let (near, far) = sockets().await;
    drop(far);
    let target = "http://kubelet/exec/default/pod/c".parse().unwrap();
    let failed = soon("an error", connect::<TcpStream>(near, target)).await.unwrap_err();
    let expected = r#"error sending request: Post "http://kubelet/exec/default/pod/c": "#;
    assert!(failed.starts_with(expected), "{failed}");
}
