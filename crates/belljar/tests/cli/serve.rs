//! `belljar serve`, `belljar keys` and `belljar tenants`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command};
use std::time::Duration;

use belljar_test_model::{Scripted, ScriptedModel};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::run::code;
use crate::support::{BELLJAR, Ended, Scratch, bare, eventually};

/// A service on a port of its own, and where it listens.
fn serve(scratch: &Scratch) -> (Child, BufReader<ChildStderr>, String) {
    serve_by(scratch.prepare(BELLJAR))
}

fn serve_by(mut command: Command) -> (Child, BufReader<ChildStderr>, String) {
    command
        .args(["serve", "--env", bare(), "--data", "service"])
        .args(["--listen", "127.0.0.1:0"]);
    start(command)
}

/// Starts this service, and waits until it listens.
pub(crate) fn start(mut command: Command) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let address = listens_on(&mut stderr);
    (child, stderr, address)
}

pub(crate) fn listens_on(stderr: &mut BufReader<ChildStderr>) -> String {
    let lines = stderr.lines().map(Result::unwrap);
    let after = |line: &str, text| Some(line.split_once(text)?.1.to_owned());
    let mut addresses =
        lines.filter_map(|line| after(&line, "http://").or_else(|| after(&line, "on https://")));
    let address = addresses.next().expect("it ended");
    let end = address.find(|letter: char| !letter.is_ascii_digit() && !".:".contains(letter));
    address[..end.unwrap()].to_owned()
}

pub(crate) fn stop(scratch: &Scratch, child: Child, signal: Signal) -> Ended {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    scratch.finish(child)
}

fn ask(address: &str, key: &str, method: &str, path: &str) -> String {
    ask_with(address, key, method, path, "")
}

pub(crate) fn ask_with(address: &str, key: &str, method: &str, path: &str, body: &str) -> String {
    ask_with_header(address, key, method, path, "", body)
}

/// The same with one more header: a whole line.
pub(crate) fn ask_with_header(
    address: &str,
    key: &str,
    method: &str,
    path: &str,
    header: &str,
    body: &str,
) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{header}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The key is printed by the first start alone, and good for all; a signal ends the service and everything
/// that it started.
#[test]
fn the_service_starts_and_stops() {
    let scratch = Scratch::new();
    let (mut child, _stderr, address) = serve(&scratch);
    let mut key = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut key)
        .unwrap();
    let key = key.trim();
    assert!(key.starts_with("bj_"), "{key}");
    let made = ask(&address, key, "POST", "/v1/sessions");
    assert!(made.starts_with("HTTP/1.1 201 "), "{made}");
    let refused = ask(&address, "bj_00000000_0", "POST", "/v1/sessions");
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    stop(&scratch, child, Signal::TERM).exits_with(0).prints("");

    let (child, _stderr, address) = serve(&scratch);
    let listed = ask(&address, key, "GET", "/v1/sessions");
    assert!(listed.starts_with("HTTP/1.1 200 "), "{listed}");
    stop(&scratch, child, Signal::INT).exits_with(0).prints("");
}

/// The columns of a row, which are two spaces apart at least.
fn columns(row: &str) -> Vec<&str> {
    let columns = row.trim_end().split("  ").map(str::trim);
    columns.filter(|column| !column.is_empty()).collect()
}

/// Whether this is a time such as `2026-11-17T06:44:32Z`.
fn is_time(text: &str) -> bool {
    text.len() == 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z')
}

