//! S18: what goes wrong with tool calls, by the numbers of the source document's list.

use belljar_agent::{COMPUTE, Dialect, ExitReason, PLAN, READ_FILE, Run, Start};
use belljar_sandbox::protocol::Language;
use belljar_test_model::Scripted;
use serde_json::{Value, json};

use crate::support::{Desk, drive, start};

fn native(task: &str) -> Start {
    Start {
        dialect: Dialect::NativeTools,
        tools: vec![PLAN.into(), READ_FILE.into(), COMPUTE.into()],
        ..start(task)
    }
}

fn python(code: &str) -> Scripted {
    Scripted::call("python", json!({"code": code}))
}

fn final_answer(text: &str) -> Scripted {
    Scripted::call("answer", json!({"text": text}))
}

/// The answer of a run that ended with one.
fn answer_of(run: &Run) -> &str {
    let ending = run.ending().unwrap();
    assert_eq!(ending.reason, ExitReason::Answered, "{ending:?}");
    crate::support::answer_of(run)
}

/// The messages of a request.
fn messages(desk: &Desk, request: usize) -> Vec<Value> {
    let body = desk.model.requests()[request].json();
    body["messages"].as_array().unwrap().clone()
}

/// What the tools answered in a request, in order.
fn results(desk: &Desk, request: usize) -> Vec<String> {
    let messages = messages(desk, request);
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

async fn run(script: impl IntoIterator<Item = Scripted>) -> (Desk, Run) {
    let desk = Desk::new(script);
    // Boxed: with the script beside it, it would be large.
    let run = Box::pin(desk.run(native("Six times seven?"))).await;
    (desk, run)
}

/// 20: the older `function_call` is performed, and answered in the older form; an undeclared tool
/// in it is explained like any other.
#[tokio::test(flavor = "multi_thread")]
async fn number_20_legacy_function_calls() {
    let (desk, run) = run([
        Scripted::call("file_read", json!({"path": "a"})).legacy(),
        python("print(6 * 7)").legacy(),
        final_answer("It is 4242.").legacy(),
        final_answer("It is 42.").legacy(),
    ])
    .await;
    assert_eq!(answer_of(&run), "It is 42.");
    let talk = messages(&desk, 3);
    let roles: Vec<&str> = talk.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        [
            "system",
            "user",
            "assistant",
            "function",
            "assistant",
            "function",
            "assistant",
            "user"
        ],
        "{talk:#?}"
    );
    assert_eq!(talk[2]["function_call"]["name"], "file_read");
    let unknown = talk[3]["content"].as_str().unwrap();
    assert!(
        unknown.contains("There is no tool `file_read`"),
        "{unknown}"
    );
    assert_eq!(talk[4]["function_call"]["name"], "python");
    assert!(talk[5]["content"].as_str().unwrap().contains("42"));
    assert_eq!(
        talk[6]["content"], "It is 4242.",
        "what was sent back is shown"
    );
}

/// 21: one tool message for each id, in order, whatever became of the call; also for one that asks
/// for an answer too early.
#[tokio::test(flavor = "multi_thread")]
async fn number_21_each_call_has_one_result_in_order() {
    let (desk, run) = run([
        python("print(6 * 7)")
            .and_call("no_such_tool", json!({}))
            .and_call(READ_FILE, json!({"file_path": "missing.txt"}))
            .and_call("python", json!({"code": "1 / 0"}))
            .and_call("python", "{not json")
            .and_call("answer", json!({"text": "It is 42."})),
        python("print(42)"),
        final_answer("It is 42."),
    ])
    .await;
    assert_eq!(answer_of(&run), "It is 42.");
    let talk = messages(&desk, 1);
    let calls = talk[2]["tool_calls"].as_array().unwrap();
    let ids: Vec<&Value> = calls.iter().map(|call| &call["id"]).collect();
    let answered: Vec<&Value> = talk[3..].iter().map(|m| &m["tool_call_id"]).collect();
    assert_eq!((ids.len(), &ids), (6, &answered), "{talk:#?}");
    for (result, part) in results(&desk, 1).iter().zip([
        "42",
        "There is no tool `no_such_tool`",
        "Error: File 'missing.txt' does not exist",
        "ZeroDivisionError",
        "can't be read",
        "came together with other calls",
    ]) {
        assert!(result.contains(part), "{part}: {result}");
    }
}

/// 22: arguments that are almost JSON are repaired; others are explained with the place.
#[tokio::test(flavor = "multi_thread")]
async fn number_22_malformed_arguments() {
    let (desk, run) = run([
        Scripted::call("python", "{'code': 'print(6 * 7)',}"),
        Scripted::call(READ_FILE, "{\"file_path\": }"),
        final_answer("It is 42."),
    ])
    .await;
    assert_eq!(answer_of(&run), "It is 42.");
    assert!(!run.steps()[0].mended.is_empty());
    assert!(results(&desk, 1)[0].contains("42"));
    let broken = &results(&desk, 2)[1];
    assert!(
        broken.contains("was expected near «") && broken.contains("file_path"),
        "{broken}"
    );
    // A server that parses earlier calls gets JSON.
    for message in messages(&desk, 2) {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap();
            assert!(
                serde_json::from_str::<Value>(arguments)
                    .unwrap()
                    .is_object()
            );
        }
    }
}

