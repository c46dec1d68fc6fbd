//! Tests of SPDY frames: those of Kubernetes' library, and invalid ones.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, unhex};
use kevel_streaming::spdy::{Decoder, Error, Frame, MAX_CONTROL_FRAME};

/// Frames written by github.com/moby/spdystream v0.5.1.
const CAPTURED: &[(&str, &str)] = &[
    (
        "80030001000000290000000100000000000078f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800000000ffff",
        r#"SynStream { stream: 1, headers: {"streamtype": "error"}, fin: false }"#,
    ),
    (
        "800300010000001700000003000000000000c22e555c92929907000000ffff",
        r#"SynStream { stream: 3, headers: {"streamtype": "stdin"}, fin: false }"#,
    ),
    (
        "800300010100001d00000005000000000000c22ac595925892c890989e989907000000ffff",
        r#"SynStream { stream: 5, headers: {"streamtype": "data", "streamtype": "again"}, fin: true }"#,
    ),
    ("80030008000000110000000582ca335680884a00000000ffff", "Headers { stream: 5, fin: false }"),
    ("800300020000000e000000016260606000000000ffff", "SynReply { stream: 1, fin: false }"),
    (
        "000000010000000568656c6c6f",
        "Data { stream: 1, bytes: [104, 101, 108, 108, 111], fin: false }",
    ),
    ("0000000101000000", "Data { stream: 1, bytes: [], fin: true }"),
    ("80030003000000080000000300000005", "RstStream { stream: 3, status: ResetStatus(5) }"),
    ("800300060000000400000001", "Ping { id: 1 }"),
    ("80030007000000080000000700000000", "GoAway { last_good: 7 }"),
    ("800300040000000c000000010100000700010000", "Ignored"),
    ("80030009000000080000000300008000", "Ignored"),
];

#[test]
fn frames_of_the_real_library_are_read() {
    let mut decoder = Decoder::default();
    for (bytes, expected) in CAPTURED {
        let bytes = unhex(bytes);
        let mut input = &bytes[..];
        let frame = decoder.next(&mut input).unwrap().unwrap();
        assert_eq!(format!("{frame:?}"), *expected);
        assert_eq!((input, decoder.next(&mut input).unwrap()), (&[][..], None));
    }
}

/// The frames do not depend on the pieces of the input, apart from the pieces of data.
#[test]
fn where_reads_end_means_nothing() {
    let all: Vec<u8> = CAPTURED.iter().flat_map(|(bytes, _)| unhex(bytes)).collect();
    let whole = decoded(&[&all]);
    assert_eq!(whole.len(), CAPTURED.len());
    let single: Vec<&[u8]> = all.chunks(1).collect();
    assert_eq!(decoded(&single), whole);
    let mut random = Random(7);
    for _ in 0..2000 {
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(1 + random.below(rest.len().min(40)));
            pieces.push(piece);
            rest = after;
        }
        assert_eq!(decoded(&pieces), whole);
    }
}

/// Decoded frames, with data joined.
fn decoded(pieces: &[&[u8]]) -> Vec<String> {
    let mut decoder = Decoder::default();
    let (mut frames, mut data) = (Vec::new(), Vec::new());
    for mut piece in pieces.iter().copied() {
        while let Some(frame) = decoder.next(&mut piece).unwrap() {
            match frame {
                Frame::Data { bytes, fin, .. } => {
                    data.extend_from_slice(bytes);
                    if fin || data.len() == 5 {
                        frames.push(format!("{fin} {:?}", std::mem::take(&mut data)));
                    }
                }
                frame => frames.push(format!("{frame:?}")),
            }
        }
    }
    frames
}

