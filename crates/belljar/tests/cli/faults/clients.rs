//! Clients of a cluster while faults are injected, and the answers that they got.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::random::Random;

/// How long all runs have to end once the faults have stopped.
const END: Duration = Duration::from_mins(3);
/// How long a session is asked for that nobody can reach.
const PATIENCE: Duration = Duration::from_secs(30);

/// What all clients share.
pub(super) struct Load {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) key: String,
    /// After which another session is begun.
    pub(super) cells: u64,
    /// Nothing new is begun.
    pub(super) stop: AtomicBool,
    pub(super) runs: Mutex<BTreeMap<String, Followed>>,
    pub(super) sessions: Mutex<Sessions>,
    /// What no client may be told.
    pub(super) violations: Mutex<Vec<String>>,
    /// Answers that say "later", by their status and code.
    pub(super) refusals: Mutex<BTreeMap<String, usize>>,
}

/// A run as its reader saw it, on one node after another.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) id: String,
    pub(super) events: Vec<(u64, Value)>,
    pub(super) ended: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sessions {
    pub(super) made: usize,
    pub(super) cells: usize,
    /// Sessions of nodes that were lost.
    pub(super) lost: usize,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Load {
    /// Begins runs and reads each to its end.
    pub(super) fn drive_runs(self: &Arc<Self>, client: usize, mut random: Random) {
        let mut stopped = None;
        for number in 0_u64.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("run-{client}-{number}");
            let Some(id) = self.begin(&name, &mut random) else {
                return;
            };
            let followed = Followed {
                id,
                ..Followed::default()
            };
            self.runs.lock().unwrap().insert(name.clone(), followed);
            while !self.follow(&name, &mut random) {
                if self.stop.load(Ordering::Relaxed) {
                    let stopped = *stopped.get_or_insert_with(Instant::now);
                    if stopped.elapsed() > END {
                        return;
                    }
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// The id of a new run. The same request is sent to one node after another until it is accepted.
    fn begin(&self, name: &str, random: &mut Random) -> Option<String> {
        let body = json!({"task": name}).to_string();
        let begin = Instant::now();
        loop {
            let headers = [("Idempotency-Key", name)];
            let answer = self.ask(random, "POST", "/v1/runs", &headers, &body);
            match answer {
                Some(Answer { status: 202, body }) => {
                    return Some(body["id"].as_str().unwrap().to_owned());
                }
                Some(Answer {
                    status: 429 | 502..=504,
                    ..
                })
                | None => {}
                Some(answer) => {
                    let why = format!(
                        "{name}: status {} for its task: {}",
                        answer.status, answer.body
                    );
                    self.violations.lock().unwrap().push(why);
                    return None;
                }
            }
            if begin.elapsed() > END {
                let why = format!("L1: {name} was not accepted in {END:?}");
                self.violations.lock().unwrap().push(why);
                return None;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Reads on at some node, and says whether the run has ended.
    fn follow(&self, name: &str, random: &mut Random) -> bool {
        let (id, after) = {
            let runs = self.runs.lock().unwrap();
            let run = &runs[name];
            (run.id.clone(), run.events.last().map_or(0, |(seq, _)| *seq))
        };
        let address = *random.pick(&self.addresses);
        let take = |seq, event: Value| {
            let mut runs = self.runs.lock().unwrap();
            let run = runs.get_mut(name).unwrap();
            run.ended = event["kind"] == "ended";
            run.events.push((seq, event));
            // Now and then the next events are of another node.
            !run.ended && random.below(10) != 0
        };
        match stream(
            address,
            &self.key,
            &format!("/v1/runs/{id}/events"),
            after,
            take,
        ) {
            Ok(200) | Err(_) => {}
            Ok(status @ (429 | 502..=504)) => self.refused(format!("{status} for events")),
            Ok(status) => {
                let why = format!("J2: {name}: status {status} for the events of an accepted run");
                self.violations.lock().unwrap().push(why);
            }
        }
        self.runs.lock().unwrap()[name].ended
    }

    /// Counts in sessions: a cell that was acknowledged is never lost as long as its session is there.
    pub(super) fn use_sessions(&self, mut random: Random) {
        const COUNT: &str = r#"{"code": "x = globals().get('x', 0) + 1\nprint(x)"}"#;
        while !self.stop.load(Ordering::Relaxed) {
            let made = self.ask(&mut random, "POST", "/v1/sessions", &[], "{}");
            let Some(Answer { status: 201, body }) = made else {
                std::thread::sleep(Duration::from_millis(200));
                continue;
            };
            self.sessions.lock().unwrap().made += 1;
            let path = format!("/v1/sessions/{}", body["id"].as_str().unwrap());
            // Cells that were acknowledged, and those of which nothing is known.
            let (mut counted, mut unknown) = (0, 0);
            let mut silent = Instant::now();
            while !self.stop.load(Ordering::Relaxed) && counted < self.cells {
                std::thread::sleep(Duration::from_millis(random.below(400)));
                let cells = format!("{path}/cells");
                let answer = self.ask(&mut random, "POST", &cells, &[], COUNT);
                match answer {
                    Some(Answer { status: 200, body }) if body["status"] == "success" => {
                        let said = body["stdout"]["text"].as_str().unwrap_or_default();
                        let now: u64 = said.trim().parse().unwrap_or_default();
                        if !(counted + 1..=counted + 1 + unknown).contains(&now) {
                            let why = format!(
                                "X1: {path} is at {now} after {counted}, {unknown} unknown"
                            );
                            self.violations.lock().unwrap().push(why);
                        }
                        (counted, unknown, silent) = (now, 0, Instant::now());
                        self.sessions.lock().unwrap().cells += 1;
                    }
                    Some(Answer {
                        status: 404 | 410, ..
                    }) => {
                        self.sessions.lock().unwrap().lost += 1;
                        break;
                    }
                    _ if silent.elapsed() > PATIENCE => {
                        self.sessions.lock().unwrap().lost += 1;
                        break;
                    }
                    Some(Answer { status: 200, body }) => {
                        self.refused(format!("200 {}", body["status"]));
                        unknown += 1;
                    }
                    _ => unknown += 1,
                }
            }
            let _ = self.ask(&mut random, "DELETE", &path, &[], "");
        }
    }

    /// Asks some node. None: it gave no answer.
    pub(super) fn ask(
        &self,
        random: &mut Random,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answer> {
        let address = *random.pick(&self.addresses);
        let answer = match ask(address, &self.key, method, path, headers, body) {
            Ok(answer) => answer,
            Err(error) => {
                self.refused(format!("no answer: {}", error.kind()));
                return None;
            }
        };
        if answer.status == 500 {
            let why = format!("status 500 for {method} {path}: {}", answer.body);
            self.violations.lock().unwrap().push(why);
        } else if answer.status >= 400 {
            self.refused(format!("{} {}", answer.status, answer.body["code"]));
        }
        Some(answer)
    }

    fn refused(&self, why: String) {
        *self.refusals.lock().unwrap().entry(why).or_default() += 1;
    }
}

fn send(
    address: SocketAddr,
    key: &str,
    head: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut text = format!(
        "{head} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    stream.write_all(format!("{text}\r\n{body}").as_bytes())?;
    Ok(stream)
}

fn status_of(head: &str) -> io::Result<u16> {
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other("no answer"))
}

pub(super) fn ask(
    address: SocketAddr,
    key: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Answer> {
    let mut stream = send(address, key, &format!("{method} {path}"), headers, body)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = status_of(&answer)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    // An answer that breaks off is none.
    let body = match body {
        "" => Value::Null,
        body => serde_json::from_str(body).map_err(io::Error::other)?,
    };
    Ok(Answer { status, body })
}

/// Gives each whole event to `take`, until this says that it has enough. Returns the status.
pub(super) fn stream(
    address: SocketAddr,
    key: &str,
    path: &str,
    after: u64,
    mut take: impl FnMut(u64, Value) -> bool,
) -> io::Result<u16> {
    let after = after.to_string();
    let headers = [("Last-Event-ID", after.as_str())];
    let mut lines = BufReader::new(send(address, key, &format!("GET {path}"), &headers, "")?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let status = status_of(&line)?;
    let (mut id, mut event) = (None, None);
    loop {
        line.clear();
        // The chunks of the transfer are cut anywhere between events.
        if lines.read_line(&mut line)? == 0 {
            return Ok(status);
        }
        let text = line.trim_end();
        if let Some(number) = text.strip_prefix("id: ") {
            id = number.parse().ok();
        } else if let Some(data) = text.strip_prefix("data: ") {
            event = serde_json::from_str(data).ok();
        } else if text.is_empty()
            && let (id, Some(event)) = (id.take(), event.take())
            && let Some(id) = id
            && !take(id, event)
        {
            return Ok(status);
        }
    }
}
