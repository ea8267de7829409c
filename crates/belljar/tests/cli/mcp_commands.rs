//! `run_command` and `background_command` of `belljar mcp`.

use serde_json::{Value, json};

use crate::mcp::Client;
use crate::mcp_approvals::{call_and_decide, decided, text, with_person};

fn run(client: &mut Client, arguments: &Value) -> Value {
    client.call("run_command", arguments)
}

#[test]
fn a_command_has_an_exit_code_and_both_streams() {
    let mut client = with_person(&[]);
    client.run("open('a.txt', 'w').write('from a cell')");
    let result = run(&mut client, &json!({"command": "cat a.txt; echo bad >&2"}));
    let report = &result["structuredContent"];
    assert_eq!(result["isError"], false, "{result:#}");
    assert_eq!(report["exit_code"], 0, "{result:#}");
    assert_eq!(report["stdout"]["text"], "from a cell");
    assert_eq!(
        report["stderr"],
        json!({"text": "bad\n", "bytes": 4, "omitted_bytes": 0})
    );
    assert_eq!(
        text(&result),
        "[exit code 0]\nstdout:\nfrom a cell\nstderr:\nbad"
    );

    // In a directory, with input, without success.
    let failing = json!({"command": "pwd; cat > b.txt; exit 3", "directory": "/workspace/d", "input": "typed"});
    client.run("import os; os.mkdir('d')");
    let result = run(&mut client, &failing);
    assert_eq!(result["isError"], true, "{result:#}");
    assert_eq!(text(&result), "[exit code 3]\nstdout:\n/workspace/d");
    assert_eq!(client.run("print(open('d/b.txt').read())"), "typed\n");

    // The text is cut, the counts are true.
    let long = json!({"command": "head -c 3000000 /dev/zero | tr '\\0' x; echo end"});
    let result = run(&mut client, &long);
    let stdout = &result["structuredContent"]["stdout"];
    assert_eq!(stdout["bytes"], 3_000_004);
    assert_eq!(stdout["omitted_bytes"], 3_000_004 - (32 << 10));
    let shown = stdout["text"].as_str().unwrap();
    assert!(
        shown.starts_with("xxx") && shown.ends_with("xxxend\n"),
        "{}",
        shown.len()
    );
    assert!(shown.contains("bytes left out"));

    let result = run(
        &mut client,
        &json!({"command": "echo first; sleep 100", "timeout_seconds": 1}),
    );
    assert_eq!(result["structuredContent"]["timed_out"], true, "{result:#}");
    assert_eq!(text(&result), "[stopped at its time limit]\nstdout:\nfirst");
    let result = run(&mut client, &json!({"command": "kill -9 $$"}));
    assert_eq!(text(&result), "[ended by SIGKILL]\n(no output)");
    let result = run(
        &mut client,
        &json!({"command": "ls", "directory": "nowhere"}),
    );
    assert_eq!(result["isError"], true, "{result:#}");
    assert!(text(&result).contains("nowhere"), "{result:#}");
}

/// Looks after a command until it has written something.
fn until_output(client: &mut Client, mut arguments: Value) -> Value {
    loop {
        let result = client.call("background_command", &arguments);
        if result["structuredContent"]["command"]["stdout"]["bytes"] != 0 {
            return result;
        }
        arguments["wait_seconds"] = json!(1);
    }
}

