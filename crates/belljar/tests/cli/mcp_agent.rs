//! `ask_agent` of `belljar mcp`, with a scripted model server.

use std::time::{Duration, Instant};

use belljar_test_model::{Scripted, ScriptedModel};
use serde_json::{Value, json};

use crate::mcp::Client;
use crate::mcp_approvals::{
    call_and_decide, call_stateless, decided, stateless, text, with_person,
};
use crate::run::{belljar, code};

/// Arguments of a server whose agent has this model.
fn with_model<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--model", "llamacpp/scripted", "--base-url", url], more].concat()
}

fn open(model: &ScriptedModel, more: &[&str]) -> Client {
    let mut client = Client::start_with(&with_model(&model.base_url(), more));
    client.initialize(&json!({}));
    client
}

fn names(client: &mut Client) -> Vec<String> {
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let listed = client.answer();
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A task in, an answer with evidence out; files of the session go in, and those of the run come back.
#[test]
fn an_agent_answers_with_files_of_the_session() {
    let model = ScriptedModel::start([
        code("n = [int(line) for line in open('data/numbers.txt')]\nprint('sum', sum(n))\nopen('data/numbers.txt', 'w').write('changed')\nopen('dot.png', 'wb').write(b'\\x89PNG and more')\nwritten = open('sum.txt', 'w').write(str(sum(n)))"),
        Scripted::text("FINAL: The sum is 42."),
        Scripted::text("FINAL: It is 7."),
    ])
    .unwrap();
    let mut client = open(&model, &[]);
    assert!(names(&mut client).contains(&"ask_agent".to_owned()));
    client.call(
        "write_file",
        &json!({"path": "data/numbers.txt", "content": "20\n22\n"}),
    );
    let task =
        json!({"task": "Sum the numbers.", "session_files": ["/workspace/data/numbers.txt"]});
    let result = client.call("ask_agent", &task);
    assert_eq!(result["isError"], false, "{result}");
    let report = &result["structuredContent"];
    assert_eq!(report["answer"], "The sum is 42.");
    assert_eq!(report["reason"]["kind"], "answered", "{report}");
    assert_eq!(report["evidence"][0]["seen"]["cell"], 1, "{report}");
    assert_eq!(report["images"], 1);
    assert_eq!(result["content"][1]["mimeType"], "image/png", "{result}");
    let run = report["run"].as_str().unwrap();
    let said = text(&result);
    let sum = format!("runs/{run}/sum.txt");
    for part in [
        "The sum is 42.",
        "- 42: computed in cell 1 by `sum(n)` from data/numbers.txt (shows origin, not correctness)",
        &sum,
        &format!("run: {run} (2 steps)"),
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    // The run's files are there, and what was there is as it was.
    let read =
        |client: &mut Client, path: &str| text(&client.call("read_file", &json!({"path": path})));
    assert_eq!(read(&mut client, &sum), "42");
    assert_eq!(read(&mut client, "data/numbers.txt"), "20\n22\n");
    assert_eq!(
        read(&mut client, &format!("runs/{run}/data/numbers.txt")),
        "changed"
    );
    // The variables of the run are its own.
    assert_eq!(client.run("print('n' in globals())"), "False\n");
    // It is kept as other runs are.
    assert!(client.scratch.path("runs").join("runs").join(run).exists());

    for (wrong, why) in [
        (json!({"task": " "}), "task is empty"),
        (
            json!({"task": "x".repeat(70_000)}),
            "task may have 65536 bytes",
        ),
        (
            json!({"task": "x", "max_steps": 0}),
            "max_steps must be 1 or more",
        ),
        (
            json!({"task": "x", "session_files": ["../../etc/passwd"]}),
            "can't be read",
        ),
        (
            json!({"task": "x", "session_files": ["sum.txt"]}),
            "can't be read",
        ),
        (
            json!({"task": "x", "session_id": "s-0"}),
            "There is no session with this id",
        ),
        (
            json!({"task": "x", "environment": "math"}),
            "There is no such environment",
        ),
        (
            json!({"task": "x", "tools": ["all"]}),
            "unknown field `tools`",
        ),
    ] {
        let result = client.call("ask_agent", &wrong);
        assert_eq!(result["isError"], true, "{result}");
        assert!(text(&result).contains(why), "no {why:?} in {result}");
    }
    drop(client.input.take());
    client.ends();
}

/// Steps are those of the settings at most; why there is no answer is told.
#[test]
fn a_run_has_no_more_than_the_settings_give() {
    let mut asked = 0;
    let model = ScriptedModel::react(move |_| {
        asked += 1;
        code(&format!("print({asked})"))
    })
    .unwrap();
    let mut client = open(&model, &["--steps", "3"]);
    for (wanted, steps) in [(json!(1), 1), (json!(1000), 3), (Value::Null, 3)] {
        let result = client.call("ask_agent", &json!({"task": "Go on.", "max_steps": wanted}));
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["structuredContent"]["steps"], steps, "{result}");
        let said = text(&result);
        assert!(
            said.contains("[not answered: the budget does not allow another step (steps)]"),
            "{said}"
        );
    }
}

/// Attack L9: a run's code has the rights of the sessions here, and none that it asks for.
#[test]
fn l9_a_run_has_no_more_rights_than_a_session() {
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let reach = format!(
        "import socket\ntry:\n    socket.create_connection(('127.0.0.1', {port}), 1)\n    print('reached')\nexcept OSError:\n    print('not reached')\nprint('tools:', 'tools' in globals())"
    );
    let model = ScriptedModel::start([
        code(&reach),
        code("# requires: six\nimport six"),
        Scripted::text("FINAL: no"),
    ])
    .unwrap();
    let mut client = open(&model, &[]);
    client.call("ask_agent", &json!({"task": "Get out."}));
    let told = model.requests().pop().unwrap().json().to_string();
    for part in [
        "Output of cell 1:\\nnot reached\\ntools: False",
        "`six` cannot be installed",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
}

/// Without a model, or with one that can't be asked, there is no such tool; sessions are there.
#[test]
fn without_a_model_nobody_can_be_asked() {
    let limited = ["--model", "openai/gpt-5-mini", "--money", "1"];
    let mut client = Client::start_with(&limited);
    client.initialize(&json!({}));
    assert!(!names(&mut client).contains(&"ask_agent".to_owned()));
    assert_eq!(client.run("print(1)"), "1\n");
    let mut client = Client::start_with(&[]);
    client.initialize(&json!({}));
    assert!(!names(&mut client).contains(&"ask_agent".to_owned()));
    client.send(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "ask_agent", "arguments": {"task": "x"},
        }}),
    );
    let answer = client.answer();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

