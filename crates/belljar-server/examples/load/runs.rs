//! Runs of a scripted model, and a client that reads their events through whatever happens.

use std::time::Duration;

use belljar_test_model::{Scripted, ScriptedModel};
use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};

use crate::service::{Requests, Said};

/// Cells of each run.
const CELLS: usize = 8;

/// What a cell of a run does beside for the flood of `memory`.
const LARGE: &str = "print('x' * (1 << 20))\nclass Picture:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(6 << 20)\nPicture()\n";

/// How long is waited before something that failed is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// A model that counts with cells, and says how far it came.
pub(crate) fn model() -> ScriptedModel {
    ScriptedModel::react(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let turns = body["messages"].as_array().unwrap().iter();
        let turns = turns
            .filter(|message| message["role"] == "assistant")
            .count();
        if turns < CELLS {
            let more = if body.to_string().contains("flood") {
                LARGE
            } else {
                ""
            };
            Scripted::text(format!(
                "```python\nimport time\ntime.sleep(0.05)\ncount = {turns} + 1\nprint(count)\n{more}```"
            ))
        } else {
            Scripted::text(format!("FINAL: It is {CELLS}."))
        }
    })
    .unwrap()
}

/// An event as it was told: its number, and all of it.
type Told = (u64, String);

/// Starts a run and reads its events to the end. Whatever was told is what the journal has.
pub(crate) async fn whole_run(service: &Requests, key: &str, name: &str) -> Result<Value, String> {
    let task = json!({ "task": "How far can you count?" });
    let id = loop {
        let request = service.request(Method::POST, key, "/v1/runs");
        let request = request.header("Idempotency-Key", name).json(&task);
        match Requests::send(request).await {
            Said::Done(made) => break made["id"].as_str().unwrap().to_owned(),
            Said::No(_) | Said::Failed(_) => tokio::time::sleep(AGAIN).await,
        }
    };
    let path = format!("/v1/runs/{id}");
    let mut told: Vec<Told> = Vec::new();
    while !told
        .last()
        .is_some_and(|(_, event)| event.contains("\"kind\":\"ended\""))
    {
        let from = told.len();
        let last = told.last().map_or(0, |(number, _)| *number);
        listen(service, key, &path, last, &mut told).await;
        if told.len() == from {
            tokio::time::sleep(AGAIN).await;
        }
    }
    for (at, (number, _)) in told.iter().enumerate() {
        if *number != at as u64 + 1 {
            return Err(format!("event {number} of {id} came as number {}", at + 1));
        }
    }
    let mut kept = Vec::new();
    while kept.len() < told.len() {
        kept.clear();
        listen(service, key, &path, 0, &mut kept).await;
    }
    if kept != told {
        return Err(format!("{id}: what was told is not what is kept"));
    }
    loop {
        match Requests::send(service.request(Method::GET, key, &path)).await {
            Said::Done(view) => return Ok(view),
            Said::No(_) | Said::Failed(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// Reads events after one until the stream ends or breaks.
async fn listen(service: &Requests, key: &str, path: &str, after: u64, told: &mut Vec<Told>) {
    let request = service.request(Method::GET, key, &format!("{path}/events"));
    let request = request.header("Last-Event-ID", after.to_string());
    let Ok(response) = request.send().await else {
        return;
    };
    if !response.status().is_success() {
        return;
    }
    let mut stream = response.bytes_stream();
    let mut text = Vec::new();
    while let Some(Ok(part)) = stream.next().await {
        text.extend_from_slice(&part);
        while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
            let event = String::from_utf8(text.drain(..end + 2).collect()).unwrap();
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            if let (Some(id), Some(data)) = (field("id: "), field("data: ")) {
                told.push((id.parse().unwrap(), data.to_owned()));
            }
        }
    }
}
