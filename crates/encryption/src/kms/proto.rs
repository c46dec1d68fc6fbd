//! Messages of `v2.KeyManagementService`, and the stored object. Written by hand: generated code would need a protobuf
//! compiler in every build.

use std::collections::BTreeMap;

use prost::Message;

/// Stored form of a value.
#[derive(Clone, PartialEq, Message)]
pub struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub encrypted_data: Vec<u8>,
    /// ID of the plug-in's key that encrypts the source.
    #[prost(string, tag = "2")]
    pub key_id: String,
    /// Source of the data's key, encrypted by the plug-in.
    #[prost(bytes = "vec", tag = "3")]
    pub encrypted_dek_source: Vec<u8>,
    /// Annotations of the plug-in, which it gets back for decryption.
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
    /// Type of the source: [`AES_GCM_KEY`] or [`SEED`].
    #[prost(int32, tag = "5")]
    pub encrypted_dek_source_type: i32,
}

/// The source is the AES-GCM key itself.
pub const AES_GCM_KEY: i32 = 0;
/// The source is a seed, from which each value's key is derived.
pub const SEED: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    /// `ok`, or an error.
    #[prost(string, tag = "2")]
    pub healthz: String,
    /// ID of the plug-in's present key.
    #[prost(string, tag = "3")]
    pub key_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub annotations: BTreeMap<String, Vec<u8>>,
}