#[test]
fn quotas_of_tenants_are_set_and_shown() {
    let scratch = Scratch::new();
    let tenants = |arguments: &[&str]| {
        scratch.belljar(&[&["tenants"], arguments, &["--data", "service"]].concat())
    };
    tenants(&[
        "set",
        "team-7",
        "--quota",
        "sessions=3",
        "--quota",
        "tokens=1000",
    ])
    .exits_with(0)
    .prints("");
    tenants(&["set", "team-7", "--quota", "sessions=none"]).exits_with(0);
    let list = tenants(&["list"]).exits_with(0);
    list.prints("team-7  tokens=1000\n").says("tenant  quotas");
    let shown = tenants(&["show", "team-7"]).exits_with(0);
    let rows: Vec<Vec<&str>> = shown.stdout.lines().map(columns).collect();
    assert!(rows.contains(&vec!["tokens", "1000", "-"]), "{rows:?}");
    assert!(rows.contains(&vec!["sessions", "-", "-"]), "{rows:?}");
    let audit = tenants(&["audit"]).exits_with(0);
    let acts: Vec<Vec<&str>> = audit.stdout.lines().map(columns).collect();
    let expected = ["sessions=none", "tokens=1000", "sessions=3"]
        .map(|quota| vec!["command line", "quota_set", "team-7", quota]);
    assert_eq!(
        acts.iter().map(|act| &act[1..]).collect::<Vec<_>>(),
        expected
    );
    assert!(acts.iter().all(|act| is_time(act[0])), "{acts:?}");
    audit.says("time").says("actor").says("action");
    // A slip of the finger makes no tenant.
    let ended = tenants(&["set", "tema-7", "--quota", "runs=1"]).exits_with(2);
    ended
        .says("no such tenant: `tema-7`; there is `team-7`")
        .says("hint: `--new-tenant` creates");
    tenants(&["show", "tema-7"]).exits_with(2);
    let new = ["set", "team-8", "--quota", "runs=1", "--new-tenant"];
    tenants(&new).exits_with(0).prints("");
    tenants(&["show", "nobody"])
        .exits_with(2)
        .says("belljar tenants list");
    for bad in ["luck=1", "tokens", "tokens=-1", "tokens=1.5"] {
        tenants(&["set", "team-7", "--quota", bad]).exits_with(2);
    }
}

#[test]
fn the_least_isolation_of_tenants_is_set_and_shown() {
    let scratch = Scratch::new();
    let tenants = |arguments: &[&str]| {
        scratch.belljar(&[&["tenants"], arguments, &["--data", "service"]].concat())
    };
    let set = |least: &str| tenants(&["set", "team-7", "--least-isolation", least]);
    set("gvisor").exits_with(0).prints("");
    let list = || tenants(&["list"]).exits_with(0);
    list().prints("team-7  least_isolation=gvisor\n");
    let shown = tenants(&["show", "team-7"]).exits_with(0);
    let rows: Vec<Vec<&str>> = shown.stdout.lines().map(columns).collect();
    assert!(
        rows.contains(&vec!["least_isolation", "gvisor", "-"]),
        "{rows:?}"
    );
    for bad in ["unfiltered", "Full", "", "vm"] {
        let ended = set(bad).exits_with(2);
        ended.says("expected one of container, full, gvisor");
    }
    tenants(&["set", "team-7"]).exits_with(2).says("--quota");
    let both = [
        "set",
        "team-7",
        "--quota",
        "runs=1",
        "--least-isolation",
        "full",
    ];
    tenants(&both).exits_with(0);
    list().prints("team-7  runs=1 least_isolation=full\n");
    set("none").exits_with(0);
    list().prints("team-7  runs=1\n");
    let audit = tenants(&["audit"]).exits_with(0);
    let acts: Vec<Vec<&str>> = audit.stdout.lines().map(columns).collect();
    let set: Vec<&str> = acts
        .iter()
        .filter(|act| act[2] == "isolation_set")
        .map(|act| act[4])
        .collect();
    assert_eq!(set, ["none", "full", "gvisor"]);
}

