//! Commands in sessions: through HTTP, as streams, and as terminals over a WebSocket.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{Ask as _, Client, Events, Told, World, options, soon, taken, until_free};
use crate::support::{world, world_in, world_with};

impl Client {
    pub(crate) async fn command(&self, session: &str, body: Value) -> Value {
        let request = self.post(&format!("{session}/commands"), body);
        request.json_with(200).await
    }

    /// Starts a command in the background; its path.
    pub(crate) async fn background(&self, session: &str, mut body: Value) -> String {
        body["background"] = true.into();
        let request = self.post(&format!("{session}/commands"), body);
        let response = request.with(201).await;
        let location = response.headers()["location"].to_str().unwrap().to_owned();
        let view: Value = response.json().await.unwrap();
        assert_eq!(view["state"], "running", "{view:#}");
        assert_eq!(location, format!("{session}/commands/{}", view["pid"]));
        location
    }

    async fn command_stream(&self, session: &str, line: &str) -> Events {
        let request = self.post(&format!("{session}/commands"), json!({"command": line}));
        Events::from_request(request.header("accept", "text/event-stream")).await
    }

    /// Waits until a command has ended; its view.
    pub(crate) async fn ended(&self, command: &str) -> Value {
        Events::from_request(self.get(&format!("{command}/events")))
            .await
            .rest()
            .await;
        self.get(command).json_with(200).await
    }
}

/// The text of all output, and the end.
fn whole(told: &[Told]) -> (String, &Value) {
    let output = told.iter().filter(|told| told.kind == "output");
    let text = output.map(|told| told.data["text"].as_str().unwrap());
    let last = told.last().unwrap();
    assert_eq!(last.kind, "end", "{told:#?}");
    (text.collect(), &last.data)
}

/// Waits until the output of a command has this.
async fn until_written(client: &Client, command: &str, wanted: &str) {
    let mut events = Events::from_request(client.get(&format!("{command}/events"))).await;
    let mut text = String::new();
    while !text.contains(wanted) {
        let told = events.next().await.unwrap_or_else(|| panic!("{text}"));
        assert_eq!(told.kind, "output", "{text} {told:?}");
        text.push_str(told.data["text"].as_str().unwrap());
    }
}

/// A request that waits returns both streams, the exit code, and what was asked for: directory, variables, input.
#[tokio::test]
async fn a_command_runs_to_its_end() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "import os; os.mkdir('below')").await;
    let view = client
        .command(
            &session,
            json!({
                "command": "pwd; cat; echo $NAME >&2; exit 3",
                "directory": "below",
                "variables": {"NAME": "value"},
                "input": "from outside\n",
            }),
        )
        .await;
    assert_eq!(view["state"], "ended", "{view:#}");
    assert_eq!(view["exit_code"], 3);
    assert_eq!(view["timed_out"], false);
    assert_eq!(
        view["stdout"],
        json!({"text": "/workspace/below\nfrom outside\n", "omitted_bytes": 0})
    );
    assert_eq!(
        view["stderr"],
        json!({"text": "value\n", "omitted_bytes": 0})
    );
    assert!(view.get("terminal").is_none() && view.get("signal").is_none());

    let view = client
        .command(&session, json!({"argv": ["sh", "-c", "kill -TERM $$"]}))
        .await;
    assert_eq!(
        (&view["signal"], view.get("exit_code")),
        (&json!("SIGTERM"), None)
    );
    assert_eq!(view["argv"], json!(["sh", "-c", "kill -TERM $$"]));

    // Without input, it reads the end of a file; of much output, the newest is kept.
    let line = "cat; head -c 600000 /dev/zero | tr '\\0' x; echo end";
    let view = client.command(&session, json!({"command": line})).await;
    assert_eq!(view["stdout"]["omitted_bytes"], 600_004 - (512 << 10));
    let text = view["stdout"]["text"].as_str().unwrap();
    assert!(text.len() == 512 << 10 && text.ends_with("xxend\n"));

    let started = Instant::now();
    let body = json!({"command": "sleep 1000", "timeout_ms": 200});
    let view = client.command(&session, body).await;
    assert_eq!(view["timed_out"], true, "{view:#}");
    assert!(started.elapsed() < Duration::from_secs(20));
    // Much input that nobody reads hinders nobody.
    let body = json!({"command": "head -c 1", "input": "y".repeat(1 << 20)});
    let view = client.command(&session, body).await;
    assert_eq!(view["stdout"]["text"], "y");
    until_free(&world, "commands").await;
    let metrics = world.metrics().await;
    for line in [
        "{end=\"exit\"} 3",
        "{end=\"signal\"} 1",
        "{end=\"timeout\"} 1",
    ] {
        let line = format!("belljar_commands_total{line}\n");
        assert!(metrics.contains(&line), "{line} {metrics}");
    }
    world.ends().await;
}

