//! `belljar acp` as an editor sees it that writes lines by hand, with a scripted model server. With
//! clients of others: `.ci/acp`.

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use belljar_test_model::{Scripted, ScriptedModel};
use serde_json::{Value, json};

use crate::mcp::Client;
use crate::run::{belljar, code};
use crate::support::{BELLJAR, Scratch, bare};

/// An editor: what it does with the requests of the agent, and what it has heard.
struct Editor {
    client: Client,
    session: String,
    /// Answers to `session/request_permission`, in order.
    permissions: Vec<Value>,
    /// Updates and requests of the agent.
    heard: Vec<Value>,
    next: u64,
}

fn chosen(option: &str) -> Value {
    json!({"result": {"outcome": {"outcome": "selected", "optionId": option}}})
}

impl Editor {
    fn start(model: &ScriptedModel, more: &[&str]) -> Self {
        Self::start_in(Scratch::new(), model, more)
    }

    fn start_in(scratch: Scratch, model: &ScriptedModel, more: &[&str]) -> Self {
        let mut command = scratch.prepare(BELLJAR);
        command
            .env("BELLJAR_RUNS_DIR", scratch.path("runs"))
            .env_remove("BELLJAR_MODEL")
            .args(["acp", "--env", bare(), "--model", "llamacpp/scripted"])
            .args(["--base-url", &model.base_url()])
            .args(more);
        Self {
            client: Client::start_by(scratch, command),
            session: String::new(),
            permissions: Vec::new(),
            heard: Vec::new(),
            next: 0,
        }
    }

    /// An editor that reads and writes no files, with a session in its directory.
    fn open(model: &ScriptedModel, more: &[&str]) -> Self {
        let mut editor = Self::start(model, more);
        editor.initialize(&json!({}));
        editor.new_session();
        editor
    }

    fn initialize(&mut self, capabilities: &Value) {
        let about = self.result(
            "initialize",
            &json!({"protocolVersion": 2, "clientCapabilities": capabilities,
                "clientInfo": {"name": "test", "title": "Test Editor", "version": "7"}}),
        );
        assert_eq!(about["protocolVersion"], 1, "{about}");
        assert_eq!(about["agentInfo"]["name"], "belljar");
        assert_eq!(about["agentCapabilities"]["loadSession"], true);
        let sessions = json!({"list": {}, "close": {}, "resume": {}});
        let capable = &about["agentCapabilities"]["sessionCapabilities"];
        assert_eq!(*capable, sessions);
    }

