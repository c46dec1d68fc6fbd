//! Messages of `v1.ExternalJWTSigner`, written by hand: generating them would need a protobuf compiler at build time.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct SignJwtRequest {
    /// Claims as in the token: base64url.
    #[prost(string, tag = "1")]
    pub claims: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct SignJwtResponse {
    /// Header as in the token: base64url.
    #[prost(string, tag = "1")]
    pub header: String,
    /// Signature as in the token: base64url.
    #[prost(string, tag = "2")]
    pub signature: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct FetchKeysRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct FetchKeysResponse {
    #[prost(message, repeated, tag = "1")]
    pub keys: Vec<Key>,
    #[prost(message, optional, tag = "2")]
    pub data_timestamp: Option<Timestamp>,
    #[prost(int64, tag = "3")]
    pub refresh_hint_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Key {
    #[prost(string, tag = "1")]
    pub key_id: String,
    /// SubjectPublicKeyInfo (RFC 5280).
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub exclude_from_oidc_discovery: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct MetadataRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct MetadataResponse {
    #[prost(int64, tag = "1")]
    pub max_token_expiration_seconds: i64,
}
