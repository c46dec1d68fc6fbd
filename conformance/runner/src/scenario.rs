//! Scenarios: requests in a file, and a server's answers to them.
//!
//! A scenario is a YAML list of steps, sent one after another:
//!
//! ```yaml
//! - do: PATCH /api/v1/namespaces/a/configmaps/b?fieldManager=me   # method and path
//!   type: application/merge-patch+json                            # of the body; application/json if left out
//!   body: {data: {x: "1"}}                                        # or a text, sent as it is
//!   accept: application/json                                      # and other headers:
//!   headers: {Impersonate-User: jane}
//!   save: {uid: /metadata/uid}                                    # for later steps, as ${uid}
//!   show: [/metadata/labels]                                      # compare these parts of the answer only
//!   until: 200                                                    # retry, for a while, until this is the code,
//!                                                                 # or {/status/phase: Active} is in the answer
//!   answer-headers: [Retry-After]                                 # compare these, too
//!   lines: 1                                                      # of a text: compare this many, ignoring spaces
//! - do: GET /api/v1/namespaces/a/configmaps?watch=1
//!   events: 2                                                     # of a watch: number of events to wait for
//! - do: HOOK /deny                                                # sets the answer of the webhook at ${hooks}/deny,
//!   response: {allowed: false}                                    # whose CA bundle is ${ca}; see `hooks::make`
//! - do: RECEIVED /deny                                            # reviews received there since
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use serde_json::{Map, Value, json};

use crate::Result;
use crate::client::{Answer, Client, Request};
use crate::hooks::Hooks;
use crate::mask::{mask, mask_text};

/// Time limit for an event of a watch.
const EVENT_LIMIT: Duration = Duration::from_secs(5);
/// Time limit of retries for effects that take a while.
const UNTIL_LIMIT: Duration = Duration::from_secs(5);
/// Longest part of an answer that is not JSON that is kept.
const TEXT_LIMIT: usize = 2000;

/// One request of a scenario.
#[derive(Clone, Debug)]
pub struct Step {
    /// Method and path, as written.
    pub title: String,
    fields: Value,
}

impl Step {
    /// Request with the fields of a step.
    pub fn new(title: String, fields: Value) -> Self {
        Step { title, fields }
    }

    /// Body of the request.
    pub fn body(&self) -> String {
        plain(&self.fields["body"])
    }
}

/// Reads a scenario.
pub fn read(path: &Path) -> Result<Vec<Step>> {
    let said = |problem: String| format!("{}: {problem}", path.display());
    let text = fs::read(path).map_err(|error| said(error.to_string()))?;
    let json = kevel_codec::yaml::to_json(&text).map_err(|error| said(error.to_string()))?;
    let steps: Vec<Value> = serde_json::from_slice(&json.text)?;
    let step = |fields: Value| match fields["do"].as_str() {
        Some(title) => Ok(Step { title: title.to_owned(), fields }),
        None => Err(said(format!("a step that does nothing: {fields}")).into()),
    };
    steps.into_iter().map(step).collect()
}

/// Plays a scenario; returns one masked answer per step.
pub async fn play(steps: &[Step], client: &Client, hooks: &Hooks) -> Result<Vec<Value>> {
    let mut saved = BTreeMap::new();
    saved.insert("hooks".to_owned(), hooks.url.clone());
    saved.insert("ca".to_owned(), hooks.ca.clone());
    let mut answers = Vec::new();
    for step in steps {
        let answer = match step.title.split_once(' ') {
            Some(("HOOK", path)) => {
                hooks.answer(path, &step.fields);
                Value::Null
            }
            Some(("RECEIVED", path)) => step.received(hooks, path),
            _ => match step.play(client, &mut saved).await {
                Ok(answer) => answer,
                Err(error) => json!({"error": error.to_string()}),
            },
        };
        answers.push(answer);
    }
    Ok(answers)
}

