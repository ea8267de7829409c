//! `belljar mcp --approve`: a client asks a person before code runs, in both revisions of the protocol.

use serde_json::{Value, json};

use crate::mcp::Client;
use crate::support::Scratch;

const RISKY: &str = "import os\nprint('it gave', os.system('exit 6') >> 8)";

/// A client of the revision with a handshake, whose person is asked by requests of the server.
pub(crate) fn with_person(arguments: &[&str]) -> Client {
    let mut client = Client::start_with(arguments);
    client.initialize(&json!({"elicitation": {}}));
    client
}

/// What a client of the stateless revision says with each request.
pub(crate) fn stateless(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Calls, and answers the questions that come meanwhile; the result, and the questions.
pub(crate) fn call_and_decide(
    client: &mut Client,
    tool: &str,
    arguments: &Value,
    decisions: &[Value],
) -> (Value, Vec<Value>) {
    client.send(
        &json!({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": {
            "name": tool, "arguments": arguments,
        }}),
    );
    let mut asked = Vec::new();
    loop {
        let message = client.answer();
        if message["method"] != "elicitation/create" {
            assert_eq!(message["id"], "call", "{message}");
            assert_eq!(asked.len(), decisions.len(), "{message}");
            return (message["result"].clone(), asked);
        }
        let decision = decisions.get(asked.len());
        let decision = decision.unwrap_or_else(|| panic!("asked once too often: {message}"));
        asked.push(message["params"].clone());
        client.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": decision}));
    }
}

fn run(client: &mut Client, code: &str, decisions: &[Value]) -> (String, Vec<Value>) {
    let (result, asked) = call_and_decide(client, "run_python", &json!({"code": code}), decisions);
    (text(&result), asked)
}

pub(crate) fn text(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{result}")).to_owned()
}

pub(crate) fn decided(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision}})
}

/// Accepting, declining, feedback; what was accepted for the rest is not asked again.
#[test]
fn a_person_decides_by_way_of_the_client() {
    let mut client = with_person(&["--approve", "risky"]);
    let (said, _) = run(&mut client, "print(6 * 7)", &[]);
    assert!(said.contains("42"), "{said}");
    for no in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept"}),
        decided("reject"),
        // There is no editing: code that nobody looked at would run.
        json!({"action": "accept", "content": {"decision": "edit", "code": "print('edited')"}}),
        json!({"what": "is this?"}),
    ] {
        let (said, asked) = run(&mut client, RISKY, std::slice::from_ref(&no));
        assert!(said.contains("a person did not approve it"), "{no}: {said}");
        let message = asked[0]["message"].as_str().unwrap();
        for part in [
            "- processes: os.system('exit 6') (line 2)",
            "   1 │ import os\n   2 │ print('it gave', os.system('exit 6') >> 8)\n",
        ] {
            assert!(message.contains(part), "no {part:?} in {message}");
        }
        let fields = &asked[0]["requestedSchema"]["properties"];
        let choices = json!(["accept", "accept_rest", "reject"]);
        assert_eq!(fields["decision"]["enum"], choices, "{asked:?}");
        assert!(!fields.as_object().unwrap().contains_key("code"));
    }
    let told =
        json!({"action": "accept", "content": {"decision": "reject", "feedback": "Use no shell."}});
    let (said, _) = run(&mut client, RISKY, &[told]);
    assert!(said.contains("Use no shell."), "{said}");
    let (said, _) = run(&mut client, RISKY, &[decided("accept")]);
    assert!(said.contains("it gave 6"), "{said}");
    // Once is once.
    let (said, _) = run(&mut client, RISKY, &[decided("accept_rest")]);
    assert!(said.contains("it gave 6"), "{said}");
    let (said, _) = run(&mut client, RISKY, &[]);
    assert!(said.contains("it gave 6"), "{said}");
    // What can do something else is asked for all the same.
    let other = "import os\nos.remove('nothing')";
    let (said, _) = run(&mut client, other, &[json!({"action": "decline"})]);
    assert!(said.contains("a person did not approve it"), "{said}");

    // For this connection.
    let mut another = with_person(&["--approve", "risky"]);
    let (said, _) = run(&mut another, RISKY, &[json!({"action": "decline"})]);
    assert!(said.contains("a person did not approve it"), "{said}");
}

/// The settings file can say it; nobody is asked where nothing does.
#[test]
fn the_settings_file_has_a_person_asked() {
    let mut client = with_person(&[]);
    let (said, _) = run(&mut client, RISKY, &[]);
    assert!(said.contains("it gave 6"), "{said}");
    let scratch = Scratch::new();
    let directory = scratch.0.path().join("config/belljar");
    std::fs::create_dir_all(&directory).unwrap();
    let settings = "[approvals.capabilities]\nprocesses = \"always\"\n";
    std::fs::write(directory.join("config.toml"), settings).unwrap();
    let mut client = Client::start_in(scratch, &[]);
    client.initialize(&json!({"elicitation": {}}));
    let (said, _) = run(&mut client, RISKY, &[json!({"action": "decline"})]);
    assert!(said.contains("a person did not approve it"), "{said}");
    let (_, asked) = run(&mut client, "import os\nos.remove('nothing')", &[]);
    assert!(asked.is_empty());
}

