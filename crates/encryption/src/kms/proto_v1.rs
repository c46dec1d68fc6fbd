//! The messages of `v1beta1.KeyManagementService`.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct VersionRequest {
    #[prost(string, tag = "1")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct VersionResponse {
    #[prost(string, tag = "1")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct DecryptRequest {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(bytes = "vec", tag = "2")]
    pub cipher: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub plain: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EncryptRequest {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(bytes = "vec", tag = "2")]
    pub plain: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub cipher: Vec<u8>,
}