/// A command in the background outlives its request and runs beside cells. It is listed, found again and killed.
#[tokio::test]
async fn a_command_in_the_background_is_found_again() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let line = "echo begin; while ! test -e stop; do sleep 0.05; done; echo done";
    let command = client.background(&session, json!({"command": line})).await;
    client.run(&session, "open('stop', 'w').close()").await;
    let view = client.ended(&command).await;
    assert_eq!(
        (&view["state"], &view["exit_code"]),
        (&json!("ended"), &json!(0))
    );
    assert_eq!(view["stdout"]["text"], "begin\ndone\n");

    let sleeper = client
        .background(&session, json!({"argv": ["sleep", "1000"]}))
        .await;
    let listed = client
        .get(&format!("{session}/commands"))
        .json_with(200)
        .await;
    let states: Vec<_> = listed["commands"].as_array().unwrap().iter().collect();
    let states: Vec<_> = states.iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["ended", "running"], "{listed:#}");
    assert!(listed["commands"][0].get("stdout").is_none());
    client.delete(&sleeper).with(204).await;
    assert_eq!(client.ended(&sleeper).await["signal"], "SIGKILL");
    // It is as good as dead.
    client.delete(&sleeper).with(204).await;
    until_free(&world, "commands").await;
    world.ends().await;
}

/// Events come while the command runs, from any position, and letters stay whole.
#[tokio::test]
async fn output_is_streamed_from_any_position() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let line = "printf 'a\\342\\202'; while ! test -e go; do sleep 0.02; done; printf '\\254b'; echo c >&2; exit 1";
    let mut events = client.command_stream(&session, line).await;
    let started = events.next().await.unwrap();
    assert_eq!((started.id, started.kind.as_str()), (0, "started"));
    let command = format!("{session}/commands/{}", started.data["pid"]);
    let first = events.next().await.unwrap();
    assert_eq!(
        first.data,
        json!({"type": "output", "stream": "stdout", "text": "a", "next": 1})
    );
    assert_eq!(
        client.get(&command).json_with(200).await["state"],
        "running"
    );
    client.run(&session, "open('go', 'w').close()").await;
    let rest = events.rest().await;
    let (text, end) = whole(&rest);
    assert_eq!(text, "€bc\n");
    assert_eq!(
        *end,
        json!({"type": "end", "state": "ended", "exit_code": 1, "timed_out": false})
    );
    assert_eq!(rest.last().unwrap().id, 8);

    // Again from the middle, by query and by header; after the end there is only the end.
    let path = format!("{command}/events");
    let from = async |query: &str, last: Option<&str>| {
        let mut request = client.get(&format!("{path}{query}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let told = Events::from_request(request).await.rest().await;
        whole(&told).0
    };
    assert_eq!(from("?from=4", None).await, "bc\n");
    assert_eq!(from("", Some("5")).await, "c\n");
    assert_eq!(from("?from=0", Some("8")).await, "");
    client
        .get(&format!("{path}?from=9"))
        .problem(400, "bad_query")
        .await;
    client
        .get(&format!("{path}?from=x"))
        .problem(400, "bad_query")
        .await;

    // A reader that comes late learns how much it missed.
    let body = json!({"command": "head -c 600000 /dev/zero; echo end"});
    let command = client.background(&session, body).await;
    client.ended(&command).await;
    let events = Events::from_request(client.get(&format!("{command}/events?from=1"))).await;
    let rest = events.rest().await;
    let lost = 600_004 - 1 - (512 << 10);
    assert_eq!(
        rest[0].data,
        json!({"type": "lost", "bytes": lost, "next": lost + 1})
    );
    assert_eq!(whole(&rest).0.len(), 512 << 10);
    world.ends().await;
}

/// Input in pieces, signals, and refusals of what a command can't take.
#[tokio::test]
async fn a_command_gets_input_and_signals() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let command = client.background(&session, json!({"argv": ["cat"]})).await;
    let send = |path: &str, body: Value| client.post(&format!("{command}/{path}"), body);
    send("input", json!({"text": "one "})).with(204).await;
    until_written(&client, &command, "one ").await;
    send("resize", json!({"rows": 1, "columns": 1}))
        .problem(409, "command_refused")
        .await;
    send("input", json!({"base64": "dHdv", "close": true}))
        .with(204)
        .await;
    let view = client.ended(&command).await;
    assert_eq!(
        (&view["exit_code"], &view["stdout"]["text"]),
        (&json!(0), &json!("one two"))
    );
    send("input", json!({"text": "x"}))
        .problem(409, "command_refused")
        .await;
    send("signal", json!({"signal": "SIGINT"})).with(204).await;

    let line = "trap 'echo caught; exit 7' INT; echo ready; while true; do sleep 0.05; done";
    let command = client.background(&session, json!({"command": line})).await;
    until_written(&client, &command, "ready").await;
    let signal = |name: &str| client.post(&format!("{command}/signal"), json!({"signal": name}));
    for wrong in ["", "INT", "SIGNONE", "2"] {
        signal(wrong).problem(400, "bad_body").await;
    }
    signal("SIGINT").with(204).await;
    let view = client.ended(&command).await;
    assert_eq!(
        (&view["exit_code"], &view["stdout"]["text"]),
        (&json!(7), &json!("ready\ncaught\n"))
    );
    world.ends().await;
}