#[test]
fn a_command_in_the_background_is_read_and_killed() {
    let mut client = with_person(&[]);
    let command = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; sleep 1000";
    let result = run(
        &mut client,
        &json!({"command": command, "background": true}),
    );
    let report = &result["structuredContent"];
    assert_eq!(
        (&report["running"], &result["isError"]),
        (&json!(true), &json!(false))
    );
    let pid = report["pid"].clone();
    // It runs until the next cell lets it continue.
    let first = until_output(&mut client, json!({"pid": pid}));
    assert_eq!(
        first["structuredContent"]["command"]["stdout"]["text"],
        "one\n"
    );
    assert_eq!(
        text(&first),
        "[running]\nstdout:\none\n[later output: from=4]"
    );
    client.run("open('go', 'w').close()");
    let second = until_output(&mut client, json!({"pid": pid, "from": 4}));
    assert_eq!(
        second["structuredContent"]["command"]["stdout"]["text"],
        "two\n"
    );
    let killed = client.call(
        "background_command",
        &json!({"pid": pid, "from": 4, "kill": true}),
    );
    assert_eq!(killed["structuredContent"]["command"]["signal"], "SIGKILL");
    assert_eq!(text(&killed), "[ended by SIGKILL]\nstdout:\ntwo");

    let listed = client.call("background_command", &json!({}));
    let listed = &listed["structuredContent"]["commands"];
    assert_eq!(listed[0]["state"], "ended by SIGKILL", "{listed:#}");
    assert_eq!(listed[0]["command"], command);
    let unknown = client.call("background_command", &json!({"pid": 999_999}));
    assert_eq!(unknown["isError"], true);
    assert!(
        text(&unknown).contains("no command with pid 999999"),
        "{unknown}"
    );

    // A session that is closed takes its commands along.
    run(
        &mut client,
        &json!({"command": "sleep 1000", "background": true}),
    );
    let made = run(&mut client, &json!({"command": "true"}));
    let id = &made["structuredContent"]["session_id"];
    client.call("close_session", &json!({"session_id": id}));
    drop(client.input.take());
    client.ends();
}

/// Attack L4: a command needs the approval that code which starts processes needs, for its exact words.
#[test]
fn l4_a_command_is_approved_before_it_runs() {
    let mut client = with_person(&["--approve", "risky"]);
    let arguments =
        json!({"command": "cat > a.txt; echo done", "input": "secret\n", "directory": "."});
    let decline = json!({"action": "decline"});
    let (result, asked) = call_and_decide(&mut client, "run_command", &arguments, &[decline]);
    assert_eq!(result["isError"], true);
    assert!(text(&result).contains("The command was not run: a person did not approve it"));
    let message = asked[0]["message"].as_str().unwrap();
    for part in [
        "May this shell command run?",
        "- processes: ",
        "│ directory: \".\"\n",
        "│ input: \"secret\\n\"\n",
        "│ cat > a.txt; echo done\n",
    ] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
    let files = client.call("list_files", &json!({}));
    assert_eq!(files["structuredContent"]["files"], json!([]), "{files:#}");
    let (result, _) = call_and_decide(
        &mut client,
        "run_command",
        &arguments,
        &[decided("accept_rest")],
    );
    assert_eq!(
        result["structuredContent"]["stdout"]["text"], "done\n",
        "{result:#}"
    );
    // Processes are accepted now, for commands and for cells; packages are not.
    let again = json!({"command": "echo again"});
    call_and_decide(&mut client, "run_command", &again, &[]);
    let code = json!({"code": "import os; os.system('true')"});
    call_and_decide(&mut client, "run_python", &code, &[]);
    let install = json!({"command": "pip install x"});
    let decline = json!({"action": "decline"});
    call_and_decide(&mut client, "run_command", &install, &[decline]);
    // Looking after commands runs none.
    call_and_decide(&mut client, "background_command", &json!({}), &[]);
}

/// A cancelled call kills its command, and the session is as it was.
#[test]
fn a_cancelled_call_kills_its_command() {
    let mut client = with_person(&[]);
    client.run("x = 1");
    client.send(
        &json!({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {
        "name": "run_command", "arguments": {"command": "touch started; sleep 1000"}}}),
    );
    while !client
        .run("import os; print(os.path.exists('started'))")
        .contains("True")
    {}
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}}));
    loop {
        let listed = client.call("background_command", &json!({}));
        if listed["structuredContent"]["commands"][0]["state"] == "ended by SIGKILL" {
            break;
        }
    }
    assert_eq!(client.run("print(x)"), "1\n");
}
