//! Traces and metrics, as a collector gets them.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use belljar_test_model::{Scripted, ScriptedModel};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use rustix::process::Signal;

use crate::run::code;
use crate::serve::{ask_with, body, listens_on, stop, text_of};
use crate::support::{BELLJAR, Scratch, bare};

/// A path, and what was sent there.
type Sent = (String, Vec<u8>);

/// A collector that keeps what it is sent.
struct Collector {
    address: String,
    taken: Arc<Mutex<Vec<Sent>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let taken = Arc::default();
        let keeps = Arc::clone(&taken);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let keeps = Arc::clone(&keeps);
                std::thread::spawn(move || take(&stream.unwrap(), &keeps));
            }
        });
        Self { address, taken }
    }

    fn sent_to<T: prost::Message + Default>(&self, path: &str) -> Vec<T> {
        let taken = self.taken.lock().unwrap();
        let of_path = taken.iter().filter(|(to, _)| to == path);
        of_path
            .map(|(_, body)| T::decode(&body[..]).unwrap())
            .collect()
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.sent_to::<ExportTraceServiceRequest>("/v1/traces");
        let resources = requests
            .into_iter()
            .flat_map(|request| request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    fn bytes(&self) -> String {
        let taken = self.taken.lock().unwrap();
        let bodies = taken.iter().map(|(_, body)| String::from_utf8_lossy(body));
        bodies.collect()
    }
}

/// Answers the requests of one connection.
fn take(stream: &TcpStream, keeps: &Mutex<Vec<(String, Vec<u8>)>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("post ") {
                rest.split(' ').next().unwrap().clone_into(&mut path);
            } else if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            } else if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        keeps.lock().unwrap().push((path, body));
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let mut stream = stream;
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

fn text(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|pair| pair.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn span<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let one = found.next().unwrap_or_else(|| {
        let names: Vec<_> = spans.iter().map(|span| &span.name).collect();
        panic!("no {name} in {names:?}")
    });
    assert!(found.next().is_none(), "{name} is there twice");
    one
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Lets a service do a run and a cell; how it ended, with its log.
fn serve_a_run(variables: &[(&str, &str)]) -> String {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([
        code("print('secret of the code')"),
        Scripted::text("FINAL: secret of the model"),
    ])
    .unwrap();
    let create = ["keys", "create", "--data", "service"];
    let key = scratch.belljar(&create).exits_with(0).stdout;
    let key = key.trim();
    let mut child = scratch
        .prepare(BELLJAR)
        .env("BELLJAR_BASE_URL", model.base_url())
        .env("BELLJAR_LOG_FORMAT", "json")
        .env("BELLJAR_LOG", "info")
        .envs(variables.iter().copied())
        .args(["serve", "--env", bare(), "--data", "service"])
        .args(["--listen", "127.0.0.1:0", "--model", "llamacpp/scripted"])
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let address = listens_on(&mut stderr);
    // It would wait for a reader.
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        log
    });
    let ask = |method: &str, path: &str, body: &str| {
        // The header of another service, whose trace it is.
        let traced = format!("{key}\r\ntraceparent: 00-{TRACE}-00f067aa0ba902b7-01");
        ask_with(&address, &traced, method, path, body)
    };
    let made = ask("POST", "/v1/sessions", "{}");
    let session = text_of(body(&made), "id");
    let ran = ask(
        "POST",
        &format!("/v1/sessions/{session}/cells"),
        r#"{"code": "1 / 0"}"#,
    );
    assert!(ran.contains("ZeroDivisionError"), "{ran}");
    let created = ask("POST", "/v1/runs", r#"{"task": "secret of the task"}"#);
    let run = format!("/v1/runs/{}", text_of(body(&created), "id"));
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let shown = ask("GET", &run, "");
        if text_of(body(&shown), "state") == "answered" {
            break;
        }
        assert!(Instant::now() < until, "{shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
    stop(&scratch, child, Signal::TERM).exits_with(0);
    log.join().unwrap()
}

#[test]
fn runs_and_cells_are_traced_without_what_they_say() {
    let collector = Collector::start();
    let log = serve_a_run(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address)]);
    let spans = collector.spans();
    let agent = span(&spans, "invoke_agent belljar");
    assert_eq!(
        text(agent, "gen_ai.operation.name").unwrap(),
        "invoke_agent"
    );
    assert_eq!(text(agent, "belljar.run.exit_reason").unwrap(), "answered");
    let run = text(agent, "gen_ai.conversation.id").unwrap();
    let request = span(&spans, "POST /v1/runs");
    assert_eq!(agent.parent_span_id, request.span_id);
    assert_eq!(text(request, "http.response.status_code").unwrap(), "202");
    let mut trace = String::new();
    for byte in &request.trace_id {
        write!(trace, "{byte:02x}").unwrap();
    }
    assert_eq!(trace, TRACE);
    let chats: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "chat scripted")
        .collect();
    assert_eq!(chats.len(), 2);
    for chat in chats {
        assert_eq!(chat.parent_span_id, agent.span_id);
        assert_eq!(text(chat, "gen_ai.conversation.id").unwrap(), run);
        assert!(
            text(chat, "gen_ai.usage.input_tokens").is_some(),
            "{chat:#?}"
        );
        assert!(
            text(chat, "gen_ai.response.finish_reasons")
                .unwrap()
                .contains("stop")
        );
    }
    let tool = span(&spans, "execute_tool python");
    assert_eq!(tool.parent_span_id, agent.span_id);
    assert_eq!(text(tool, "belljar.outcome.status").unwrap(), "success");
    let cell = span(&spans, "cell");
    assert_eq!(text(cell, "belljar.outcome.status").unwrap(), "failure");
    let cells = span(&spans, "POST /v1/sessions/{id}/cells");
    assert_eq!(cell.parent_span_id, cells.span_id);
    assert_eq!(
        text(cell, "belljar.session.id"),
        text(cells, "belljar.session.id")
    );
    let started = span(&spans, "start_session");
    assert_eq!(
        started.parent_span_id,
        span(&spans, "POST /v1/sessions").span_id
    );
    assert!(!collector.bytes().contains("secret"));

    // E11: what is measured has no ids.
    let requests = collector.sent_to::<ExportMetricsServiceRequest>("/v1/metrics");
    let last = requests.last().unwrap();
    let metrics = &last.resource_metrics[0].scope_metrics[0].metrics;
    let mut names: Vec<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "belljar.cells",
            "belljar.sessions",
            "gen_ai.client.operation.duration",
            "gen_ai.client.token.usage"
        ]
    );
    let mut keys: Vec<&str> = Vec::new();
    for metric in metrics {
        let pairs: Vec<_> = match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => sum
                .data_points
                .iter()
                .flat_map(|point| &point.attributes)
                .collect(),
            Data::Histogram(histogram) => {
                let points = histogram.data_points.iter();
                points.flat_map(|point| &point.attributes).collect()
            }
            other => panic!("{other:?}"),
        };
        keys.extend(pairs.iter().map(|pair| pair.key.as_str()));
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(
        keys,
        [
            "belljar.outcome.status",
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.token.type"
        ]
    );

    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let answered = lines.filter(|line| line["message"] == "answered");
    for line in answered {
        assert_eq!(line["trace_id"], TRACE, "{line}");
        assert!(line["span_id"].is_string(), "{line}");
        // Numbers are numbers, and it is known who asked.
        assert!(
            line["duration_us"].is_u64() && line["status"].is_u64(),
            "{line}"
        );
        assert_eq!(line["span"]["client"], "127.0.0.1", "{line}");
    }
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn what_is_said_is_traced_for_who_asks_for_it() {
    let collector = Collector::start();
    let log = serve_a_run(&[
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            &format!("{}/v1/traces", collector.address),
        ),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
        ("OTEL_SERVICE_NAME", "named otherwise"),
    ]);
    let spans = collector.spans();
    let chats = spans.iter().filter(|span| span.name == "chat scripted");
    let said: Vec<_> = chats
        .map(|chat| {
            (
                text(chat, "gen_ai.input.messages"),
                text(chat, "gen_ai.output.messages"),
            )
        })
        .collect();
    let has = |text: &Option<String>, part: &str| text.as_ref().unwrap().contains(part);
    assert!(
        said.iter()
            .all(|(input, _)| has(input, "secret of the task")),
        "{said:#?}"
    );
    assert!(
        said.iter()
            .any(|(_, output)| has(output, "secret of the model")),
        "{said:#?}"
    );
    let tool = span(&spans, "execute_tool python");
    assert!(has(
        &text(tool, "gen_ai.tool.call.arguments"),
        "secret of the code"
    ));
    assert!(has(
        &text(tool, "gen_ai.tool.call.result"),
        "secret of the code"
    ));
    assert!(collector.bytes().contains("named otherwise"));
    assert!(
        collector
            .sent_to::<ExportMetricsServiceRequest>("/v1/metrics")
            .is_empty()
    );
    assert!(!log.contains("secret"), "{log}");
}