#[test]
fn what_breaks_the_rules_ends_the_connection() {
    for (what, bytes, expected) in [
        ("another version", "8002000600000004 00000001", "unsupported version"),
        ("an unknown kind", "8003000a00000000", "invalid control frame"),
        ("a data frame of no stream", "00000000 00000001", "stream id zero is disallowed"),
        ("a stream without a number", "8003000300000008 00000000 00000005", "stream id zero"),
        ("a ping without a number", "8003000600000004 00000000", "stream id zero"),
        ("a ping with flags", "8003000601000004 00000001", "invalid control frame"),
        ("a ping that is too long", "8003000600000005 00000001 00", "invalid control frame"),
        ("a reset without a reason", "8003000300000008 00000001 00000000", "invalid control"),
        ("a short goaway", "8003000700000004 00000001", "invalid control frame"),
        ("more settings than there are", "8003000400000004 00000001", "invalid control frame"),
        ("a window update without a size", "8003000900000004 00000001", "invalid control frame"),
        ("a frame that is too large", "8003000800ffffff", "invalid control frame"),
        ("headers that are not there", "8003000200000004 00000001", "not compressed with zlib"),
        ("headers in the plain", "8003000200000008 00000001 00000000", "not compressed with zlib"),
        ("another dictionary", "800300020000000a 00000001 78f9 00000001", "unknown dictionary"),
        // From here on: stored blocks, which are readable.
        (
            "more headers than there may be",
            "8003000200000018 00000001 78f9e3c6a7c2 000400fbff 00000065 000000ffff",
            "too many headers",
        ),
        (
            "fewer headers than announced",
            "8003000200000018 00000001 78f9e3c6a7c2 000400fbff 00000001 000000ffff",
            "compressed payload size was incorrect",
        ),
        (
            "a header in capitals",
            "8003000200000022 00000001 78f9e3c6a7c2 000e00f1ff 00000001 00000001 41 00000001 42 000000ffff",
            "header was not lowercased",
        ),
        (
            "a header twice",
            "800300020000002c 00000001 78f9e3c6a7c2 001800e7ff 00000002 00000001 61 00000001 42 00000001 61 00000001 43 000000ffff",
            "multiple headers with same name",
        ),
        (
            "a value that would break a line",
            "8003000200000022 00000001 78f9e3c6a7c2 000e00f1ff 00000001 00000001 61 00000001 0a 000000ffff",
            "frame contained invalid header",
        ),
        (
            "a header of HTTP's connection",
            "8003000200000025 00000001 78f9e3c6a7c2 001100eeff 00000001 00000004 686f7374 00000001 42 000000ffff",
            "frame contained invalid header",
        ),
        (
            "the end of the compressed stream",
            "8003000200000013 00000001 78f9e3c6a7c2 010400fbff 00000000",
            "not compressed as they should be",
        ),
    ] {
        let error = refused(&unhex(bytes));
        assert!(error.contains(expected), "{what}: {error}");
    }
}

fn refused(bytes: &[u8]) -> String {
    let mut decoder = Decoder::default();
    match decoder.next(&mut &*bytes) {
        Err(Error::Protocol(what)) => what.to_owned(),
        other => panic!("{other:?}"),
    }
}

/// A header that is repeated a thousand times in a few bytes.
#[test]
fn a_decompression_bomb_is_cut() {
    // Fixed codes: a literal, then matches of 258 bytes, by hand.
    let mut bits: Vec<bool> = Vec::new();
    let push = |bits: &mut Vec<bool>, value: u32, count: u32| {
        (0..count).for_each(|at| bits.push(value >> at & 1 == 1));
    };
    let code = |bits: &mut Vec<bool>, value: u32, count: u32| {
        (0..count).rev().for_each(|at| bits.push(value >> at & 1 == 1));
    };
    push(&mut bits, 0, 1);
    push(&mut bits, 1, 2);
    code(&mut bits, 0x30, 8);
    for _ in 0..9000 {
        code(&mut bits, 0xc0 + 285 - 280, 8);
        code(&mut bits, 0, 5);
    }
    let packed = bits
        .chunks(8)
        .map(|byte| byte.iter().enumerate().fold(0, |sum, (at, bit)| sum | u8::from(*bit) << at));
    let mut body = unhex("00000001 78f9e3c6a7c2");
    body.extend(packed);
    assert!(body.len() < MAX_CONTROL_FRAME);
    let mut frame = unhex("80030002");
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend(body);
    assert_eq!(refused(&frame), "headers are too large");
}