/// The command of a client that hangs up is killed, streamed or not; one in the background is not.
#[tokio::test]
async fn a_command_ends_with_its_client() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let lasting = client
        .background(&session, json!({"argv": ["sleep", "1000"]}))
        .await;

    let mut events = client
        .command_stream(&session, "echo here; sleep 1000")
        .await;
    while events.next().await.unwrap().kind != "output" {}
    drop(events);
    soon(async || taken(&world, "commands").await == 1).await;

    let body = json!({"command": "echo $$; sleep 1000"});
    let waiting = client.post(&format!("{session}/commands"), body);
    let waiting = tokio::spawn(waiting.send());
    soon(async || taken(&world, "commands").await == 2).await;
    waiting.abort();
    soon(async || taken(&world, "commands").await == 1).await;
    let listed = client
        .get(&format!("{session}/commands"))
        .json_with(200)
        .await;
    let listed = listed["commands"].as_array().unwrap();
    let ends: Vec<_> = listed.iter().map(|one| one.get("signal")).collect();
    let killed = json!("SIGKILL");
    assert_eq!(ends, [None, Some(&killed), Some(&killed)], "{listed:#?}");
    assert_eq!(
        client.get(&lasting).json_with(200).await["state"],
        "running"
    );
    world.ends().await;
}

/// K6: wrong and oversize bodies, and what can't be started. Nothing runs, and no permit is lost.
#[tokio::test]
async fn wrong_commands_are_refused() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/commands");
    let size = json!({"rows": 1, "columns": 1});
    for wrong in [
        json!({}),
        json!({"command": "true", "argv": ["true"]}),
        json!({"command": 1}),
        json!({"argv": "true"}),
        json!({"command": "true", "shell": "bash"}),
        json!({"command": "true", "timeout_ms": 0}),
        json!({"command": "true", "timeout_ms": -1}),
        json!({"command": "true", "variables": {"A": 1}}),
        json!({"command": "true", "terminal": {"rows": 0, "columns": 1}}),
        json!({"command": "true", "terminal": {"rows": 70000, "columns": 1}}),
        json!({"command": "true", "terminal": size, "input": "x"}),
        json!({"command": "true", "directory": "a".repeat(4097)}),
        json!({"command": "true", "directory": "a\u{0}b"}),
    ] {
        client.post(&path, wrong).problem(400, "bad_body").await;
    }
    for (wrong, said) in [
        (json!({"argv": []}), "no program"),
        (json!({"argv": [""]}), "no program"),
        (json!({"argv": ["no-such-program"]}), "no-such-program"),
        (json!({"argv": ["/workspace"]}), "Permission denied"),
        (
            json!({"command": "true", "directory": "nowhere"}),
            "/workspace/nowhere",
        ),
        (json!({"command": "a\u{0}b"}), "NUL"),
        (
            json!({"command": "true", "variables": {"A=B": ""}}),
            "equals sign",
        ),
        (json!({"command": "x".repeat(600 << 10)}), "512 KiB"),
    ] {
        let problem = client
            .post(&path, wrong)
            .problem(422, "command_not_started");
        let problem = problem.await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(said), "{detail}");
    }
    let large = json!({"command": "x".repeat(9 << 20)});
    client
        .post(&path, large)
        .problem(413, "body_too_large")
        .await;
    for pid in ["1", "99999", "x", "-1", "99999999999"] {
        client
            .get(&format!("{path}/{pid}"))
            .problem(404, "command_not_found")
            .await;
    }
    let command = client.background(&session, json!({"argv": ["cat"]})).await;
    for wrong in [
        json!({"text": "a", "base64": "YQ=="}),
        json!({"base64": "!"}),
        json!({"other": 1}),
    ] {
        let input = client.post(&format!("{command}/input"), wrong);
        input.problem(400, "bad_body").await;
    }
    client.delete(&command).with(204).await;
    until_free(&world, "commands").await;
    assert_eq!(
        client.command(&session, json!({"command": "true"})).await["exit_code"],
        0
    );
    world.ends().await;
}

