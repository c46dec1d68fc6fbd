//! `/debug/pprof/`: profiles of the running server, in the form that `go tool pprof` opens (upstream: `net/http/pprof`).
//!
//! There are a CPU profile, the number of tasks and the command line. The allocator keeps no samples and the runtime no
//! events, so the answers to `heap`, `block`, `mutex` and `trace` say that there is nothing.

mod cpu;
mod proto;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use kevel_component::future::Pending;
use kevel_registry::query;
use kevel_server::body::Body;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::Request;
use tokio::runtime::Handle;

use self::cpu::CpuProfile;

/// Path of the index; profiles are below.
pub const ROOT: &str = "/debug/pprof/";

/// Duration of a CPU profile without one in the request, in seconds, as in the reference.
const DEFAULT_SECONDS: u64 = 30;
/// Longest CPU profile, in seconds: the samples of ten minutes fill some megabytes at most.
const MAX_SECONDS: u64 = 600;

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// Profiles that Go has and this server has not, and why.
const ABSENT: [(&str, &str); 6] = [
    ("allocs", "the allocator keeps no samples"),
    ("block", "the runtime does not record where tasks wait"),
    ("heap", "the allocator keeps no samples"),
    ("mutex", "the runtime does not record where tasks wait"),
    ("threadcreate", "the runtime does not record where threads are made"),
    ("trace", "the runtime records no events; --tracing-config-file has spans of requests"),
];

/// Profiles that are served, with a description.
const PRESENT: [(&str, &str); 4] = [
    ("cmdline", "The command line of the server."),
    ("goroutine", "The number of tasks of the runtime, without stacks."),
    ("profile", "CPU profile of as many seconds as the parameter seconds says (30, at most 600)."),
    ("symbol", "No symbols: those of a profile are in it."),
];

/// Serves the profiles.
#[derive(Debug)]
pub struct Profiles;

impl Handler for Profiles {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            let mut response = match request.info.path.strip_prefix(ROOT) {
                Some("") => page(),
                Some("cmdline") => plain(std::env::args().collect::<Vec<_>>().join("\0")),
                Some("goroutine") => tasks(&request),
                Some("profile") => cpu(&request).await,
                Some("symbol") => plain("num_symbols: 0\n".to_owned()),
                Some(name) => absent(name),
                None => moved(&request),
            };
            let no_sniff = HeaderValue::from_static("nosniff");
            response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, no_sniff);
            response
        })
    }
}

/// CPU profile of some seconds; ends early if the client leaves.
async fn cpu(request: &Request) -> Response {
    let asked = parameter(request, "seconds").and_then(|seconds| seconds.parse::<i64>().ok());
    let asked =
        asked.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    let seconds = asked.unwrap_or(DEFAULT_SECONDS);
    if seconds > MAX_SECONDS {
        let why = format!("invalid value for \"seconds\" - at most {MAX_SECONDS}");
        return failure(StatusCode::BAD_REQUEST, &why);
    }
    let began = request.clock().now();
    match CpuProfile::record(std::time::Duration::from_secs(seconds), began).await {
        Ok(profile) => binary("profile", profile),
        Err(error) => {
            let why = format!("Could not enable CPU profiling: {error}");
            failure(StatusCode::INTERNAL_SERVER_ERROR, &why)
        }
    }
}

/// The number of tasks, as the profile of goroutines with one entry.
fn tasks(request: &Request) -> Response {
    let count = Handle::current().metrics().num_alive_tasks();
    if parameter(request, "debug").and_then(|debug| debug.parse().ok()).unwrap_or(0i64) != 0 {
        return plain(format!("goroutine profile: total {count}\n"));
    }
    let mut profile =
        proto::ProfileBuilder::new([("goroutine", "count")], ("goroutine", "count"), 1);
    profile.add([("tokio::runtime::task", "", 0)], [count as i64]);
    match proto::gzip(&profile.finish(request.clock().now(), None)) {
        Ok(profile) => binary("goroutine", profile),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn parameter<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    query::first(&request.info.query, name)
}

fn absent(name: &str) -> Response {
    match ABSENT.into_iter().find(|(absent, _)| *absent == name) {
        Some((name, why)) => {
            let why = format!("There is no profile {name}: {why}");
            failure(StatusCode::NOT_IMPLEMENTED, &why)
        }
        None => failure(StatusCode::NOT_FOUND, "Unknown profile"),
    }
}

/// Redirect of the path without a slash to the index.
fn moved(request: &Request) -> Response {
    let body = match request.parts.method {
        Method::GET => format!("<a href=\"{ROOT}\">Found</a>.\n\n"),
        _ => String::new(),
    };
    let mut response = response(StatusCode::FOUND, HTML, body);
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(ROOT));
    response
}

fn page() -> Response {
    let row = |(name, what): &(&str, &str)| {
        format!("<tr><td><a href=\"{name}\">{name}</a></td><td>{what}</td></tr>\n")
    };
    let present: String = PRESENT.iter().map(row).collect();
    let absent =
        ABSENT.iter().map(|(name, why)| format!("<tr><td>{name}</td><td>None: {why}.</td></tr>\n"));
    let absent: String = absent.collect();
    let page = format!(
        "<html>\n<head>\n<title>{ROOT}</title>\n</head>\n<body>\n{ROOT}\n<br>\n<table>\n{present}{absent}\
         </table>\n</body>\n</html>\n"
    );
    response(StatusCode::OK, HTML, page)
}

fn plain(text: String) -> Response {
    response(StatusCode::OK, TEXT, text)
}

/// An error as Go's handlers send it, which `go tool pprof` shows.
fn failure(status: StatusCode, why: &str) -> Response {
    let mut response = response(status, TEXT, format!("{why}\n"));
    response.headers_mut().insert("x-go-pprof", HeaderValue::from_static("1"));
    response
}

fn binary(name: &str, profile: Vec<u8>) -> Response {
    let mut response = response(StatusCode::OK, OCTETS, profile);
    let headers: &mut HeaderMap = response.headers_mut();
    if let Ok(file) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, file);
    }
    response
}

fn response(status: StatusCode, media: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
