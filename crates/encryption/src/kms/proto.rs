//! The messages of `v2.KeyManagementService`, and what is stored, written out by hand: generating them
//! would ask everybody who builds this for a protobuf compiler.

use std::collections::BTreeMap;

use prost::Message;

/// What is stored of a value.
#[derive(Clone, PartialEq, Message)]
pub struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub encrypted_data: Vec<u8>,
    /// The plug-in's key that the source is encrypted with.
    #[prost(string, tag = "2")]
    pub key_id: String,
    /// What the key of the data is made from, encrypted by the plug-in.
    #[prost(bytes = "vec", tag = "3")]
    pub encrypted_dek_source: Vec<u8>,
    /// What the plug-in wants to be told again.
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
    /// How the key is made of the source: [`AES_GCM_KEY`] or [`SEED`].
    #[prost(int32, tag = "5")]
    pub encrypted_dek_source_type: i32,
}

/// The source is the key itself, of AES in GCM.
pub const AES_GCM_KEY: i32 = 0;
/// The source is a seed, of which every value has a key of its own.
pub const SEED: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    /// `ok`, or what is wrong.
    #[prost(string, tag = "2")]
    pub healthz: String,
    /// The key that it would encrypt with now.
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
