//! The messages of konnectivity's `ProxyService`, written out by hand: generating them would ask everybody who
//! builds this for a protobuf compiler.

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// What goes over a tunnel, either way.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(enumeration = "PacketType", tag = "1")]
    pub r#type: i32,
    #[prost(oneof = "Payload", tags = "2, 3, 4, 5, 6, 7")]
    pub payload: Option<Payload>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum PacketType {
    DialReq = 0,
    DialRsp = 1,
    CloseReq = 2,
    CloseRsp = 3,
    Data = 4,
    DialCls = 5,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Payload {
    #[prost(message, tag = "2")]
    DialRequest(DialRequest),
    #[prost(message, tag = "3")]
    DialResponse(DialResponse),
    #[prost(message, tag = "4")]
    Data(Data),
    #[prost(message, tag = "5")]
    CloseRequest(CloseRequest),
    #[prost(message, tag = "6")]
    CloseResponse(CloseResponse),
    #[prost(message, tag = "7")]
    CloseDial(CloseDial),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DialRequest {
    /// Always `tcp`.
    #[prost(string, tag = "1")]
    pub protocol: String,
    /// Host and port.
    #[prost(string, tag = "2")]
    pub address: String,
    /// What the answer is known by.
    #[prost(int64, tag = "3")]
    pub random: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DialResponse {
    /// Empty if it went well.
    #[prost(string, tag = "1")]
    pub error: String,
    /// What the connection is known by from here on.
    #[prost(int64, tag = "2")]
    pub connect_id: i64,
    /// That of the request.
    #[prost(int64, tag = "3")]
    pub random: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Data {
    #[prost(int64, tag = "1")]
    pub connect_id: i64,
    #[prost(string, tag = "2")]
    pub error: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub data: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CloseRequest {
    #[prost(int64, tag = "1")]
    pub connect_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CloseResponse {
    #[prost(string, tag = "1")]
    pub error: String,
    #[prost(int64, tag = "2")]
    pub connect_id: i64,
}

/// Takes back a request to dial.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CloseDial {
    #[prost(int64, tag = "1")]
    pub random: i64,
}

impl From<Payload> for Packet {
    fn from(payload: Payload) -> Self {
        let ty = match payload {
            Payload::DialRequest(_) => PacketType::DialReq,
            Payload::DialResponse(_) => PacketType::DialRsp,
            Payload::Data(_) => PacketType::Data,
            Payload::CloseRequest(_) => PacketType::CloseReq,
            Payload::CloseResponse(_) => PacketType::CloseRsp,
            Payload::CloseDial(_) => PacketType::DialCls,
        };
        Packet { r#type: ty.into(), payload: Some(payload) }
    }
}