/// A reply that does not come before the test is over.
fn never() -> Scripted {
    Scripted::text("FINAL: late").slow_first_byte(Duration::from_mins(1))
}

/// Attack L9: at most four at once; a call that is cancelled stops its run, and makes place.
#[test]
fn l9_runs_at_once_are_bounded_and_cancelled() {
    let model = ScriptedModel::react(|request| {
        if request.json().to_string().contains("slow") {
            never()
        } else {
            Scripted::text("FINAL: It was quick.")
        }
    })
    .unwrap();
    let mut client = open(&model, &[]);
    let ask = |client: &mut Client, id: u32, task: &str| {
        client.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "name": "ask_agent", "arguments": {"task": task}, "_meta": {"progressToken": id},
            }}),
        );
    };
    // What is not word of progress.
    let mut heard = Vec::new();
    let mut answer = |client: &mut Client| {
        loop {
            let message = client.answer();
            if message["method"] != "notifications/progress" {
                return message;
            }
            heard.push(message["params"]["message"].clone());
        }
    };
    for id in 1..=4 {
        ask(&mut client, id, "slow");
    }
    let begun = Instant::now();
    while model.requests().len() < 4 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Long enough for word of it.
    std::thread::sleep(Duration::from_millis(700));
    ask(&mut client, 5, "quick");
    let refused = answer(&mut client);
    assert_eq!(refused["id"], 5, "{refused}");
    assert!(
        text(&refused["result"]).contains("4 runs are active already"),
        "{refused}"
    );
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}),
    );
    let begun = Instant::now();
    loop {
        ask(&mut client, 6, "quick");
        let done = answer(&mut client);
        assert_eq!(done["id"], 6, "{done}");
        if done["result"]["isError"] == false {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "the run was not stopped"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        heard.contains(&json!("step 1: the model is asked")),
        "{heard:?}"
    );
    // The others are stopped with the connection: none is left open.
    drop(client.input.take());
    client.ends();
    let listed = belljar(&client.scratch, &["runs", "list"]).stdout;
    assert_eq!(listed.matches("  ended ").count(), 4, "{listed}");
    // It answered without any code.
    assert_eq!(listed.matches("  unverified ").count(), 1, "{listed}");
}

/// Attack L9: a connection has its number of runs, and sessions of runs count as sessions.
#[test]
fn l9_runs_in_all_are_bounded() {
    let model = ScriptedModel::react(|_| Scripted::text("FINAL: Done.")).unwrap();
    let mut client = open(&model, &["--sessions", "1"]);
    for _ in 0..100 {
        let result = client.call("ask_agent", &json!({"task": "Say that it is done."}));
        assert!(text(&result).contains("Done."), "{result}");
    }
    let result = client.call("ask_agent", &json!({"task": "Once more."}));
    assert!(text(&result).contains("has had its 100 runs"), "{result}");
    let asked = model.requests().len();
    client.run("x = 1");
    let result = client.call("ask_agent", &json!({"task": "Once more."}));
    assert!(
        text(&result).contains("At most 1 sessions can live at once"),
        "{result}"
    );
    assert_eq!(model.requests().len(), asked);
}