    fn directory(&self) -> String {
        let path = self.client.scratch.path("");
        path.to_str().unwrap().trim_end_matches('/').to_owned()
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}/{name}", self.directory())
    }

    fn new_session(&mut self) -> Value {
        let opened = self.result(
            "session/new",
            &json!({"cwd": self.directory(), "mcpServers": []}),
        );
        opened["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut self.session);
        opened
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.client
            .send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message of the agent. Its requests are answered.
    fn hear(&mut self) -> Value {
        let message = self.client.answer();
        let (method, id) = (message["method"].clone(), message["id"].clone());
        if method.is_null() {
            return message;
        }
        self.heard.push(message["params"].clone());
        let mut answer = match method.as_str().unwrap() {
            "session/update" => return message,
            "session/request_permission" => self.permissions.remove(0),
            "fs/read_text_file" => json!({"result": {"content": "20\n22\nunsaved\n"}}),
            "fs/write_text_file" => json!({"result": {}}),
            other => panic!("{other}"),
        };
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = id;
        self.client.send(&answer);
        message
    }

    /// The answer to a request.
    fn wait(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear();
            if message["method"].is_null() && message["id"] == id {
                return message;
            }
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.wait(id)
    }

    fn result(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// The message of a refusal.
    fn refused(&mut self, method: &str, params: &Value) -> String {
        let answer = self.ask(method, params);
        let message = answer["error"]["message"].as_str();
        message.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn blocks(&self, blocks: &Value) -> Value {
        json!({"sessionId": self.session, "prompt": blocks})
    }

    /// Prompts, and returns why the turn ended.
    fn prompt(&mut self, text: &str) -> Value {
        self.prompt_with(&json!([{"type": "text", "text": text}]))
    }

    fn prompt_with(&mut self, blocks: &Value) -> Value {
        self.heard.clear();
        let params = self.blocks(blocks);
        self.result("session/prompt", &params)["stopReason"].clone()
    }

    /// Everything that the agent said in the last turn.
    fn said(&self) -> String {
        let updates = self.heard.iter().map(|heard| &heard["update"]);
        let chunks = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        chunks
            .filter_map(|chunk| chunk["content"]["text"].as_str())
            .collect()
    }

    /// The states of the calls of the last turn, in order.
    fn calls(&self) -> Vec<(String, String)> {
        let updates = self.heard.iter().map(|heard| &heard["update"]);
        let of = |value: &Value, usual: &str| value.as_str().unwrap_or(usual).to_owned();
        updates
            .filter(|update| update["toolCallId"].is_string())
            .filter(|update| update["status"].is_string() || update["sessionUpdate"] == "tool_call")
            .map(|update| {
                let id = of(&update["toolCallId"], "");
                let (_, id) = id.split_once(':').unwrap();
                (id.to_owned(), of(&update["status"], "pending"))
            })
            .collect()
    }

    fn end(mut self) {
        drop(self.client.input.take());
        self.client.ends();
    }
}

fn states(calls: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(id, status): &(&str, &str)| ((*id).to_owned(), (*status).to_owned());
    calls.iter().map(owned).collect()
}

/// A model that writes this code when it is asked for something now, and then answers.
fn model_with(first: &'static str) -> ScriptedModel {
    ScriptedModel::react(move |request| {
        let asked = request.json();
        let last = asked["messages"].as_array().unwrap().last().unwrap();
        if last.to_string().contains("now") {
            code(first)
        } else {
            Scripted::text("FINAL: Done.")
        }
    })
    .unwrap()
}

const RISKY: &str = "import os\nprint('it gave', os.system('exit 6') >> 8)";

/// A run, its follow-up, and the session again in another process: all from the journal.
#[test]
fn a_session_is_runs_that_continue_each_other() {
    let model = ScriptedModel::start([
        code("n = [int(line) for line in open('data/numbers.txt')]\nprint('sum', sum(n))\nwritten = open('sum.txt', 'w').write(str(sum(n)))"),
        Scripted::text("FINAL: The sum is 42."),
        code("print('twice', 2 * sum(n))"),
        Scripted::text("FINAL: Twice is 84."),
        code("print('again', 3 * sum(n), open('more.txt').read())"),
        Scripted::text("FINAL: Thrice is 126."),
    ])
    .unwrap();
    let mut editor = Editor::open(&model, &[]);
    let scratch = &editor.client.scratch;
    std::fs::create_dir(scratch.path("data")).unwrap();
    scratch.write("data/numbers.txt", "20\n22\n");
    let link =
        json!({"type": "resource_link", "name": "numbers", "uri": editor.uri("data/numbers.txt")});
    let ended = editor.prompt_with(&json!([{"type": "text", "text": "Sum "}, link]));
    assert_eq!(ended, "end_turn");
    let said = editor.said();
    assert!(said.starts_with("The sum is 42."), "{said}");
    assert!(
        said.contains("- 42: computed in cell 1 by `sum(n)` from "),
        "{said}"
    );
    let done = [
        ("1.0", "pending"),
        ("1.0", "in_progress"),
        ("1.0", "completed"),
    ];
    assert_eq!(editor.calls(), states(&done));
    let whole = json!(editor.heard).to_string();
    assert!(whole.contains("sum 42"), "{whole}");
    let session = editor.session.clone();
    let made = format!("runs/runs/{session}/artifacts/sum.txt");
    assert!(whole.contains(&editor.uri(&made)), "{whole}");
    assert_eq!(editor.client.scratch.read(&made), "42");

    assert_eq!(editor.prompt("And twice?"), "end_turn");
    assert!(
        editor.said().starts_with("Twice is 84."),
        "{}",
        editor.said()
    );
    let listed = editor.result("session/list", &json!({"cwd": editor.directory()}));
    let [info] = listed["sessions"].as_array().unwrap().as_slice() else {
        panic!("{listed}");
    };
    assert_eq!(info["sessionId"], session.as_str());
    assert_eq!(info["title"], "Sum `data/numbers.txt`");
    let none = editor.result("session/list", &json!({"cwd": "/nowhere"}));
    assert_eq!(none["sessions"], json!([]));
    let wrong = json!({"sessionId": "nothing", "cwd": editor.directory(), "mcpServers": []});
    assert!(
        editor
            .refused("session/load", &wrong)
            .contains("no such session")
    );

    // In the journal: who asked, and the two runs.
    drop(editor.client.input.take());
    editor.client.ends();
    let scratch = std::mem::replace(&mut editor.client.scratch, Scratch::new());
    let shown = belljar(&scratch, &["runs", "show", "--json", &session]);
    let shown = shown.exits_with(0).stdout;
    assert!(shown.contains("Test Editor 7"), "{shown}");

    let mut editor = Editor::start_in(scratch, &model, &[]);
    editor.initialize(&json!({}));
    let load = json!({"sessionId": session, "cwd": editor.directory(), "mcpServers": []});
    let loaded = editor.result("session/load", &load);
    assert_eq!(loaded["modes"]["currentModeId"], "risky");
    let users: Vec<&Value> = editor
        .heard
        .iter()
        .map(|heard| &heard["update"])
        .filter(|update| update["sessionUpdate"] == "user_message_chunk")
        .map(|update| &update["content"]["text"])
        .collect();
    assert_eq!(users, ["Sum `data/numbers.txt`", "And twice?"]);
    let said = editor.said();
    assert!(
        said.contains("The sum is 42.") && said.contains("Twice is 84."),
        "{said}"
    );
    assert_eq!(editor.calls().len(), 6);
    editor.session = session;
    // The variables are there, and a new file comes to them.
    let more =
        json!({"type": "resource", "resource": {"uri": editor.uri("more.txt"), "text": "new"}});
    let ended = editor.prompt_with(&json!([{"type": "text", "text": "Thrice, with "}, more]));
    assert_eq!(ended, "end_turn");
    let whole = json!(editor.heard).to_string();
    assert!(whole.contains("again 126 new"), "{whole}");
    let close = json!({"sessionId": editor.session});
    editor.result("session/close", &close);
    let params = editor.blocks(&json!([{"type": "text", "text": "x"}]));
    assert!(
        editor
            .refused("session/prompt", &params)
            .contains("no open session")
    );
    editor.end();
}

/// A prompt that runs no code leaves the variables, and its file, to the next one.
#[test]
fn a_prompt_without_code_takes_nothing_away() {
    let model = ScriptedModel::react(|request| {
        let asked = request.json();
        let last = asked["messages"].as_array().unwrap().last().unwrap();
        let last = last.to_string();
        // A follow-up names the prompts before it, too.
        let asks = |word: &str| last.contains(word);
        if asks("THIRD") {
            code("print('then', n + 1, open('more.txt').read())")
        } else if asks("FIRST") && !asks("SECOND") {
            code("n = 41\nprint(n)")
        } else {
            Scripted::text("FINAL: Done.")
        }
    })
    .unwrap();
    let mut editor = Editor::open(&model, &[]);
    assert_eq!(editor.prompt("FIRST"), "end_turn");
    let more =
        json!({"type": "resource", "resource": {"uri": editor.uri("more.txt"), "text": "new"}});
    let second = json!([{"type": "text", "text": "SECOND "}, more]);
    assert_eq!(editor.prompt_with(&second), "end_turn");
    assert_eq!(editor.calls(), []);
    assert_eq!(editor.prompt("THIRD"), "end_turn");
    let whole = json!(editor.heard).to_string();
    assert!(whole.contains("then 42 new"), "{whole}");
    editor.end();
}

/// Attack L4: only a clear yes lets code run, and the run continues without it.
#[test]
fn l4_a_person_decides_in_the_editor() {
    let model = model_with(RISKY);
    let mut editor = Editor::open(&model, &[]);
    editor.permissions = vec![chosen("accept")];
    assert_eq!(editor.prompt("Do it now."), "end_turn");
    let whole = json!(editor.heard).to_string();
    assert!(whole.contains("it gave 6"), "{whole}");
    let asked = editor
        .heard
        .iter()
        .find(|heard| heard["options"].is_array());
    let asked = asked.unwrap();
    let call = &asked["toolCall"];
    assert!(
        call["toolCallId"].as_str().unwrap().ends_with(":1.0"),
        "{call}"
    );
    let shown = call["content"][0]["content"]["text"].as_str().unwrap();
    for part in [
        "May this Python code run?",
        "processes: os.system",
        "   2 │ print('it gave'",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    assert_eq!(call["_meta"]["belljar.sha256"].as_str().unwrap().len(), 64);
    let kinds: Vec<&Value> = asked["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["kind"])
        .collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
    for no in [
        chosen("reject"),
        chosen("Accept"),
        json!({"result": {"outcome": {"outcome": "cancelled"}}}),
        json!({"result": {"outcome": "accept"}}),
        json!({"error": {"code": -32601, "message": "no such method"}}),
    ] {
        editor.permissions = vec![no.clone()];
        assert_eq!(editor.prompt("Again, do it now."), "end_turn");
        let whole = json!(editor.heard).to_string();
        assert!(!whole.contains("it gave 6"), "{no}: {whole}");
        assert_eq!(
            editor.calls(),
            states(&[("1.0", "pending"), ("1.0", "failed")]),
            "{no}"
        );
    }
    editor.end();
}

/// What a person chooses holds from the next run on.
#[test]
fn approvals_and_models_are_chosen_in_the_editor() {
    let model = model_with(RISKY);
    let mut editor = Editor::open(&model, &["--offer-model", "llamacpp/other"]);
    let session = editor.session.clone();
    let mode = |mode: &str| json!({"sessionId": session, "modeId": mode});
    let option =
        |id: &str, value: &str| json!({"sessionId": session, "configId": id, "value": value});
    editor.result("session/set_mode", &mode("never"));
    assert_eq!(editor.prompt("Do it now."), "end_turn");
    assert!(json!(editor.heard).to_string().contains("it gave 6"));
    let options = editor.result("session/set_config_option", &option("approvals", "always"));
    assert_eq!(
        options["configOptions"][1]["currentValue"], "always",
        "{options}"
    );
    let mode_now = editor.heard.last().unwrap();
    assert_eq!(mode_now["update"]["currentModeId"], "always");
    editor.permissions = vec![chosen("accept_rest")];
    assert_eq!(editor.prompt("Do it now."), "end_turn");
    assert!(editor.permissions.is_empty());
    editor.result(
        "session/set_config_option",
        &option("model", "llamacpp/other"),
    );
    editor.result("session/set_mode", &mode("never"));
    assert_eq!(editor.prompt("Do it now."), "end_turn");
    let asked = model.requests();
    let mut models: Vec<Value> = asked.iter().map(|it| it.json()["model"].clone()).collect();
    models.dedup();
    assert_eq!(models, ["scripted", "other"]);
    for (method, params, why) in [
        (
            "session/set_mode",
            mode("sometimes"),
            "no such approval policy",
        ),
        (
            "session/set_config_option",
            option("model", "openai/gpt-5"),
            "no such model here",
        ),
        (
            "session/set_config_option",
            option("colour", "red"),
            "no such option",
        ),
    ] {
        assert!(editor.refused(method, &params).contains(why));
    }
    editor.end();
}

/// A cell that never ends is stopped; so is a run whose editor goes away.
#[test]
fn a_turn_is_cancelled() {
    let model =
        ScriptedModel::react(|_| code("print('begun', flush=True)\nwhile True: pass")).unwrap();
    let mut editor = Editor::open(&model, &[]);
    let params = editor.blocks(&json!([{"type": "text", "text": "Wait."}]));
    let id = editor.send("session/prompt", &params);
    while !editor.hear().to_string().contains("begun\\n") {}
    let busy = editor.refused("session/prompt", &params);
    assert!(busy.contains("the session answers a prompt"), "{busy}");
    let begun = Instant::now();
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": editor.session}});
    editor.client.send(&cancel);
    let answer = editor.wait(id);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    // At once after the prompt, before anything began.
    let id = editor.send("session/prompt", &params);
    editor.client.send(&cancel);
    let answer = editor.wait(id);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    // The editor is gone.
    editor.send("session/prompt", &params);
    while !editor.hear().to_string().contains("begun\\n") {}
    drop(editor.client.input.take());
    editor.client.ends();
    let listed = belljar(&editor.client.scratch, &["runs", "list"]).stdout;
    assert!(!listed.contains("interrupted"), "{listed}");
    assert!(listed.matches("  ended ").count() >= 2, "{listed}");
}

/// Attack: no link, no `..` and no name leads out of the session's directory.
#[test]
fn files_are_those_below_the_directory() {
    let model = ScriptedModel::start([]).unwrap();
    let mut editor = Editor::open(&model, &[]);
    let outside = editor.client.scratch.0.path().join("secret");
    std::fs::write(&outside, "secret").unwrap();
    symlink(&outside, editor.client.scratch.path("link")).unwrap();
    symlink("..", editor.client.scratch.path("up")).unwrap();
    for (uri, why) in [
        (
            "file:///etc/passwd".to_owned(),
            "is not below the directory",
        ),
        (editor.uri("../secret"), "is not below the directory"),
        (editor.uri("%2e%2e/secret"), "is not below the directory"),
        (editor.uri("link"), "leads out of the directory"),
        (editor.uri("up/secret"), "leads out of the directory"),
        (editor.uri("missing"), "does not exist"),
        (editor.uri("up"), "leads out of the directory"),
    ] {
        let link = json!({"type": "resource_link", "name": "x", "uri": uri});
        let ended = editor.prompt_with(&json!([{"type": "text", "text": "Read "}, link]));
        assert_eq!(ended, "refusal", "{uri}");
        let said = editor.said();
        assert!(said.contains(why), "{uri}: {said}");
    }
    assert_eq!(model.requests().len(), 0);
    editor.end();
}

/// Unsaved text goes to the run; a change is shown, and written after a permission of its own.
#[test]
fn a_changed_file_is_written_by_the_editor() {
    const CHANGE: &str = "text = open('notes.txt').read()\nprint(text)\nwritten = open('notes.txt', 'w').write(text.upper())";
    let model = model_with(CHANGE);
    let mut editor = Editor::start(&model, &[]);
    editor.initialize(&json!({"fs": {"readTextFile": true, "writeTextFile": true}}));
    editor.client.scratch.write("notes.txt", "saved\n");
    for (permission, written) in [("reject", false), ("accept", true)] {
        editor.new_session();
        editor.permissions = vec![chosen(permission)];
        let link =
            json!({"type": "resource_link", "name": "notes", "uri": editor.uri("notes.txt")});
        let ended = editor.prompt_with(&json!([{"type": "text", "text": "Shout now "}, link]));
        assert_eq!(ended, "end_turn");
        let whole = json!(editor.heard).to_string();
        assert!(whole.contains("unsaved"), "{whole}");
        let diffs = editor
            .heard
            .iter()
            .map(|heard| &heard["update"]["content"][0]);
        let diff = diffs.into_iter().find(|content| content["type"] == "diff");
        let diff = diff.unwrap();
        assert_eq!(diff["oldText"], "20\n22\nunsaved\n");
        assert_eq!(diff["newText"], "20\n22\nUNSAVED\n");
        assert_eq!(diff["path"], format!("{}/notes.txt", editor.directory()));
        let wrote = editor
            .heard
            .iter()
            .find(|heard| heard["content"].is_string());
        assert_eq!(wrote.is_some(), written, "{permission}");
        if let Some(wrote) = wrote {
            assert_eq!(wrote["content"], "20\n22\nUNSAVED\n");
        }
        let last = editor.calls().pop().unwrap().1;
        assert_eq!(last, if written { "completed" } else { "failed" });
    }
    // What is on disk is the editor's affair.
    assert_eq!(editor.client.scratch.read("notes.txt"), "saved\n");
    editor.end();
}

/// Code calls tools of a server that the editor names; the person decides on the call.
#[test]
fn tools_of_the_editor_are_called_by_code() {
    let model = model_with("print('got', (await tools.editorworld_act(n=21))['value'])");
    let mut editor = Editor::start(&model, &[]);
    editor.initialize(&json!({}));
    let scratch = &editor.client.scratch;
    scratch.write("server.py", include_str!("mcp_tools.py"));
    let arguments = [scratch.path("server.py"), scratch.path("notes")];
    let server =
        json!({"name": "Editor-World", "command": "python3", "args": arguments, "env": []});
    let twice = json!({"cwd": editor.directory(), "mcpServers": [server, server]});
    assert!(
        editor
            .refused("session/new", &twice)
            .contains("two MCP servers")
    );
    let params = json!({"cwd": editor.directory(), "mcpServers": [server]});
    let opened = editor.result("session/new", &params);
    opened["sessionId"]
        .as_str()
        .unwrap()
        .clone_into(&mut editor.session);
    editor.permissions = vec![chosen("accept")];
    assert_eq!(editor.prompt("Act now."), "end_turn");
    let whole = json!(editor.heard).to_string();
    assert!(whole.contains("got 42"), "{whole}");
    let calls = [
        ("1.0", "pending"),
        ("1.0", "in_progress"),
        ("1.0.1", "pending"),
        ("1.0.1", "completed"),
        ("1.0", "completed"),
    ];
    assert_eq!(editor.calls(), states(&calls));
    assert_eq!(editor.client.scratch.read("notes"), "act-21\n");
    editor.end();
}

/// Whatever a client writes is answered where it can be, and the next message is read.
#[test]
fn what_is_wrong_is_answered_and_passed_over() {
    let model = ScriptedModel::start([]).unwrap();
    let mut editor = Editor::start(&model, &[]);
    let too_long = format!("\"{}\"", "x".repeat(17 << 20));
    for (line, code, id) in [
        ("{", -32700, Value::Null),
        ("[1, 2]", -32600, Value::Null),
        ("7", -32600, Value::Null),
        (
            r#"{"jsonrpc": "1.0", "id": 3, "method": "x"}"#,
            -32600,
            json!(3),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": "a", "method": "x"}"#,
            -32601,
            json!("a"),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 4, "method": "session/list"}"#,
            -32600,
            json!(4),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": []}"#,
            -32602,
            json!(5),
        ),
        (too_long.as_str(), -32600, Value::Null),
    ] {
        let (is, of) = editor.client.refused(line.as_bytes());
        assert_eq!(
            (is, of),
            (json!(code), id),
            "{}",
            &line[..line.len().min(80)]
        );
    }
    // Answers to nothing, and unknown notifications.
    editor
        .client
        .send(&json!({"jsonrpc": "2.0", "id": 99, "result": {}}));
    editor
        .client
        .send(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}));
    editor.initialize(&json!({"fs": 7}));
    let directory = editor.directory();
    for (params, why) in [
        (
            json!({"cwd": "work", "mcpServers": []}),
            "must be an absolute path",
        ),
        (
            json!({"cwd": "/nowhere", "mcpServers": []}),
            "`cwd` `/nowhere`",
        ),
        (
            json!({"cwd": directory, "mcpServers": [], "additionalDirectories": ["/tmp"]}),
            "`additionalDirectories` are not supported",
        ),
        (
            json!({"cwd": directory, "mcpServers": [{"type": "sse", "name": "x", "url": "http://x", "headers": []}]}),
            "uses SSE",
        ),
        (json!({"cwd": directory}), "wrong parameters"),
    ] {
        let refused = editor.refused("session/new", &params);
        assert!(refused.contains(why), "no {why:?} in {refused}");
    }
    editor.new_session();
    assert_eq!(editor.prompt("  "), "refusal");
    editor.end();
}

/// Without a model there is nothing to serve.
#[test]
fn a_model_is_needed() {
    let scratch = Scratch::new();
    let ended = belljar(&scratch, &["acp", "--env", bare()]);
    ended.exits_with(2).says("no model");
}