/// `none` is never one of several: a client could choose it.
#[test]
fn a_service_offers_no_isolation_only_alone() {
    let scratch = Scratch::new();
    for (walls, said) in [
        ("full,none", "`--walls none` cannot be offered with others"),
        (
            "none,gvisor",
            "`--walls none` cannot be offered with others",
        ),
        ("full,full", "`--walls` has a value twice"),
    ] {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data", "service"];
        let ended = scratch.belljar(&[&serve[..], &["--walls", walls]].concat());
        ended.exits_with(2).says(said);
    }
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let scratch = Scratch::new();
    let keys = |arguments: &[&str]| {
        scratch.belljar(&[&["keys"], arguments, &["--data", "service"]].concat())
    };
    let key = keys(&["create", "--tenant", "team-7", "--scope", "sessions"]).exits_with(0);
    let prefix = key.stdout.split('_').nth(1).unwrap().to_owned();
    let list = keys(&["list"]).exits_with(0);
    let row = columns(&list.stdout);
    assert_eq!(row[..3], [&prefix, "team-7", "sessions"], "{list:#?}");
    assert!(is_time(row[3]), "{list:#?}");
    assert_eq!(row[4..], ["-", "-", "valid"], "{list:#?}");
    list.says("key").says("created").says("last used");
    let short = keys(&["create", "--tenant", "team-7", "--days", "30"]).exits_with(0);
    let list = keys(&["list"]).exits_with(0);
    let prefix_of_short = short.stdout.split('_').nth(1).unwrap();
    let row = list
        .stdout
        .lines()
        .find(|row| row.starts_with(prefix_of_short));
    let row = columns(row.unwrap());
    assert!(
        is_time(row[3]) && is_time(row[4]) && row[3] < row[4],
        "{row:?}"
    );
    keys(&["revoke", prefix_of_short]).exits_with(0);
    let ended = keys(&["create", "--tenant", "taem-7"]).exits_with(2);
    ended.prints("").says("there is `team-7`");
    keys(&["revoke", &prefix]).exits_with(0).prints("");
    keys(&["revoke", &prefix])
        .exits_with(2)
        .says("no valid key has the prefix");
    assert!(keys(&["list"]).stdout.contains("  revoked 20"));
    keys(&["create", "--tenant", "a b"])
        .exits_with(2)
        .says("lower-case letters");
    // All are revoked: nobody could use it.
    scratch
        .belljar(&[
            "serve",
            "--env",
            bare(),
            "--data",
            "service",
            "--listen",
            "127.0.0.1:0",
        ])
        .exits_with(2)
        .says("belljar keys create");
}

/// What would be lines of a log, if it stood at the beginning of one.
const FORGED: &str = "x\r\n{\"level\":\"INFO\",\"forged\":true}\n\
    2026-01-01T00:00:00.000000Z  INFO forged\u{2028}2026-01-01T00:00:00.000000Z  INFO forged\u{1b}[31m";

/// The log of a service that was sent these wherever it takes a text; the key of its client, and a session.
fn log_of(format: &str) -> (String, String, String) {
    let scratch = Scratch::new();
    let key = scratch.belljar(&["keys", "create", "--data", "service"]);
    let key = key.exits_with(0).stdout.trim().to_owned();
    let mut command = scratch.prepare(BELLJAR);
    command.envs([("BELLJAR_LOG", "trace"), ("BELLJAR_LOG_FORMAT", format)]);
    let (child, stderr, address) = serve_by(command);
    // It would wait for a reader.
    let rest = std::thread::spawn(move || {
        let lines = stderr.lines().map(|line| line.unwrap() + "\n");
        lines.collect::<String>()
    });
    let made = ask(&address, &key, "POST", "/v1/sessions");
    let (_, body) = made.split_once("\r\n\r\n").unwrap();
    let session: Value = serde_json::from_str(body).unwrap();
    let id = session["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}");
    let escaped = FORGED.bytes().map(|byte| format!("%{byte:02x}"));
    let escaped = escaped.collect::<Vec<_>>().concat();
    let send = |method: &str, path: &str, body: &Value| {
        ask_with(&address, &key, method, path, &body.to_string())
    };
    // A text of JSON is one of Python.
    let text = json!(FORGED);
    let code = json!({"code": format!("print({text})\nraise ValueError({text})")});
    let ran = send("POST", &format!("{path}/cells"), &code);
    assert!(ran.contains("ValueError"), "{ran}");
    for (method, path, body) in [
        ("POST", format!("{path}/restore"), json!({"name": FORGED})),
        (
            "POST",
            format!("{path}/checkpoints"),
            json!({"name": FORGED}),
        ),
        ("POST", format!("{path}/cells"), json!({FORGED: FORGED})),
        (
            "POST",
            "/v1/sessions".to_owned(),
            json!({"network": [FORGED]}),
        ),
        ("GET", format!("/v1/sessions/{escaped}"), Value::Null),
        ("GET", format!("{path}/files/{escaped}"), Value::Null),
        ("GET", format!("{path}/files/..%2f{escaped}"), Value::Null),
        ("PUT", format!("{path}/files/{escaped}"), Value::Null),
        ("GET", format!("/v1/sessions?cursor={escaped}"), Value::Null),
        ("GET", format!("/{escaped}"), Value::Null),
        ("FORGED", path.clone(), Value::Null),
    ] {
        let answer = send(method, &path, &body);
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
        assert!(
            !answer.starts_with("HTTP/1.1 5"),
            "{method} {path}: {answer}"
        );
    }
    let id = id.to_owned();
    stop(&scratch, child, Signal::TERM).exits_with(0);
    (rest.join().unwrap(), key, id)
}