/// K1: commands of another tenant are not there, whatever is asked of them.
#[tokio::test]
async fn another_tenant_reaches_no_command() {
    let world = world().await;
    let (client, other) = (world.client("a").await, world.client("b").await);
    let session = client.session().await;
    let body = json!({"argv": ["cat"], "terminal": {"rows": 5, "columns": 20}});
    let command = client.background(&session, body).await;
    for request in [
        other.get(&format!("{session}/commands")),
        other.post(&format!("{session}/commands"), json!({"command": "true"})),
        other.get(&command),
        other.get(&format!("{command}/events")),
        other.get(&format!("{command}/terminal")),
        other.post(&format!("{command}/input"), json!({"text": "x"})),
        other.post(&format!("{command}/signal"), json!({"signal": "SIGKILL"})),
        other.post(
            &format!("{command}/resize"),
            json!({"rows": 1, "columns": 1}),
        ),
        other.delete(&command),
    ] {
        request.problem(404, "session_not_found").await;
    }
    let bearer = format!("Bearer {}", other.key.text);
    let refused = open(&world, &command, &[("authorization", &bearer)]).await;
    assert_eq!(refused.err().unwrap()["code"], "session_not_found");
    // A session of one's own does not lead to the command of another one, either.
    let own = other.session().await;
    let pid = command.rsplit('/').next().unwrap();
    other
        .get(&format!("{own}/commands/{pid}"))
        .problem(404, "command_not_found")
        .await;
    let view = client.get(&command).json_with(200).await;
    assert_eq!(
        (&view["state"], &view["terminal"]["text"]),
        (&json!("running"), &json!(""))
    );
    world.ends().await;
}

/// Commands of a tenant at once are bounded, and a quota of CPU time or output counts them.
#[tokio::test]
async fn commands_are_within_the_quotas_of_their_tenant() {
    let world = world().await;
    let client = world.client("a").await;
    let sessions = [client.session().await, client.session().await];
    let sleep = || json!({"argv": ["sleep", "1000"]});
    for session in sessions.iter().cycle().take(128) {
        client.background(session, sleep()).await;
    }
    client
        .post(&format!("{}/commands", sessions[0]), sleep())
        .problem(429, "too_many_commands")
        .await;
    for session in sessions {
        client.delete(&session).with(204).await;
    }
    until_free(&world, "commands").await;
    let few = json!({"limits": {"processes": 10}});
    let few = client.post("/v1/sessions", few).json_with(201).await;
    let few = format!("/v1/sessions/{}/commands", few["id"].as_str().unwrap());
    let problem = loop {
        let asked = json!({"argv": ["sleep", "1000"], "background": true});
        let response = client.post(&few, asked).send().await.unwrap();
        if response.status() != 201 {
            break response.json::<Value>().await.unwrap();
        }
    };
    assert_eq!(problem["code"], "command_not_started");
    assert_eq!(
        problem["detail"],
        "the session has its maximum of processes"
    );

    let session = client.session().await;
    let admin = world.admin(&[belljar_server::Scope::Admin]).await;
    let used = async || {
        let tenant = admin.get("/v1/admin/tenants/a").json_with(200).await;
        let used = |name: &str| tenant["used"][name].as_u64().unwrap_or_default();
        (used("cpu_ms"), used("output_bytes"))
    };
    let (cpu, output) = used().await;
    let line = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done";
    client.command(&session, json!({"command": line})).await;
    let (more_cpu, more_output) = used().await;
    assert_eq!(more_output - output, 5);
    assert!(more_cpu - cpu > 20, "{cpu} {more_cpu}");
    let quotas = json!({"quotas": {"output_bytes": 1}});
    admin
        .post("/v1/admin/tenants/a/quotas", quotas)
        .with(200)
        .await;
    client
        .post(&format!("{session}/commands"), json!({"command": "true"}))
        .problem(429, "quota_exceeded")
        .await;
    world.ends().await;
}