/// 23 to 26, 28: a missing parameter, a wrong type, a value outside of an enumeration, an unknown
/// tool and an exception inside a tool are each told to the model in words that help.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_23_to_28_are_explained() {
    let plan = |status: &str| json!({"tool_call_purpose": "p", "recursive_plan_tree": {"core_goal": "g", "tree_nodes": [{"task_name": "t", "status": status}]}});
    let desk = Desk::new([
        // 23: the source document's other name for the code is understood; none at all is not.
        Scripted::call("python", json!({"python_code_snippet": "print(6 * 7)"}))
            .and_call("python", json!({"tool_call_purpose": "nothing"}))
            .and_call(READ_FILE, json!({})),
        // 24: lossless, and not.
        Scripted::call(READ_FILE, json!({"file_path": "a.txt", "max_size_mb": "2"}))
            .and_call(
                READ_FILE,
                json!({"file_path": "a.txt", "max_size_mb": "big"}),
            )
            .and_call(READ_FILE, json!({"file_path": 7})),
        // 25
        Scripted::call(PLAN, plan("done")).and_call(PLAN, plan("completed")),
        // 26
        Scripted::call("file_read", json!({"path": "a.txt"})),
        // 28
        python("raise ValueError('工具函数调用失败')"),
        python("print(6 * 7, 'again')"),
        final_answer("It is 42."),
    ]);
    let agent = desk.agent().await;
    let mut start = native("Six times seven?");
    start.files = vec![agent.file("a.txt", "北\n".into()).await.unwrap()];
    let run = drive(agent.start(start).await.unwrap()).await;
    let talk = results(&desk, 6);
    let expected = [
        vec!["42"],
        vec!["`python` needs `code`"],
        vec!["missing field `file_path`"],
        vec!["File contents (2 chars):\n北"],
        vec!["`max_size_mb` must be a number"],
        vec!["invalid type: integer `7`, expected a string"],
        vec!["`done`", "`pending`", "`completed`", "`skipped`"],
        vec!["✅"],
        vec![
            "There is no tool `file_read`",
            "`python`",
            "`answer`",
            "`recursive_plan_tree_todo`",
            "`read_file`",
            "`compute_with_python`",
        ],
        vec!["ValueError: 工具函数调用失败"],
        vec!["42 again"],
    ];
    assert_eq!(talk.len(), expected.len(), "{talk:#?}");
    for (told, parts) in talk.iter().zip(expected) {
        for part in parts {
            assert!(told.contains(part), "{part} is not in: {told}");
        }
    }
    assert_eq!(answer_of(&run), "It is 42.");
    // 27: what is offered is what there is; one list makes both.
    let body = desk.model.requests()[0].json();
    let offered = body["tools"].as_array().unwrap().iter();
    let offered: Vec<&str> = offered
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(offered, ["python", "answer", PLAN, READ_FILE, COMPUTE]);
}

/// 29: after three steps that failed, each in another way, the model is asked to go another way, as
/// long as that lasts; in both languages.
#[tokio::test(flavor = "multi_thread")]
async fn number_29_repeated_failures() {
    for (language, marker) in [
        (Language::English, "The last {} steps failed."),
        (Language::Chinese, "最近 {} 步都失败了。"),
    ] {
        let plan = json!({"tool_call_purpose": "p", "recursive_plan_tree": {"core_goal": "g", "tree_nodes": [{"task_name": "t"}]}});
        let desk = Desk::new([
            Scripted::call(PLAN, plan),
            python("open('a')"),
            python("1 / 0"),
            Scripted::call("no_such_tool", json!({})),
            python("undefined"),
            python("print(6 * 7)"),
            final_answer("42"),
        ]);
        let run = desk
            .run(Start {
                language,
                ..native("Six times seven?")
            })
            .await;
        assert_eq!(answer_of(&run), "42");
        for request in 0..7 {
            let talk = messages(&desk, request);
            let last = talk.last().unwrap()["content"].as_str().unwrap();
            for failures in 1..6 {
                let told = last.contains(&marker.replace("{}", &failures.to_string()));
                let wanted = failures >= 3 && failures + 1 == request && request < 6;
                assert_eq!(told, wanted, "request {request}: {last}");
            }
            if (4..6).contains(&request) {
                assert!(last.contains("skipped"), "{last}");
            }
        }
    }
}

/// A call that stands in the text of a reply, instead of beside it, is a call in the conversation:
/// what was run is not lost, and the model reads the form that it should keep to.
#[tokio::test(flavor = "multi_thread")]
async fn calls_in_the_text_are_shown_as_calls() {
    let (desk, run) = run([
        Scripted::text("I compute it.\n```python\nx = 6 * 7\nprint(x)\n```"),
        Scripted::text("It is 4242."),
        Scripted::text("It is 42."),
    ])
    .await;
    assert_eq!(answer_of(&run), "It is 42.");
    let talk = messages(&desk, 2);
    let call = &talk[2]["tool_calls"][0];
    let arguments = call["function"]["arguments"].as_str().unwrap();
    assert!(arguments.contains("x = 6 * 7"), "{talk:#?}");
    assert_eq!(call["id"], talk[3]["tool_call_id"]);
    assert_eq!(talk[4]["content"], "It is 4242.");
}
