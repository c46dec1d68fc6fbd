//! konnectivity's `ProxyService`, as much of it as an API server sees: a proxy server with its agent in one.

use std::convert::Infallible;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::stream::unfold;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;

use super::proxy::{Behaviour, Proxy};

/// Packet in either direction; exactly one of the fields is set.
#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(int32, tag = "1")]
    ty: i32,
    #[prost(message, optional, tag = "2")]
    dial: Option<Dial>,
    #[prost(message, optional, tag = "3")]
    dialled: Option<Dialled>,
    #[prost(message, optional, tag = "4")]
    data: Option<Data>,
    #[prost(message, optional, tag = "5")]
    close: Option<Close>,
    #[prost(message, optional, tag = "6")]
    closed: Option<Closed>,
    #[prost(message, optional, tag = "7")]
    undial: Option<Undial>,
}

#[derive(Clone, PartialEq, Message)]
struct Dial {
    #[prost(string, tag = "1")]
    protocol: String,
    #[prost(string, tag = "2")]
    address: String,
    #[prost(int64, tag = "3")]
    random: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Dialled {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(int64, tag = "2")]
    id: i64,
    #[prost(int64, tag = "3")]
    random: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Data {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(bytes = "vec", tag = "3")]
    data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Close {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Closed {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Undial {
    #[prost(int64, tag = "1")]
    random: i64,
}

/// The types of packets.
const DIAL_RSP: i32 = 1;
const CLOSE_RSP: i32 = 3;
const DATA: i32 = 4;

/// Connection ID of a tunnel's only connection.
const ID: i64 = 7;

type Body = BoxBody<Bytes, Infallible>;

/// Serves a connection of an API server.
pub async fn serve(io: UnixStream, proxy: Proxy) {
    let service = service_fn(move |request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(answer(request, proxy).await) }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(io), service).await;
}

/// Answers a tunnel request. The response head is sent with the first packet, as by Go's servers.
async fn answer(request: Request<Incoming>, proxy: Proxy) -> Response<Body> {
    assert_eq!(request.uri().path(), "/ProxyService/Proxy");
    let mut packets = Packets { body: request.into_body(), read: BytesMut::new() };
    let Some(Packet { ty: 0, dial: Some(dial), .. }) = packets.next().await else {
        panic!("the first packet is a request to dial");
    };
    assert_eq!(dial.protocol, "tcp");
    proxy.note(&dial.address);
    let (send, to_send) = mpsc::channel(4);
    let random = dial.random;
    let dialled = |error: &str| Packet {
        ty: DIAL_RSP,
        dialled: Some(Dialled { error: error.to_owned(), id: ID, random }),
        ..Packet::default()
    };
    match proxy.behaviour() {
        Behaviour::Connect => match proxy.dial(&dial.address).await {
            Some(backend) => {
                send.send(dialled("")).await.unwrap();
                tokio::spawn(pass_on(backend, packets, send));
            }
            None => send.send(dialled("no agent knows it")).await.unwrap(),
        },
        Behaviour::Say("") => {}
        Behaviour::Say(said) if said.starts_with("HTTP") => {
            return Response::new(Full::from("no gRPC").boxed());
        }
        Behaviour::Say(error) => send.send(dialled(error)).await.unwrap(),
        Behaviour::Hang => {
            // Until who has asked takes it back.
            let taken_back = packets.next().await.and_then(|packet| packet.undial);
            assert!(taken_back.is_none_or(|undial| undial.random == random));
        }
    }
    let frames = unfold(Some(to_send), |to_send| async {
        let mut to_send: mpsc::Receiver<Packet> = to_send?;
        match to_send.recv().await {
            Some(packet) => {
                let message = packet.encode_to_vec();
                let length = u32::try_from(message.len()).unwrap().to_be_bytes();
                let framed = [&[0], &length[..], &message].concat();
                Some((Ok(Frame::data(framed.into())), Some(to_send)))
            }
            None => {
                let status = ("grpc-status".parse().unwrap(), "0".parse().unwrap());
                Some((Ok(Frame::trailers([status].into_iter().collect())), None))
            }
        }
    });
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(StreamBody::new(Box::pin(frames)).boxed()).unwrap()
}

async fn pass_on(mut backend: TcpStream, mut packets: Packets, send: mpsc::Sender<Packet>) {
    let mut piece = vec![0; 8 << 10];
    loop {
        let read = tokio::select! {
            read = backend.read(&mut piece) => read.unwrap_or(0),
            packet = packets.next() => match packet {
                Some(Packet { data: Some(data), .. }) => {
                    assert_eq!(data.id, ID);
                    if backend.write_all(&data.data).await.is_err() {
                        break;
                    }
                    continue;
                }
                Some(Packet { close: Some(close), .. }) => {
                    assert_eq!(close.id, ID);
                    break;
                }
                _ => return,
            },
        };
        if read == 0 {
            break;
        }
        let data = Data { id: ID, data: piece[..read].to_vec() };
        let packet = Packet { ty: DATA, data: Some(data), ..Packet::default() };
        if send.send(packet).await.is_err() {
            return;
        }
    }
    let closed = Closed { error: String::new(), id: ID };
    let _ = send.send(Packet { ty: CLOSE_RSP, closed: Some(closed), ..Packet::default() }).await;
}

/// Reader of the gRPC packets in a request body.
struct Packets {
    body: Incoming,
    read: BytesMut,
}

impl Packets {
    async fn next(&mut self) -> Option<Packet> {
        loop {
            if let Some(length) = self.read.get(1..5) {
                let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
                if self.read.len() >= 5 + length {
                    self.read.advance(5);
                    return Some(Packet::decode(self.read.split_to(length)).unwrap());
                }
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.read.extend_from_slice(&data);
            }
        }
    }
}