/// What the code of a cell calls is within the cell.
#[test]
fn calls_of_code_are_traced_within_their_cell() {
    let scratch = Scratch::new();
    let collector = Collector::start();
    let model = ScriptedModel::start([
        code("n = tools.branch([0, 7])\nprint(42 // n)"),
        Scripted::text("FINAL: It is 6."),
    ])
    .unwrap();
    let child = scratch
        .prepare(BELLJAR)
        .env("BELLJAR_RUNS_DIR", scratch.path("runs"))
        .env("BELLJAR_BASE_URL", model.base_url())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address)
        .args(["run", "--env", bare(), "--model", "llamacpp/scripted"])
        .args(["--branches", "2", "--check", "n > 5", "Divide."])
        .stdin(std::process::Stdio::null())
        .spawn()
        .unwrap();
    scratch.finish(child).exits_with(0).prints("It is 6.\n");
    let spans = collector.spans();
    let agent = span(&spans, "invoke_agent belljar");
    let python = span(&spans, "execute_tool python");
    let branch = span(&spans, "execute_tool branch");
    assert_eq!(python.parent_span_id, agent.span_id);
    assert_eq!(branch.parent_span_id, python.span_id);
}

/// A collector that is not there, or never answers, stops nothing and is told of once.
#[test]
fn a_dead_collector_stops_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
    let (silent_at, gone_at) = (at(&silent), at(&gone));
    drop(gone);
    let log = serve_a_run(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &gone_at)]);
    let words = "cannot send to the OpenTelemetry collector";
    let told = |log: &str| log.lines().filter(|line| line.contains(words)).count();
    // Once for traces, once for metrics.
    assert!((1..=2).contains(&told(&log)), "{log}");
    serve_a_run(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &silent_at)]);
}
