//! What a model sees, word for word: whole conversations, compared with those in `seen/`.
//!
//! `REWRITE_SEEN=1` writes them anew. Read the difference before you commit it: it is what models
//! will be told.

use std::fmt::Write as _;
use std::path::Path;

use belljar_agent::{Dialect, PLAN, READ_FILE, Start};
use belljar_sandbox::protocol::Language;
use belljar_test_model::{Recorded, Scripted, ScriptedModel};
use serde_json::{Value, json};

use crate::support::{Desk, answer, code, drive, start};

/// A request as text: its tools, and its messages.
fn text_of(request: &Recorded) -> String {
    let body = request.json();
    let mut text = String::new();
    for tool in body["tools"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "=== tool\n{:#}", tool["function"]);
    }
    for message in body["messages"].as_array().unwrap() {
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        let _ = writeln!(text, "=== {} {id}", message["role"].as_str().unwrap());
        text.truncate(text.trim_end().len());
        let _ = writeln!(text, "\n{}", message["content"].as_str().unwrap());
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let arguments = function["arguments"].as_str().unwrap();
            let (id, name) = (
                call["id"].as_str().unwrap(),
                function["name"].as_str().unwrap(),
            );
            let _ = writeln!(text, "--- call {id}: {name} {arguments}");
        }
    }
    text
}

/// Compares a text with the one that is kept.
fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/runs/seen/{name}.txt"));
    if std::env::var_os("REWRITE_SEEN").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "what the model sees is not what {} has (- kept, + seen; REWRITE_SEEN=1 takes the new one):\n{}",
        path.display(),
        difference(&kept, text)
    );
}

/// The lines between the first and the last that differ, with one around them.
fn difference(kept: &str, seen: &str) -> String {
    let (kept, seen): (Vec<&str>, Vec<&str>) = (kept.lines().collect(), seen.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| -> usize {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let head = same(&mut kept.iter().zip(&seen));
    let tail = same(&mut kept[head..].iter().rev().zip(seen[head..].iter().rev()));
    let mut text = format!("line {}\n", head + 1);
    for (mark, lines) in [('-', &kept), ('+', &seen)] {
        for line in &lines[head..lines.len() - tail] {
            let _ = writeln!(text, "{mark} {line}");
        }
    }
    text
}

fn last(desk: &Desk) -> String {
    text_of(&desk.model.requests().pop().unwrap())
}

fn with_an_error() -> Desk {
    Desk::new([
        code("rows = open('数据.csv').read().splitlines()\nprint(rows[3])"),
        code("print(rows)\nlen(rows)"),
        answer("3 lines, 4242 in all"),
        answer("3 lines"),
    ])
}

async fn fenced_code(language: Language) -> String {
    let desk = with_an_error();
    let agent = desk.agent().await;
    let mut start = Start {
        language,
        packages: vec!["numpy".into(), "pandas".into()],
        ..start("How many lines does the file have? 文件有几行？")
    };
    let file = agent.file("数据.csv", "名称,值\n甲,1\n乙,2\n".into()).await;
    start.files.push(file.unwrap());
    drive(agent.start(start).await.unwrap()).await;
    last(&desk)
}

#[tokio::test(flavor = "multi_thread")]
async fn fenced_code_with_an_error_and_a_file() {
    check(
        "fenced_code",
        &Box::pin(fenced_code(Language::English)).await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fenced_code_in_chinese() {
    check(
        "fenced_code_chinese",
        &Box::pin(fenced_code(Language::Chinese)).await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn native_tools() {
    let plan = |status: &str| -> Value {
        json!({"tool_call_purpose": "plan", "recursive_plan_tree": {"core_goal": "Multiply", "tree_nodes": [{"task_name": "compute", "status": status}, {"task_name": "tell", "dependencies": ["compute"]}]}})
    };
    let desk = Desk::new([
        Scripted::text("A plan first.")
            .and_call(PLAN, plan("processing"))
            .and_call("python", json!({"code": "product = 6 * 7\nprint(product)"}))
            .and_call(READ_FILE, json!({"file_path": "missing.txt"})),
        Scripted::call(PLAN, plan("completed")).and_call("file_read", json!({"path": "a"})),
        Scripted::call("answer", json!({"text": "It is 4242."})),
        Scripted::call("answer", json!({"text": "It is 42."})),
    ]);
    desk.run(Start {
        dialect: Dialect::NativeTools,
        tools: vec![PLAN.into(), READ_FILE.into()],
        ..start("Six times seven?")
    })
    .await;
    check("native_tools", &last(&desk));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_compaction() {
    let mut script: Vec<Scripted> = (1..8)
        .map(|n| {
            code(&format!(
                "part{n} = list(range({n}))\nprint('part {n}', 'word ' * 150)"
            ))
        })
        .collect();
    script.push(answer("part 7"));
    let desk = Desk::new(script);
    desk.run(Start {
        context_window: 3072,
        ..start("Make seven parts.")
    })
    .await;
    let text = last(&desk);
    assert!(text.contains("Earlier steps, shortened:"), "{text}");
    check("after_compaction", &text);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_rollback() {
    let model = ScriptedModel::react(|request| {
        let talk = request.json().to_string();
        if talk.contains("taken back") {
            return answer("n is 1");
        }
        if !talk.contains("n is 1") {
            return code("n = 1\nprint('n is', n)");
        }
        code("print('stuck', n)")
    });
    let desk = Desk::with(model.unwrap());
    desk.run(start("Find n.")).await;
    check("after_a_rollback", &last(&desk));
}