impl Step {
    async fn play(&self, client: &Client, saved: &mut BTreeMap<String, String>) -> Result<Value> {
        let request = self.request(saved)?;
        if let Some(count) = self.fields["events"].as_u64() {
            return self.watch(client, request, count).await;
        }
        let answer = self.answer(client, request).await?;
        let mut said = head(answer.code, &answer.headers);
        for name in self.fields["answer-headers"].as_array().into_iter().flatten() {
            let name = plain(name);
            let value = answer.headers.get(&name).map(text);
            said.insert(name, value.map(|value| mask_text(&value)).into());
        }
        let body = match serde_json::from_slice::<Value>(&answer.body) {
            Ok(mut body) => {
                for (name, place) in self.fields["save"].as_object().into_iter().flatten() {
                    let value = body.pointer(place.as_str().unwrap_or_default());
                    let value = value.map_or(String::new(), plain);
                    saved.insert(name.clone(), value);
                }
                mask(&mut body);
                self.shown(body)
            }
            Err(_) => {
                let text = self.lines(&String::from_utf8_lossy(&answer.body));
                mask_text(&text.chars().take(TEXT_LIMIT).collect::<String>()).into()
            }
        };
        said.insert("body".to_owned(), body);
        Ok(said.into())
    }

    /// First lines of a text, as many as the step compares.
    fn lines(&self, text: &str) -> String {
        let Some(count) = self.fields["lines"].as_u64() else { return text.to_owned() };
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().take(count as usize).map(squeezed).collect::<Vec<_>>().join("\n")
    }

    /// Whether an answer is the one that the step waits for.
    fn is_wanted(&self, answer: &Answer) -> bool {
        match &self.fields["until"] {
            Value::Null => true,
            Value::Object(wanted) => {
                let body = answer.json().unwrap_or_default();
                wanted.iter().all(|(place, value)| body.pointer(place) == Some(value))
            }
            code => code.as_u64() == Some(u64::from(answer.code)),
        }
    }

    /// Requests that a webhook received.
    fn received(&self, hooks: &Hooks, path: &str) -> Value {
        let mut received = hooks.received(path);
        mask(&mut received);
        let reviews = received.as_array().cloned().unwrap_or_default();
        reviews.into_iter().map(|review| self.shown(review)).collect()
    }

    async fn answer(&self, client: &Client, request: Request) -> Result<Answer> {
        let begun = Instant::now();
        loop {
            let answer = client.send(request.clone()).await?;
            if self.is_wanted(&answer) || begun.elapsed() > UNTIL_LIMIT {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn request(&self, saved: &BTreeMap<String, String>) -> Result<Request> {
        let fill = |text: &str| {
            saved.iter().fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("${{{name}}}"), value)
            })
        };
        let (method, path) = self.title.split_once(' ').ok_or("a step is METHOD PATH")?;
        let mut request = Request::new(method.parse::<Method>()?, fill(path));
        if let Some(accept) = self.fields["accept"].as_str() {
            request = request.with_header("accept", accept);
        }
        for (name, value) in self.fields["headers"].as_object().into_iter().flatten() {
            request = request.with_header(name, &fill(&plain(value)));
        }
        let media = self.fields["type"].as_str().unwrap_or("application/json");
        Ok(match &self.fields["body"] {
            Value::Null => request,
            body => request.with_body(media, fill(&plain(body))),
        })
    }

    async fn watch(&self, client: &Client, request: Request, count: u64) -> Result<Value> {
        let mut lines = client.watch(request).await?;
        let mut said = head(lines.code, &lines.headers);
        let mut events = Vec::new();
        while (events.len() as u64) < count {
            match tokio::time::timeout(EVENT_LIMIT, lines.next()).await {
                Ok(Ok(Some(line))) => {
                    let mut event = serde_json::from_slice(&line)?;
                    mask(&mut event);
                    events.push(self.shown(event));
                }
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    events.push("nothing came".into());
                    break;
                }
            }
        }
        said.insert("events".to_owned(), events.into());
        Ok(said.into())
    }

    fn shown(&self, body: Value) -> Value {
        let Some(places) = self.fields["show"].as_array() else { return body };
        let places = places.iter().filter_map(Value::as_str);
        let part = |place: &str| body.pointer(place).cloned().unwrap_or(Value::Null);
        Value::Object(places.map(|place| (place.to_owned(), part(place))).collect())
    }
}

/// A string as it is, any other value as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn text(value: &http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn head(code: u16, headers: &HeaderMap) -> Map<String, Value> {
    let mut said = Map::new();
    said.insert("code".to_owned(), code.into());
    said.insert("type".to_owned(), headers.get("content-type").map(text).into());
    let warnings: Vec<String> = headers.get_all("warning").iter().map(text).collect();
    if !warnings.is_empty() {
        said.insert("warnings".to_owned(), warnings.into());
    }
    said
}