/// A running command keeps its session from hibernating. One that is lost with it is still listed, and the next one
/// wakes the session.
#[tokio::test]
async fn a_command_keeps_its_session_awake() {
    let world = world_with(options(|options| {
        options.session.hibernate_after = Some(Duration::from_secs(1));
    }))
    .await;
    let client = world.client("a").await;
    let session = client.session().await;
    let command = client
        .background(&session, json!({"command": "sleep 3; echo done"}))
        .await;
    assert_eq!(client.ended(&command).await["stdout"]["text"], "done\n");
    assert_eq!(client.get(&session).json_with(200).await["state"], "awake");

    let command = client
        .background(&session, json!({"argv": ["sleep", "1000"]}))
        .await;
    client
        .post(&format!("{session}/hibernate"), json!({}))
        .with(200)
        .await;
    soon(async || client.get(&command).json_with(200).await["state"] == "lost").await;
    until_free(&world, "commands").await;
    let view = client.get(&command).json_with(200).await;
    assert!(
        view["lost_because"]
            .as_str()
            .unwrap()
            .contains("hibernated"),
        "{view:#}"
    );
    client
        .post(&format!("{command}/input"), json!({"text": "x"}))
        .problem(404, "command_not_found")
        .await;
    assert_eq!(
        client.get(&session).json_with(200).await["state"],
        "hibernated"
    );
    let view = client
        .command(&session, json!({"command": "echo awake"}))
        .await;
    assert_eq!(view["stdout"]["text"], "awake\n");
    world.ends().await;
}

/// A service that stops lets commands in the foreground end, ends the others, and says so.
#[tokio::test]
async fn a_service_that_stops_ends_commands() {
    let mut world = world().await;
    let client = world.client("a").await;
    let (session, busy) = (client.session().await, client.session().await);
    let lasting = client
        .background(&session, json!({"command": "echo here; sleep 1000"}))
        .await;
    let watching = Events::from_request(client.get(&format!("{lasting}/events"))).await;
    let mut waiting = client.command_stream(&busy, "sleep 1; echo done").await;
    waiting.next().await.unwrap();
    world.stop.take().unwrap().send(()).unwrap();
    let told = watching.rest().await;
    let (text, end) = whole(&told);
    assert_eq!(text, "here\n");
    assert_eq!(
        *end,
        json!({"type": "end", "state": "lost", "timed_out": false, "lost_because": "the service stopped"})
    );
    let told = waiting.rest().await;
    let (text, end) = whole(&told);
    assert_eq!((text.as_str(), &end["exit_code"]), ("done\n", &json!(0)));
    let ended = tokio::time::timeout(Duration::from_secs(20), world.task).await;
    ended.expect("the service did not stop").unwrap().unwrap();

    drop(world.server);
    let world = world_in(world.data, options(|_| {})).await;
    let client = world.client_by(client.key.clone());
    let outcome = client.run(&session, "1").await;
    let notes = outcome["notes"].to_string();
    assert!(
        notes.contains("running commands, ended when the service stopped: 1"),
        "{notes}"
    );
    world.ends().await;
}