/// The cells of a run are approved as those of sessions are, in both revisions.
#[test]
fn a_person_decides_on_cells_of_a_run() {
    let risky = "import os\nprint('it gave', os.system('exit 6') >> 8)";
    let script = || {
        ScriptedModel::start([
            code("import os\nos.remove('nothing')"),
            code(risky),
            code(&risky.replace("exit 6", "exit 7")),
            Scripted::text("FINAL: It gave 6."),
        ])
        .unwrap()
    };
    let told =
        json!({"action": "accept", "content": {"decision": "reject", "feedback": "Keep it."}});
    let decisions = [told, decided("accept_rest")];
    let model = script();
    let mut client = with_person(&with_model(&model.base_url(), &["--approve", "risky"]));
    let task = json!({"task": "Do it."});
    let (result, asked) = call_and_decide(&mut client, "ask_agent", &task, &decisions);
    assert_eq!(result["isError"], false, "{result}");
    let shown = asked[1]["message"].as_str().unwrap();
    assert!(shown.contains("os.system('exit 6')"), "{shown}");
    let last = model.requests().pop().unwrap().json().to_string();
    assert!(
        last.contains("Keep it.") && last.contains("it gave 7"),
        "{last}"
    );

    // Here the call comes again with each decision, and goes on with the same run.
    let model = script();
    let mut client = Client::start_with(&with_model(&model.base_url(), &["--approve", "risky"]));
    let can = json!({"elicitation": {}});
    let mut params = json!({"name": "ask_agent", "arguments": task});
    for decision in decisions {
        let asked = call_stateless(&mut client, params.clone(), &can);
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = json!({"approval": decision});
    }
    let result = call_stateless(&mut client, params, &can);
    assert!(text(&result).contains("It gave 6."), "{result}");
    assert_eq!(model.requests().len(), 4);

    // Where nobody can be asked, the model is told.
    let model = ScriptedModel::start([code(risky), Scripted::text("FINAL: I can't.")]).unwrap();
    let mut client = open(&model, &["--approve", "risky"]);
    let result = client.call("ask_agent", &task);
    assert!(text(&result).contains("I can't."), "{result}");
    let last = model.requests().pop().unwrap().json().to_string();
    assert!(last.contains("this client can't ask one"), "{last}");
}

/// A request about a task, of a client that knows them.
fn of_task(client: &mut Client, method: &str, mut params: Value) -> Value {
    params["_meta"] = stateless(&with_tasks());
    client.send(&json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}));
    let answer = client.answer();
    assert_eq!(answer["id"], method, "{answer}");
    answer["result"].clone()
}

fn with_tasks() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Asks for a task until it is in this state.
fn task_is(client: &mut Client, id: &Value, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let state = of_task(client, "tasks/get", json!({"taskId": id}));
        if state["status"] == status {
            return state;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{state}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A long run is a task, which asks and is cancelled as tasks are.
#[test]
fn a_long_run_is_a_task() {
    let model = ScriptedModel::start([
        code("print(1)").slow_first_byte(Duration::from_secs(6)),
        code("import os\nprint('it gave', os.system('exit 6') >> 8)"),
        Scripted::text("FINAL: It gave 6."),
        never(),
    ])
    .unwrap();
    let mut client = Client::start_with(&with_model(&model.base_url(), &["--approve", "risky"]));
    let call = json!({"name": "ask_agent", "arguments": {"task": "Do it."}});
    let handle = call_stateless(&mut client, call.clone(), &with_tasks());
    assert_eq!(handle["resultType"], "task", "{handle}");
    let id = &handle["taskId"];
    let state = task_is(&mut client, id, "input_required");
    let question = &state["inputRequests"]["approval-1"]["params"];
    let message = question["message"].as_str().unwrap();
    assert!(message.contains("os.system('exit 6')"), "{state}");
    let responses = json!({"approval-1": decided("accept")});
    of_task(
        &mut client,
        "tasks/update",
        json!({"taskId": id, "inputResponses": responses}),
    );
    let done = task_is(&mut client, id, "completed");
    assert!(text(&done["result"]).contains("It gave 6."), "{done}");

    let handle = call_stateless(&mut client, call, &with_tasks());
    let id = &handle["taskId"];
    of_task(&mut client, "tasks/cancel", json!({"taskId": id}));
    task_is(&mut client, id, "cancelled");
    drop(client.input.take());
    client.ends();
}
