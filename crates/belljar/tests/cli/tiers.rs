//! Whole programs on one isolation tier: the agent, the service and MCP, each of which must say the tier that it had.
//! `.ci/tier-runs` runs them on each tier.

use std::io::{BufRead as _, BufReader};
use std::process::Command;

use belljar_test_model::{Scripted, ScriptedModel};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::mcp::Client;
use crate::run::code;
use crate::serve::{ask_with, start, stop};
use crate::support::{BELLJAR, Ended, Scratch, bare};

/// The tier under test: gVisor, or an environment of an image, which is created here.
struct Tier {
    scratch: Scratch,
    name: &'static str,
    options: Vec<&'static str>,
}

impl Tier {
    fn new() -> Self {
        let scratch = Scratch::new();
        let engine = std::env::var("BELLJAR_TEST_ENGINE").unwrap();
        if engine == "gvisor" {
            return Self {
                scratch,
                name: "gvisor",
                options: vec!["--env", bare(), "--walls", "gvisor"],
            };
        }
        let image = std::env::var("BELLJAR_TEST_IMAGE").unwrap();
        let runtime = std::env::var("BELLJAR_TEST_RUNTIME").ok();
        let mut arguments = vec!["env", "create", "tier", "--image", &image];
        arguments.extend(["--docker", &engine]);
        if let Some(runtime) = &runtime {
            arguments.extend(["--runtime", runtime]);
        }
        let tier = Self {
            scratch,
            name: "container",
            options: vec!["--env", "tier"],
        };
        tier.belljar(&arguments).exits_with(0);
        tier
    }

    /// `belljar` with the environments and runs of this test, and the certificates of the engine.
    fn command(&self) -> Command {
        let mut command = self.scratch.prepare(BELLJAR);
        command.env("BELLJAR_RUNS_DIR", self.scratch.path("runs"));
        command.env_remove("BELLJAR_MODEL");
        if self.name == "container" {
            command.env("BELLJAR_DATA_DIR", self.scratch.path("data"));
        }
        if let Some(certificates) = std::env::var_os("BELLJAR_TEST_CERTIFICATES") {
            command.env("DOCKER_CERT_PATH", certificates);
        }
        command
    }

    fn belljar(&self, arguments: &[&str]) -> Ended {
        let mut command = self.command();
        let child = command.stdin(std::process::Stdio::null()).args(arguments);
        self.scratch.finish(child.spawn().unwrap())
    }
}

#[test]
#[ignore = "needs an isolation tier: .ci/tier-runs"]
fn tier_of_an_agent() {
    let tier = Tier::new();
    let model = ScriptedModel::start([
        code("print('sum', 20 + 22)"),
        Scripted::text("FINAL: The sum is 42."),
    ]);
    let url = model.as_ref().unwrap().base_url();
    let fixed = ["run", "--model", "llamacpp/scripted", "--base-url", &url];
    let run = [&fixed[..], &tier.options, &["Sum."]].concat();
    let ended = tier.belljar(&run).exits_with(0);
    ended.prints("The sum is 42.\n");
    let listed = tier.belljar(&["runs", "list"]).exits_with(0);
    let id = listed.stdout.split_whitespace().next().unwrap();
    let events = tier.belljar(&["runs", "show", "--json", id]).lines();
    let mut cells = events
        .iter()
        .filter_map(|event| event.pointer("/result/cell"));
    let cell = cells.next().unwrap_or_else(|| panic!("{events:#?}"));
    let hash = cell["outcome"]["hash"].as_str().unwrap();
    let (folder, name) = hash.split_at(2);
    let blob = tier.scratch.path("runs/blobs").join(folder).join(name);
    let outcome = std::fs::read(blob).unwrap();
    let outcome: Value = serde_json::from_slice(&outcome).unwrap();
    assert_eq!(outcome["walls"], tier.name, "{outcome:#}");
}

#[test]
#[ignore = "needs an isolation tier: .ci/tier-runs"]
fn tier_of_a_service() {
    let tier = Tier::new();
    let mut command = tier.command();
    command.arg("serve").args(&tier.options);
    command.args(["--data", "service", "--listen", "127.0.0.1:0"]);
    let (mut child, _stderr, address) = start(command);
    let mut key = String::new();
    let mut stdout = BufReader::new(child.stdout.as_mut().unwrap());
    stdout.read_line(&mut key).unwrap();
    let ask = |method: &str, path: &str, body: Value| -> Value {
        let answer = ask_with(&address, key.trim(), method, path, &body.to_string());
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {answer}"))
    };
    let me = ask("GET", "/v1/me", json!({}));
    assert_eq!(me["isolation"][0]["name"], tier.name, "{me:#}");
    let session = ask("POST", "/v1/sessions", json!({"isolation": tier.name}));
    assert_eq!(session["isolation"], tier.name, "{session:#}");
    let cells = format!("/v1/sessions/{}/cells", session["id"].as_str().unwrap());
    let outcome = ask("POST", &cells, json!({"code": "print(6 * 7)"}));
    assert_eq!(outcome["walls"], tier.name, "{outcome:#}");
    assert_eq!(outcome["stdout"]["text"], "42\n", "{outcome:#}");
    stop(&tier.scratch, child, Signal::TERM).exits_with(0);
}

#[test]
#[ignore = "needs an isolation tier: .ci/tier-runs"]
fn tier_over_mcp() {
    let tier = Tier::new();
    let mut command = tier.command();
    command.arg("mcp").args(&tier.options);
    let name = tier.name;
    let mut client = Client::start_by(tier.scratch, command);
    client.initialize(&json!({}));
    let made = client.call("create_session", &json!({"isolation": name}));
    let id = &made["structuredContent"]["session_id"];
    let cell = json!({"code": "print(6 * 7)", "session_id": id});
    let ran = client.call("run_python", &cell);
    let outcome = &ran["structuredContent"];
    assert_eq!(outcome["walls"], name, "{ran:#}");
    assert_eq!(outcome["stdout"]["text"], "42\n", "{ran:#}");
    drop(client.input.take());
    client.ends();
}
