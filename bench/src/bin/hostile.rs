//! Cost of hostile input: `cargo run --profile dist -p kevel-bench --bin hostile`.
//!
//! No 3 MiB of anything may take a reader more than 100 ms of CPU or 64 MiB. Exits with 1 where one does.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use kevel_api::builtin;
use kevel_bench::cpu_time;
use kevel_codec::json;

const MOST_TIME: Duration = Duration::from_millis(100);
const MOST_MEMORY: usize = 64 << 20;

fn main() -> ExitCode {
    let mut over = 0;
    for (name, input) in hostile() {
        over += worst(name, &input);
    }
    println!("{over} over the limits of {MOST_TIME:?} and {} MiB", MOST_MEMORY >> 20);
    if over == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs an input through every reader that takes bytes; says how many it was too much for.
fn worst(name: &str, input: &[u8]) -> usize {
    type Reader = (&'static str, fn(&[u8]));
    let readers: [Reader; 5] = [
        ("json any", |input| drop(black_box(json::decode_any(input, json::Unknown::Report)))),
        ("json typed", |input| {
            // A reader sees a document as one kind: the one that has most to do with it.
            let data = input.starts_with(b"{\"data\"");
            let kind = if data { "ConfigMap" } else { "Pod" };
            let schema = builtin::schema("", "v1", kind).expect("built in");
            drop(black_box(json::decode(input, schema, json::Unknown::Report)));
        }),
        ("json crd", |input| {
            let schema = builtin::schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
            drop(black_box(json::decode(input, schema.expect("built in"), json::Unknown::Report)));
        }),
        ("yaml", |input| drop(black_box(kevel_codec::yaml::to_json(input)))),
        ("protobuf", |input| {
            let schema = builtin::schema("", "v1", "Pod").expect("built in");
            drop(black_box(kevel_codec::protobuf::decode(input, schema)));
        }),
    ];
    let (mut line, mut over) = (format!("{name:30}"), 0);
    for (reader, read) in readers {
        // The best of a few: what else the machine does is not the reader's cost.
        let (mut time, mut memory) = (Duration::MAX, 0);
        for _ in 0..3 {
            let before = peak::reset();
            let start = cpu_time();
            read(input);
            time = time.min(cpu_time() - start);
            memory = memory.max(peak::reached().saturating_sub(before));
        }
        let mark = if time > MOST_TIME || memory > MOST_MEMORY { "!" } else { "" };
        over += mark.len();
        let (time, memory) = (time.as_secs_f64() * 1000.0, memory >> 20);
        line += &format!("  {reader} {time:.0} ms {memory} MiB{mark}");
    }
    println!("{line}");
    over
}

fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    const SIZE: usize = 3 << 20;
    let repeat = |head: &str, part: &str, tail: &str| -> Vec<u8> {
        let mut text = head.as_bytes().to_vec();
        while text.len() + part.len() + tail.len() <= SIZE {
            text.extend_from_slice(part.as_bytes());
        }
        text.extend_from_slice(tail.as_bytes());
        text
    };
    let distinct = |head: &str, part: &dyn Fn(usize) -> String, tail: &str| -> Vec<u8> {
        let mut text = head.as_bytes().to_vec();
        for i in 0.. {
            let part = part(i);
            if text.len() + part.len() + tail.len() > SIZE {
                break;
            }
            text.extend_from_slice(part.as_bytes());
        }
        text.extend_from_slice(tail.as_bytes());
        text
    };
    vec![
        ("[[[[", repeat("", "[", "")),
        ("{\"a\":{\"a\":", repeat("", "{\"a\":", "")),
        ("[0,0,0", repeat("[", "0,", "0]")),
        ("[{},{}", repeat("[", "{},", "{}]")),
        ("[\"\",\"\"", repeat("[", "\"\",", "\"\"]")),
        ("same key", repeat("{", "\"\":0,", "\"\":0}")),
        ("same unknown field", repeat("{", "\"a\":0,", "\"a\":0}")),
        ("same struct field", repeat("{", "\"spec\":{},", "\"spec\":{}}")),
        ("same map field", repeat("{", "\"data\":{\"a\":\"\"},", "\"data\":{}}")),
        ("many keys", distinct("{", &|i| format!("\"{i:x}\":0,"), "\"z\":0}")),
        (
            "many keys in data",
            distinct("{\"data\":{", &|i| format!("\"{i:x}\":\"\","), "\"z\":\"\"}}"),
        ),
        (
            "keys backwards",
            distinct("{\"data\":{", &|i| format!("\"{:x}\":\"\",", 9_999_999 - i), "\"z\":\"\"}}"),
        ),
        ("containers", repeat("{\"spec\":{\"containers\":[", "{},", "{}]}}")),
        ("finalizers", repeat("{\"metadata\":{\"finalizers\":[", "\"\",", "\"\"]}}")),
        (
            "nested schemas",
            repeat("{\"spec\":{\"versions\":[{\"schema\":{\"openAPIV3Schema\":", "{\"items\":", ""),
        ),
        ("long string", repeat("{\"kind\":\"", "x", "\"}")),
        ("escapes", repeat("{\"kind\":\"", "\\u0041", "\"}")),
        ("digits", repeat("[", "1", "]")),
        ("spaces", repeat("[", " ", "]")),
        ("yaml: - - -", repeat("", "- ", "")),
        ("yaml: ? ? ?", repeat("", "? ", "")),
        ("yaml: a: b", distinct("", &|i| format!("k{i}: v\n"), "")),
        ("yaml: anchors", distinct("", &|i| format!("k{i}: &a{i} v\n"), "")),
        ("yaml: aliases", repeat("a: &a [x,x,x,x,x,x,x,x]\nb: [", "*a,", "]")),
        ("yaml: comments", repeat("", "#\n", "a: b")),
        ("yaml: indent", distinct("", &|i| format!("{}a:\n", " ".repeat(i)), "")),
        ("yaml: text", repeat("a: ", "word ", "")),
        ("yaml: {{{", repeat("", "{", "")),
        ("yaml: quotes", repeat("a: \"", "\\n ", "\"")),
        ("protobuf: containers", repeat("\x12\u{7f}", "\x12\0", "")),
        ("zeros", vec![0; SIZE]),
    ]
}

/// Counts what is allocated, to know the most that one input takes.
mod peak {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    struct Counting;

    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[allow(unsafe_code)]
    // SAFETY: everything is handed to the system's allocator as it is.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
            MOST.fetch_max(now, Relaxed);
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            NOW.fetch_sub(layout.size(), Relaxed);
            unsafe { System.dealloc(pointer, layout) }
        }

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            let now = NOW.fetch_add(size, Relaxed) + size - layout.size();
            NOW.fetch_sub(layout.size(), Relaxed);
            MOST.fetch_max(now, Relaxed);
            unsafe { System.realloc(pointer, layout, size) }
        }
    }

    pub fn reset() -> usize {
        let now = NOW.load(Relaxed);
        MOST.store(now, Relaxed);
        now
    }

    pub fn reached() -> usize {
        MOST.load(Relaxed)
    }
}
