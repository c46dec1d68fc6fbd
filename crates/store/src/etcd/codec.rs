//! Codec of etcd's Protobuf messages; large ones are decoded outside the runtime's workers.

use std::marker::PhantomData;

use bytes::Buf as _;
use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Codec of requests `Q` and responses `A`. A response is decoded in one go, and a page of large objects has hundreds
/// of megabytes.
#[derive(Debug)]
pub(super) struct EtcdCodec<Q, A>(PhantomData<(Q, A)>);

impl<Q, A> Default for EtcdCodec<Q, A> {
    fn default() -> Self {
        EtcdCodec(PhantomData)
    }
}

impl<Q, A> Codec for EtcdCodec<Q, A>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    type Encode = Q;
    type Decode = A;
    type Encoder = ProstEncoder<Q>;
    type Decoder = EtcdDecoder<A>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Q, A>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        EtcdDecoder(ProstCodec::<Q, A>::default().decoder())
    }
}

/// Decoder of responses.
#[derive(Debug)]
pub(super) struct EtcdDecoder<A>(ProstDecoder<A>);

impl<A: Message + Default> Decoder for EtcdDecoder<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        kevel_compute::leave_for(buffer.remaining());
        self.0.decode(buffer)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