/// E10: each line is an object of ours, whatever clients send; it has the ids, and no key.
#[test]
fn a_log_for_programs_has_one_object_a_line() {
    let (log, key, session) = log_of("json");
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    for line in &lines {
        assert!(
            line["timestamp"].is_string() && line["level"].is_string(),
            "{line}"
        );
        assert!(line.get("forged").is_none(), "{line}");
    }
    assert!(
        log.contains("\\r\\n{"),
        "nothing of what was sent is in the log"
    );
    let (prefix, secret) = key[3..].split_once('_').unwrap();
    assert!(!log.contains(secret));
    let answered = |route: &str| {
        let found = lines
            .iter()
            .find(|line| line["message"] == "answered" && line["span"]["route"] == route);
        found.unwrap_or_else(|| panic!("{route}\n{log}"))
    };
    let created = answered("/v1/sessions");
    assert_eq!(created["span"]["session"], session, "{created:#}");
    assert_eq!(created["span"]["key"], prefix);
    assert_eq!(created["span"]["tenant"], "default");
    assert_eq!(created["status"], 201);
    let ran = answered("/v1/sessions/{id}/cells");
    assert_eq!(ran["span"]["cell"], 1, "{ran:#}");
    let ended = lines.iter().find(|line| line["message"] == "cell ended");
    assert_eq!(ended.unwrap()["span"]["id"], ran["span"]["id"]);
    let refused = answered("/v1/sessions/{id}/restore");
    assert_eq!(refused["code"], "checkpoint_not_found", "{refused:#}");
    assert!(
        lines
            .iter()
            .any(|line| line["message"] == "shutting down: no new work is accepted")
    );
}

/// E10, for people: what was sent stays within its line.
#[test]
fn a_log_for_people_has_one_line_for_each_event() {
    let (log, key, _) = log_of("text");
    for line in log
        .split(['\n', '\r', '\u{2028}'])
        .filter(|line| !line.is_empty())
    {
        let ours = line.starts_with('[')
            || line.contains("Z  INFO ")
            || line.contains("Z TRACE ")
            || line.contains("Z DEBUG ")
            || line.contains("Z  WARN ");
        assert!(ours && !line.ends_with("  INFO forged"), "{line:?}");
        assert!(
            !line.starts_with("2026-01-01") && !line.contains('\u{1b}'),
            "{line:?}"
        );
    }
    assert!(
        log.contains("forged"),
        "nothing of what was sent is in the log"
    );
    assert!(!log.contains(key.rsplit_once('_').unwrap().1));
}

#[test]
fn a_log_has_one_of_two_formats() {
    let scratch = Scratch::new();
    let mut command = scratch.prepare(BELLJAR);
    let child = command.arg("doctor").env("BELLJAR_LOG_FORMAT", "xml");
    let ended = scratch.finish(child.spawn().unwrap());
    ended.exits_with(2).says("`text` or `json`");
}

/// The body of an answer, without how it was cut into pieces.
pub(crate) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

pub(crate) fn text_of(json: &str, field: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    json[field].as_str().unwrap_or_default().to_owned()
}

