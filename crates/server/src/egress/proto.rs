//! Messages of konnectivity's `ProxyService`, written by hand: generating them would need a protobuf compiler in every
//! build.

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// A packet of a tunnel, in either direction.
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
    /// Correlates the response.
    #[prost(int64, tag = "3")]
    pub random: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DialResponse {
    /// Empty on success.
    #[prost(string, tag = "1")]
    pub error: String,
    /// ID of the connection.
    #[prost(int64, tag = "2")]
    pub connect_id: i64,
    /// `random` of the request.
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

/// Cancels a dial request.
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