/// A client that can't ask has such code refused.
#[test]
fn a_client_that_can_not_ask_has_the_code_refused() {
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut client = Client::start_with(&["--approve", "always"]);
        client.initialize(&capabilities);
        let result = client.call("run_python", &json!({"code": "x = 1"}));
        assert_eq!(result["isError"], true, "{result}");
        let said = text(&result);
        assert!(said.contains("A person must approve"), "{said}");
        assert!(said.contains("this client can't ask one"), "{said}");
        // Nothing of it was run, and files are no code.
        let listed = client.call("list_files", &json!({}));
        assert_eq!(listed["isError"], false, "{listed}");
    }
}

/// Attack L5: what would hide text is written out, and nothing is cut.
#[test]
fn l5_what_a_client_shows_is_whole_and_without_disguise() {
    let mut client = with_person(&["--approve", "risky"]);
    let mut code = String::from("import os\n# \u{202e}harmless\u{2066}\u{1b}[8m\u{1b}[2K\n");
    code.push_str(&"x = 1\n".repeat(10_000));
    code.push_str("y = 2");
    code.push_str(&" ".repeat(500));
    code.push_str("; os.system('true')\nprint('end\u{200b}')");
    let (_, asked) = run(&mut client, &code, &[json!({"action": "decline"})]);
    let message = asked[0]["message"].as_str().unwrap();
    assert!(!message.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{1b}']));
    for part in [
        "\\u{202e}harmless\\u{2066}\\u{1b}[8m",
        "- warning: 2 bidirectional controls",
        "10003 │ y = 2⟨500 spaces⟩; os.system('true')",
        "10004 │ print('end\\u{200b}')",
    ] {
        assert!(message.contains(part), "no {part:?}");
    }
    let lines = message.lines().filter(|line| line.ends_with("│ x = 1"));
    assert_eq!(lines.count(), 10_000);
}

/// A call that is cancelled while a person is asked runs nothing.
#[test]
fn a_call_that_is_cancelled_is_not_asked_for_any_more() {
    let mut client = with_person(&["--approve", "risky"]);
    client.send(
        &json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {
            "name": "run_python", "arguments": {"code": RISKY},
        }}),
    );
    let asked = client.answer();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}),
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": decided("accept")}));
    client.send(
        &json!({"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {
            "name": "run_python", "arguments": {"code": "print('next')"},
        }}),
    );
    let next = loop {
        let message = client.answer();
        if message["id"] == 6 {
            break message;
        }
        assert_eq!(message["method"], "notifications/cancelled", "{message}");
    };
    assert_eq!(next["result"]["structuredContent"]["cell"], 1, "{next}");
}

/// A call of the stateless revision.
pub(crate) fn call_stateless(
    client: &mut Client,
    mut params: Value,
    capabilities: &Value,
) -> Value {
    params["_meta"] = stateless(capabilities);
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    client.answer()["result"].clone()
}

/// Attack L4: without a handshake the call comes again with the decision; it must be the same call,
/// and a decision is good once.
#[test]
fn l4_a_call_that_comes_again_must_be_the_same() {
    let mut client = Client::start_with(&["--approve", "risky"]);
    let can = json!({"elicitation": {"form": {}}});
    let call = |code: &str| json!({"name": "run_python", "arguments": {"code": code}});
    let again = |code: &str, asked: &Value, decision: Value| {
        let mut params = call(code);
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = json!({"approval": decision});
        params
    };
    let mut ask = |params| call_stateless(&mut client, params, &can);

    let asked = ask(call(RISKY));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("os.system('exit 6')"), "{message}");
    let result = ask(again(RISKY, &asked, decided("accept")));
    assert!(text(&result).contains("it gave 6"), "{result}");
    // The same once more.
    let result = ask(again(RISKY, &asked, decided("accept")));
    assert!(
        text(&result).contains("Nothing waits for this decision"),
        "{result}"
    );

    // Other code than the person has seen; then also the first is not run any more.
    let asked = ask(call(RISKY));
    let other = RISKY.replace('6', "7");
    let result = ask(again(&other, &asked, decided("accept")));
    assert!(
        text(&result).contains("not the call that a person was asked about"),
        "{result}"
    );
    let result = ask(again(RISKY, &asked, decided("accept")));
    assert!(
        text(&result).contains("Nothing waits for this decision"),
        "{result}"
    );

    // A decision that nobody was asked for.
    let mut forged = call(RISKY);
    forged["inputResponses"] = json!({"approval": decided("accept")});
    let asked = ask(forged);
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let result = ask(again(RISKY, &asked, json!({"action": "decline"})));
    assert!(
        text(&result).contains("a person did not approve it"),
        "{result}"
    );
    let asked = ask(call(RISKY));
    let result = ask(again(RISKY, &asked, Value::Null));
    assert!(
        text(&result).contains("a person did not approve it"),
        "{result}"
    );

    // Of all this one cell was run.
    let seen = ask(call("print('last')"));
    assert_eq!(seen["structuredContent"]["cell"], 2, "{seen}");
    let result = call_stateless(&mut client, call(RISKY), &json!({}));
    assert!(
        text(&result).contains("this client can't ask one"),
        "{result}"
    );
}