/// A place for the log of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Values of variables are in no log, audit event, view, event or file of the service.
#[tokio::test]
async fn variables_are_not_to_be_found() {
    const SECRET: &str = "s3cret-of-the-test";
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let variables = json!({"TOKEN": SECRET});
    let body = json!({"command": "test -n \"$TOKEN\" && echo set", "variables": variables});
    let view = client.command(&session, body).await;
    assert_eq!(view["stdout"]["text"], "set\n");
    let mut told = view.to_string();
    for argv in [json!(["cat"]), json!(["no-such-program"])] {
        let body = json!({"argv": argv, "variables": variables, "background": true});
        let request = client.post(&format!("{session}/commands"), body);
        told += &request.send().await.unwrap().text().await.unwrap();
    }
    told += &client
        .get(&format!("{session}/commands"))
        .json_with(200)
        .await
        .to_string();
    let admin = world.admin(&[belljar_server::Scope::Admin]).await;
    told += &admin
        .get("/v1/admin/audit")
        .json_with(200)
        .await
        .to_string();
    told += &world.metrics().await;
    let data = world.ends().await;
    drop(guard);
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("command ended"), "{logged}");
    assert!(!told.contains(SECRET) && !logged.contains(SECRET));
    let mut directories = vec![data.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
                continue;
            }
            // A database that is closed just now removes its files.
            let contents = std::fs::read(entry.path()).unwrap_or_default();
            let mut windows = contents.windows(SECRET.len());
            assert!(
                !windows.any(|window| window == SECRET.as_bytes()),
                "{entry:?}"
            );
        }
    }
}

/// A terminal over a WebSocket, and what it has shown.
pub(crate) struct Terminal {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    shown: String,
}

