//! `Warning` headers.

use http::header::WARNING;
use http::{HeaderMap, HeaderValue};

use crate::handler::{Filter, Handler, Pending, Response};
use crate::request::Request;

/// How many characters all warnings of an answer may have before they are cut.
const MAX_TOTAL: usize = 4 * 1024;
/// What each is cut to then.
const MAX_EACH: usize = 256;

/// Says in the answer what the client was warned of on the way.
#[derive(Debug)]
pub(super) struct WarningRecorder;

impl Filter for WarningRecorder {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let warnings = request.warnings.clone();
        let pending = next.handle(request);
        Box::pin(async move {
            let mut response = pending.await;
            add(response.headers_mut(), &warnings.take());
            response
        })
    }
}

fn add(headers: &mut HeaderMap, warnings: &[String]) {
    let total: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    let cut = total > MAX_TOTAL;
    let mut written = 0;
    for warning in warnings {
        let each = if cut { MAX_EACH } else { usize::MAX };
        let text: String = warning.chars().take(each).collect();
        if let Some(header) = header(&text) {
            headers.append(WARNING, header);
            written += text.chars().count();
        }
        if cut && written >= MAX_TOTAL {
            break;
        }
    }
}

/// `299 - "text"`. What has control characters cannot be said.
fn header(text: &str) -> Option<HeaderValue> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return None;
    }
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(warnings: &[String]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        add(&mut headers, warnings);
        let all = headers.get_all(WARNING).iter();
        all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    #[test]
    fn warnings_are_quoted() {
        let warnings = [r#"a "b" \c"#, "über", "line\nbreak", ""].map(String::from);
        assert_eq!(headers(&warnings), [r#"299 - "a \"b\" \\c""#, r#"299 - "über""#]);
    }

    #[test]
    fn many_long_warnings_are_cut_and_then_left_out() {
        let long = |letter: char| letter.to_string().repeat(2048);
        assert_eq!(headers(&[long('a'), long('b')])[1].len(), 2048 + r#"299 - """#.len());
        let cut = headers(&[long('a'), long('b'), "c".into()]);
        let lengths: Vec<_> = cut.iter().map(String::len).collect();
        assert_eq!(lengths, [256 + 8, 256 + 8, 1 + 8]);
        let many: Vec<_> = (0..100).map(|n| format!("{n:0300}")).collect();
        assert_eq!(headers(&many).len(), 4096 / 256);
    }
}