/// A service that is killed loses nothing of a run that it has told of; the next one goes on with it, and
/// nothing of the first is left.
#[test]
fn a_killed_service_goes_on_with_its_runs() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([
        code("x = 6 * 7"),
        code("never").slow_first_byte(Duration::from_mins(1)),
        code("print(x)"),
        Scripted::text("FINAL: It is 42."),
    ])
    .unwrap();
    let create = [
        "keys", "create", "--data", "service", "--tenant", "a", "--scope", "runs",
    ];
    let key = scratch.belljar(&create).exits_with(0).stdout;
    let key = key.trim();
    let start = || {
        let mut child = scratch
            .prepare(BELLJAR)
            .env("BELLJAR_BASE_URL", model.base_url())
            .args(["serve", "--env", bare(), "--data", "service"])
            .args(["--listen", "127.0.0.1:0", "--model", "llamacpp/scripted"])
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let address = listens_on(&mut stderr);
        (child, stderr, address)
    };
    let (child, _stderr, address) = start();
    let task = r#"{"task": "What is six times seven?"}"#;
    let mut stream = TcpStream::connect(&address).unwrap();
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{task}",
        task.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut created = String::new();
    stream.read_to_string(&mut created).unwrap();
    assert!(created.starts_with("HTTP/1.1 202 "), "{created}");
    let run = format!("/v1/runs/{}", text_of(body(&created), "id"));

    // What was told up to where the model is asked for the second time.
    let mut events = TcpStream::connect(&address).unwrap();
    let request = format!(
        "GET {run}/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\r\n"
    );
    events.write_all(request.as_bytes()).unwrap();
    let (mut told, mut asked) = (Vec::new(), 0);
    for line in BufReader::new(events).lines().map(Result::unwrap) {
        // What the journal has: parts of replies have no time.
        if line.starts_with("data: {\"at\":") {
            asked += u32::from(line.contains("\"kind\":\"asked\""));
            told.push(line);
            if asked == 2 {
                break;
            }
        }
    }
    assert_eq!(
        asked, 2,
        "the run ended before the service was killed: {told:#?}"
    );
    // It is told before it is done: killed in between, the next service would be given the reply that never comes.
    eventually(|| model.requests().len(), |asked| *asked == 2);
    stop(&scratch, child, Signal::KILL);

    let (child, _stderr, address) = start();
    let mut all = String::new();
    for _ in 0..400 {
        let shown = ask(&address, key, "GET", &run);
        assert!(shown.starts_with("HTTP/1.1 200 "), "{shown}");
        if text_of(body(&shown), "state") == "answered" {
            assert_eq!(text_of(body(&shown), "answer"), "It is 42.");
            all = ask(&address, key, "GET", &format!("{run}/events"));
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let all: Vec<&str> = all
        .lines()
        .filter(|line| line.starts_with("data: "))
        .collect();
    assert!(all.len() > told.len(), "{all:#?}");
    assert_eq!(all[..told.len()], told);
    assert!(
        all.iter().any(|line| line.contains("\"output\":\"42\\n\"")),
        "{all:#?}"
    );
    stop(&scratch, child, Signal::TERM).exits_with(0);
}

/// A start with files that are no certificate says which, and what is wrong; one that keys can be read from on their way
/// says so.
#[test]
fn tls_is_asked_for_clearly() {
    let scratch = Scratch::new();
    let serve = ["serve", "--env", bare(), "--data", "service"];
    let files = ["--tls-certificate", "one.pem", "--tls-key", "two.pem"];
    let refused = |arguments: &[&str]| scratch.belljar(&[&serve, arguments].concat()).exits_with(2);
    refused(&files).says("one.pem: No such file");
    scratch.write("one.pem", "nonsense");
    refused(&files).says("one.pem: it has no certificate");
    refused(&files[..2]).says("--tls-key");

    let mut command = scratch.prepare(BELLJAR);
    command.args(serve).args(["--listen", "0.0.0.0:0"]);
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    assert!(first.contains("warning: without TLS"), "{first}");
    listens_on(&mut stderr);
    stop(&scratch, child, Signal::TERM).exits_with(0);
}