/// What the server answers to a request for the terminal of a command.
async fn open(
    world: &World,
    command: &str,
    headers: &[(&'static str, &str)],
) -> Result<Terminal, Value> {
    let url = format!("ws://{}{command}/terminal", world.address);
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match connect_async(request).await {
        Ok((socket, _)) => Ok(Terminal {
            socket,
            shown: String::new(),
        }),
        Err(Error::Http(response)) => {
            let body = response.body().clone().unwrap_or_default();
            Err(serde_json::from_slice(&body).unwrap())
        }
        Err(error) => panic!("{error}"),
    }
}

impl Terminal {
    pub(crate) async fn open(world: &World, client: &Client, command: &str) -> Self {
        let key = format!("Bearer {}", client.key.text);
        let opened = open(world, command, &[("authorization", &key)]).await;
        opened.unwrap_or_else(|problem| panic!("{problem:#}"))
    }

    pub(crate) async fn press(&mut self, keys: &str) {
        let keys = Message::binary(keys.as_bytes().to_vec());
        self.socket.send(keys).await.unwrap();
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "so that tests write `json!` without `&`"
    )]
    async fn say(&mut self, message: Value) {
        let message = Message::text(message.to_string());
        self.socket.send(message).await.unwrap();
    }

    /// The next JSON message, or the code of the close; output is shown meanwhile.
    async fn hear(&mut self) -> Result<Value, Option<u16>> {
        loop {
            match self.next().await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    async fn next(&mut self) -> Option<Result<Message, Error>> {
        let next = tokio::time::timeout(Duration::from_secs(20), self.socket.next());
        let next = next.await;
        let next = next.unwrap_or_else(|_| panic!("nothing after {:?}", self.shown));
        if let Some(Ok(Message::Binary(bytes))) = &next {
            self.shown.push_str(std::str::from_utf8(bytes).unwrap());
        }
        next
    }

    /// Waits until this is shown, and forgets what came before.
    pub(crate) async fn until(&mut self, wanted: &str) {
        while !self.shown.contains(wanted) {
            match self.next().await {
                Some(Ok(Message::Binary(_) | Message::Ping(_))) => {}
                other => panic!("{other:?} after {:?}", self.shown),
            }
        }
        let at = self.shown.find(wanted).unwrap() + wanted.len();
        self.shown.drain(..at);
    }
}

/// A shell in a terminal: resized, interrupted by Ctrl-C, left and found again, to its end.
#[tokio::test]
async fn a_terminal_is_used_and_found_again() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let body = json!({"argv": ["/bin/sh"], "terminal": {"rows": 30, "columns": 100}});
    let command = client.background(&session, body).await;
    let mut terminal = Terminal::open(&world, &client, &command).await;
    terminal.press("stty size\n").await;
    terminal.until("30 100\r\n").await;
    terminal
        .say(json!({"type": "resize", "rows": 12, "columns": 40}))
        .await;
    terminal.press("stty size\n").await;
    terminal.until("12 40\r\n").await;
    for wrong in [
        json!({"type": "resize", "rows": 0, "columns": 1}),
        json!({"type": "other"}),
        json!([]),
    ] {
        terminal.say(wrong).await;
        let refused = terminal.hear().await.unwrap();
        assert_eq!(
            (&refused["type"], &refused["problem"]["code"]),
            (&json!("refused"), &json!("bad_body"))
        );
    }
    terminal
        .press("echo be''gin; sleep 1000; echo nev''er\n")
        .await;
    terminal.until("begin\r\n").await;
    // The shell prints before it has started the program.
    soon(async || {
        let running = client.command(&session, json!({"command": "cat /proc/[0-9]*/comm"}));
        running.await["stdout"]["text"]
            .as_str()
            .unwrap()
            .contains("sleep")
    })
    .await;
    terminal.press("\u{3}").await;
    terminal.press("echo sti''ll\n").await;
    terminal.until("still\r\n").await;
    drop(terminal);

    // Also resized and written by requests, and shown from its beginning.
    let size = json!({"rows": 7, "columns": 70});
    client
        .post(&format!("{command}/resize"), size)
        .with(204)
        .await;
    let input = json!({"text": "stty size; echo a''gain\n"});
    client
        .post(&format!("{command}/input"), input)
        .with(204)
        .await;
    let mut terminal = Terminal::open(&world, &client, &command).await;
    terminal.until("30 100\r\n").await;
    terminal.until("still\r\n").await;
    terminal.until("7 70\r\nagain\r\n").await;
    terminal.press("exit 4\n").await;
    let end = terminal.hear().await.unwrap();
    assert_eq!(
        end,
        json!({"type": "end", "state": "ended", "exit_code": 4, "timed_out": false})
    );
    assert_eq!(terminal.hear().await, Err(Some(1000)));
    let view = client.get(&command).json_with(200).await;
    let text = view["terminal"]["text"].as_str().unwrap();
    assert!(
        text.contains("still\r\n") && !text.contains("never\r\n"),
        "{text}"
    );
    assert!(view.get("stdout").is_none(), "{view:#}");
    // The whole of it again, and the end.
    let mut terminal = Terminal::open(&world, &client, &command).await;
    assert_eq!(terminal.hear().await.unwrap(), end);
    assert_eq!(terminal.shown, text);
    until_free(&world, "streams").await;
    world.ends().await;
}

/// K9: who may not have a terminal gets none; a revoked key closes it, and its command keeps running.
#[tokio::test]
async fn a_terminal_is_for_its_tenant() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let body = json!({"argv": ["cat"], "terminal": {"rows": 5, "columns": 20}});
    let command = client.background(&session, body).await;
    let plain = client.background(&session, json!({"argv": ["cat"]})).await;
    let bearer = format!("Bearer {}", client.key.text);
    let key = format!("belljar, belljar.key.{}", client.key.text);
    let opened = open(&world, &command, &[("sec-websocket-protocol", &key)]).await;
    let mut terminal = opened.unwrap_or_else(|problem| panic!("{problem:#}"));
    let refused = async |command: &str, headers: &[(&'static str, &str)]| {
        let refused = open(&world, command, headers).await;
        refused.err().unwrap()["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused(&command, &[]).await, "unauthorized");
    let origin = [
        ("authorization", bearer.as_str()),
        ("origin", "https://evil.example"),
    ];
    assert_eq!(refused(&command, &origin).await, "wrong_origin");
    let bearer = [("authorization", bearer.as_str())];
    assert_eq!(refused(&plain, &bearer).await, "command_refused");
    client
        .get(&format!("{command}/terminal"))
        .problem(426, "upgrade_needed")
        .await;
    let mut large = Terminal::open(&world, &client, &command).await;
    let _ = large
        .socket
        .send(Message::binary(vec![b'x'; 100_000]))
        .await;
    assert!(large.hear().await.is_err());

    terminal.press("keys\n").await;
    terminal.until("keys\r\nkeys\r\n").await;
    let other = world.client("a").await;
    let tenants = world.server.tenants();
    tenants.revoke(&client.key.info.prefix).await.unwrap();
    assert_eq!(terminal.hear().await, Err(Some(1008)));
    assert_eq!(other.get(&command).json_with(200).await["state"], "running");
    world.ends().await;
}
