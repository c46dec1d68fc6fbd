//! Helpers of the tests.

#![allow(clippy::unwrap_used, dead_code)]

use std::time::Duration;

use kevel_streaming::channel::{TRANSLATED, V5};
use kevel_streaming::rate::Rate;
use kevel_streaming::remote_command::connect;
use kevel_streaming::testing::Kubelet;
use kevel_streaming::testing::client::{WebSocketCommand, websocket};
use kevel_streaming::translator::{Options, Translated, translate};
use kevel_streaming::upgrade::{Rewound, websocket as handshake};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Time limit of anything that should happen soon.
pub const SOON: Duration = Duration::from_secs(20);

/// Waits for a future, with a time limit.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {SOON:?}"),
    }
}

/// Waits for a condition, with a time limit.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Two ends of a TCP connection.
pub async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

/// Number of alive tasks.
pub fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Deterministic pseudo-random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

pub fn unhex(text: &str) -> Vec<u8> {
    let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    text.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Output of the stand-in's `hash`.
pub fn hash(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{} {:016x}", bytes.len(), bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Output of the stand-in's `yes`.
pub fn pattern(count: u64) -> Vec<u8> {
    (0..count).map(|place| (place ^ place >> 8 ^ place >> 16) as u8).collect()
}

/// A command on a stand-in, for a v5 client, with the translator in between.
pub struct Session {
    pub kubelet: Kubelet,
    pub client: WebSocketCommand<Rewound<TcpStream>>,
    pub translation: JoinHandle<Translated>,
}

/// Starts a session. The command is a query: `command=echo&command=hello`.
pub async fn session(command: &str, options: Options, rate: Option<Rate>) -> Session {
    let kubelet = Kubelet::start().await.unwrap();
    let address = kubelet.address;
    let path = format!("exec/default/pod/container?{command}");
    let (client, translation) = translated(&address.to_string(), &path, options, rate).await;
    Session { kubelet, client, translation }
}

/// Starts a client and the translator for any kubelet and path.
pub async fn translated(
    kubelet: &str,
    path: &str,
    options: Options,
    rate: Option<Rate>,
) -> (WebSocketCommand<Rewound<TcpStream>>, JoinHandle<Translated>) {
    let (near, far) = sockets().await;
    let bit = |name, on| if on { format!("&{name}=1") } else { String::new() };
    let query = [
        bit("input", options.stdin),
        bit("output", options.stdout),
        bit("error", options.stderr),
        bit("tty", options.tty),
    ]
    .concat();
    let target: http::Uri = format!("http://{kubelet}/{path}{query}").parse().unwrap();
    let kubelet = kubelet.to_owned();
    let translation = tokio::spawn(async move {
        let far = accept(far).await;
        let connecting = async {
            let io = TcpStream::connect(&kubelet).await.map_err(|error| error.to_string())?;
            connect(io, target).await
        };
        translate(far, V5, options, rate, connecting).await
    });
    let uri = "http://server/api/v1/namespaces/default/pods/pod/exec".parse().unwrap();
    let (protocol, socket) = soon("a WebSocket", websocket(near, uri, V5.name)).await.unwrap();
    assert_eq!(protocol, V5.name);
    (WebSocketCommand::new(socket, V5), translation)
}

/// Accepts a WebSocket request, as an API server does.
async fn accept(mut io: TcpStream) -> TcpStream {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await.unwrap());
    }
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(&head).unwrap();
    let mut request = http::Request::get(parsed.path.unwrap());
    for header in parsed.headers {
        request = request.header(header.name, header.value);
    }
    let request = request.body(()).unwrap();
    let (answer, protocol) =
        handshake::accept(request.method(), request.headers(), TRANSLATED).unwrap();
    assert_eq!(protocol, V5);
    let mut text = "HTTP/1.1 101 Switching Protocols\r\n".to_owned();
    for (name, value) in answer.headers() {
        text += &format!("{name}: {}\r\n", value.to_str().unwrap());
    }
    io.write_all((text + "\r\n").as_bytes()).await.unwrap();
    io
}
