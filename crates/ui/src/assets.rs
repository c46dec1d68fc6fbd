//! Files of the page, part of the program.

use std::sync::OnceLock;

use http::{HeaderValue, StatusCode, header};
use kevel_server::handler::Response;
use kevel_server::request::Request;

use crate::answers;

/// A file of the page.
struct Asset {
    /// Path below `/ui/`; empty for the page itself.
    path: &'static str,
    media: &'static str,
    content: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! assets {
    ($($path:literal, $media:expr, $file:literal;)*) => {
        [$(Asset { path: $path, media: $media, content: include_bytes!(concat!("../page/", $file)) }),*]
    };
}

const ASSETS: [Asset; 15] = assets! {
    "", "text/html; charset=utf-8", "index.html";
    "style.css", "text/css; charset=utf-8", "style.css";
    "icon.svg", "image/svg+xml", "icon.svg";
    "main.js", SCRIPT, "main.js";
    "api.js", SCRIPT, "api.js";
    "dom.js", SCRIPT, "dom.js";
    "signin.js", SCRIPT, "signin.js";
    "search.js", SCRIPT, "search.js";
    "table.js", SCRIPT, "table.js";
    "object.js", SCRIPT, "object.js";
    "yaml.js", SCRIPT, "yaml.js";
    "diff.js", SCRIPT, "diff.js";
    "history.js", SCRIPT, "history.js";
    "access.js", SCRIPT, "access.js";
    "server.js", SCRIPT, "server.js";
};

/// The file at a path below `/ui/`.
pub(crate) fn serve(path: &str, request: &Request) -> Option<Response> {
    static TAGS: OnceLock<Vec<HeaderValue>> = OnceLock::new();
    let place = ASSETS.iter().position(|asset| asset.path == path)?;
    let asset = ASSETS.get(place)?;
    let tags = TAGS.get_or_init(|| ASSETS.iter().map(|asset| tag(asset.content)).collect());
    let tag = tags.get(place)?;
    let mut response = answers::page(asset.media, asset.content);
    if request.parts.headers.get(header::IF_NONE_MATCH) == Some(tag) {
        *response.body_mut() = Default::default();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag.clone());
    // Always asked again: another version of the server has other files under the same names.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Some(response)
}

/// Entity tag of a content.
fn tag(content: &[u8]) -> HeaderValue {
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    let hex: String = digest.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(format!("\"{hex}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most bytes of all files together: what a slow line loads in a second or two.
    const MOST_BYTES: usize = 200 << 10;

    #[test]
    fn page_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.content.len()).sum();
        assert!(bytes < MOST_BYTES, "{bytes}");
    }

    #[test]
    fn page_has_neither_inline_code_nor_foreign_resources() {
        for asset in &ASSETS {
            let text = String::from_utf8_lossy(asset.content);
            for forbidden in [
                "innerHTML",
                "localStorage",
                "sessionStorage",
                "eval(",
                "onclick=",
                "style=\"",
                "<style",
            ] {
                assert!(!text.contains(forbidden), "{} has {forbidden}", asset.path);
            }
            let namespace = text.replace("http://www.w3.org/", "");
            assert!(!namespace.contains("http://"), "{}", asset.path);
            assert!(!namespace.contains("https://"), "{}", asset.path);
        }
    }
}
