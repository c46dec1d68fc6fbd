//! Headers of streams: length-prefixed names and values, compressed with a preset dictionary. The compression state
//! continues from frame to frame, so every frame must be decoded.

use http::{HeaderMap, HeaderName, HeaderValue};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::dictionary::{self, dictionary};
use super::error::Error;

/// Maximum decompressed size of one frame's headers. Kubernetes' are below 200 bytes; a compressed frame could expand a
/// thousandfold.
pub const MAX_HEADER_BYTES: usize = 16 << 10;
/// Maximum number of headers of one frame: Kubernetes has three.
pub const MAX_HEADERS: usize = 100;

/// Window of deflate (RFC 1951).
const WINDOW: usize = 32 << 10;
/// End of each frame's part of the compressed data (sync flush): an empty block at a byte boundary. Only the history
/// carries over to the next frame.
const SYNC: [u8; 4] = [0, 0, 0xff, 0xff];

/// Decompressor of the peer's headers.
#[derive(Default)]
pub(super) struct Inflater {
    /// The last decompressed bytes, which later frames may refer to.
    history: Vec<u8>,
    started: bool,
    /// Kept between frames only if the peer does not end them with [`SYNC`].
    decompressor: Option<Box<DecompressorOxide>>,
}

impl Inflater {
    /// Decodes the headers of a frame.
    pub fn read(&mut self, compressed: &[u8]) -> Result<HeaderMap, Error> {
        let text = self.inflate(compressed)?;
        parse(&text)
    }

    fn inflate(&mut self, mut compressed: &[u8]) -> Result<Vec<u8>, Error> {
        const FLAGS: u32 = TINFL_FLAG_HAS_MORE_INPUT | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        if !self.started {
            compressed = self.start(compressed)?;
        }
        let start = self.history.len();
        let mut text = std::mem::take(&mut self.history);
        text.resize(start + MAX_HEADER_BYTES, 0);
        let mut decompressor = self.decompressor.take().unwrap_or_default();
        let (status, read, written) =
            decompress(&mut decompressor, compressed, &mut text, start, FLAGS);
        match status {
            TINFLStatus::NeedsMoreInput if read == compressed.len() => {}
            TINFLStatus::HasMoreOutput => return Err(Error::Protocol("headers are too large")),
            _ => return Err(Error::Protocol("headers are not compressed as they should be")),
        }
        text.truncate(start + written);
        if !compressed.ends_with(&SYNC) {
            self.decompressor = Some(decompressor);
        }
        let headers = text[start..].to_vec();
        text.drain(..text.len().saturating_sub(WINDOW));
        text.shrink_to_fit();
        self.history = text;
        Ok(headers)
    }

    /// Reads the zlib header (RFC 1950), which is in the first frame.
    fn start<'a>(&mut self, compressed: &'a [u8]) -> Result<&'a [u8], Error> {
        const DEFLATE: u8 = 8;
        const HAS_DICTIONARY: u8 = 0x20;
        const WRONG: Error = Error::Protocol("headers are not compressed with zlib");
        let ([method, flags], mut rest) = compressed.split_first_chunk().ok_or(WRONG)?;
        let check = u16::from_be_bytes([*method, *flags]);
        if method & 0x0f != DEFLATE || !check.is_multiple_of(31) {
            return Err(WRONG);
        }
        if flags & HAS_DICTIONARY != 0 {
            let (id, after) = rest.split_first_chunk().ok_or(WRONG)?;
            if u32::from_be_bytes(*id) != dictionary::ID {
                return Err(Error::Protocol("headers are compressed with an unknown dictionary"));
            }
            self.history = dictionary();
            rest = after;
        }
        self.started = true;
        Ok(rest)
    }
}

/// Connection headers of HTTP, which are invalid on streams.
const FORBIDDEN: [&str; 5] =
    ["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding"];

fn parse(mut text: &[u8]) -> Result<HeaderMap, Error> {
    let count = number(&mut text)?;
    if count > MAX_HEADERS {
        return Err(Error::Protocol("too many headers"));
    }
    let mut headers = HeaderMap::with_capacity(count);
    for _ in 0..count {
        let name = field(&mut text)?;
        let values = field(&mut text)?;
        // `:method` and the like are HTTP's.
        if name.starts_with(b":") {
            continue;
        }
        if name.iter().any(u8::is_ascii_uppercase) {
            return Err(Error::Protocol("header was not lowercased"));
        }
        let name = HeaderName::from_bytes(name);
        let name = name.map_err(|_| Error::Protocol("frame contained invalid header"))?;
        if FORBIDDEN.contains(&name.as_str()) {
            return Err(Error::Protocol("frame contained invalid header"));
        }
        if headers.contains_key(&name) {
            return Err(Error::Protocol("multiple headers with same name"));
        }
        for value in values.split(|byte| *byte == 0) {
            let value = HeaderValue::from_bytes(value);
            let value = value.map_err(|_| Error::Protocol("frame contained invalid header"))?;
            headers.append(&name, value);
        }
    }
    match text {
        [] => Ok(headers),
        _ => Err(Error::Protocol("compressed payload size was incorrect")),
    }
}

fn number(text: &mut &[u8]) -> Result<usize, Error> {
    const SHORT: Error = Error::Protocol("compressed payload size was incorrect");
    let (number, rest) = text.split_first_chunk().ok_or(SHORT)?;
    *text = rest;
    usize::try_from(u32::from_be_bytes(*number)).map_err(|_| SHORT)
}

fn field<'a>(text: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    let length = number(text)?;
    let split = text.split_at_checked(length);
    let (field, rest) = split.ok_or(Error::Protocol("compressed payload size was incorrect"))?;
    *text = rest;
    Ok(field)
}

/// Encodes headers as stored (uncompressed) blocks. A few more bytes in a handful of frames are cheaper than a
/// compressor, which needs 256 KiB for the life of the connection.
#[derive(Default)]
pub(super) struct Deflater {
    started: bool,
}

impl Deflater {
    /// Encodes the headers of a frame; `None` if they exceed this implementation's limits.
    pub fn write(&mut self, headers: &HeaderMap) -> Option<Vec<u8>> {
        let text = print(headers);
        if text.len() > MAX_HEADER_BYTES || headers.keys_len() > MAX_HEADERS {
            return None;
        }
        let mut out = Vec::with_capacity(text.len() + 16);
        if !self.started {
            // Deflate with a window of 32 KiB and a dictionary; a multiple of 31.
            out.extend_from_slice(&[0x78, 0x20]);
            out.extend_from_slice(&dictionary::ID.to_be_bytes());
            self.started = true;
        }
        let length = text.len() as u16;
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(&text);
        out.push(0);
        out.extend_from_slice(&SYNC);
        Some(out)
    }
}

fn print(headers: &HeaderMap) -> Vec<u8> {
    let mut text = (headers.keys_len() as u32).to_be_bytes().to_vec();
    let mut write = |bytes: &[u8]| {
        text.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        text.extend_from_slice(bytes);
    };
    for name in headers.keys() {
        write(name.as_str().as_bytes());
        let values: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        write(&values.join(&0));
    }
    text
}
