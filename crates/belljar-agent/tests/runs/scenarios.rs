//! Tasks of the requirements, with the figures that they must give.

use std::fmt::Write as _;

use belljar_agent::{Dialect, ExitReason, PLAN, READ_FILE, Seen};
use belljar_test_model::Scripted;
use serde_json::json;

use crate::support::{Desk, answer, answer_of, code, start};

/// Seed 002: 15,000 at 6 % compounded twice a year for 6 years. The answer's figures are traced to
/// the cell that printed them.
#[tokio::test(flavor = "multi_thread")]
async fn compound_interest() {
    let desk = Desk::new([
        code(
            "amount = 15000 * (1 + 0.06 / 2) ** (2 * 6)\nprint(f'{amount:.2f}')\nprint(amount - 15000)",
        ),
        answer("The final amount is 21,386.41, the interest 6,386.41."),
    ]);
    let run = desk.run(start("15,000 is invested at 6% compounded semi-annually for 6 years. What is the final amount and the interest?")).await;
    let ending = run.ending().unwrap();
    assert_eq!(ending.reason, ExitReason::Answered);
    assert_eq!(ending.evidence.len(), 2);
    for value in &ending.evidence {
        assert!(
            matches!(value.seen, Some(Seen::Output { cell: Some(1), .. })),
            "{value:?}"
        );
    }
    assert_eq!(run.spent().steps, 2);
}

/// EXP-4: the secret backwards, the second of a list.
#[tokio::test(flavor = "multi_thread")]
async fn exp4_secrets() {
    let desk = Desk::new([code("print('NcS9euQa'[::-1])"), answer("aQue9ScN")]);
    let run = desk
        .run(start("Return the secret backwards. The secret is NcS9euQa"))
        .await;
    assert_eq!(answer_of(&run), "aQue9ScN");
    let desk = Desk::new([
        code("print('apple,banana,cherry'.split(',')[1])"),
        answer("banana"),
    ]);
    let run = desk
        .run(start("Return the second of apple,banana,cherry"))
        .await;
    assert_eq!(answer_of(&run), "banana");
}

/// S4: a CSV of 15 places becomes validated models: 3A 9, 4A 5, 5A 1; 26.5 hours, 1.8 on average.
#[tokio::test(flavor = "multi_thread")]
async fn s4_scenic_spots() {
    let mut csv = String::from("name,level,hours\n");
    for number in 0..15 {
        let level = match number {
            0..9 => "3A",
            9..14 => "4A",
            _ => "5A",
        };
        let hours = if number == 14 { "4.1" } else { "1.6" };
        let _ = writeln!(csv, "景点{number},{level},{hours}");
    }
    let desk = Desk::new([
        code(
            "import pandas as pd\nfrom pydantic import BaseModel, field_validator\nclass Spot(BaseModel):\n    name: str\n    level: str\n    hours: float\nspots = [Spot(**row) for row in pd.read_csv('spots.csv').to_dict('records')]\nlevels = pd.Series([spot.level for spot in spots]).value_counts()\nprint(len(spots), levels['3A'], levels['4A'], levels['5A'])\ntotal = sum(spot.hours for spot in spots)\nprint(round(total, 1), round(total / len(spots), 1))",
        ),
        answer("15 spots: 3A 9, 4A 5, 5A 1; 26.5 hours in all, 1.8 on average."),
    ]);
    let agent = desk.agent().await;
    let file = agent.file("spots.csv", csv.into_bytes()).await.unwrap();
    let mut start = start("Load spots.csv into validated models and sum it up.");
    start.files.push(file);
    let run = crate::support::drive(agent.start(start).await.unwrap()).await;
    assert_eq!(
        answer_of(&run),
        "15 spots: 3A 9, 4A 5, 5A 1; 26.5 hours in all, 1.8 on average."
    );
    let unseen: Vec<_> = run
        .ending()
        .unwrap()
        .evidence
        .iter()
        .filter(|v| v.seen.is_none())
        .collect();
    assert!(unseen.is_empty(), "{unseen:?}");
    assert!(
        desk.last_conversation().contains("景点0,3A,1.6"),
        "the file's beginning is shown"
    );
}

/// S7: a plot with Chinese labels is drawn without missing glyphs, and is kept as a file.
#[tokio::test(flavor = "multi_thread")]
async fn s7_a_plot_with_chinese_labels() {
    let desk = Desk::new([
        code(
            "import warnings\nwarnings.simplefilter('error')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\nplt.title('北京地铁线路图')\nplt.savefig('plot.png')\nprint('saved')",
        ),
        answer("The plot is in plot.png."),
    ])
    .with_libraries();
    let agent = desk.agent().await;
    let live = agent
        .start(start("Draw the subway network."))
        .await
        .unwrap();
    let artifacts = live.artifacts();
    let run = crate::support::drive(live).await;
    assert_eq!(run.ending().unwrap().artifacts[0].path, "plot.png");
    let png = std::fs::read(artifacts.join("plot.png")).unwrap();
    assert_eq!(&png[..4], b"\x89PNG");
}

/// S15 and S16 by native tool calls, several in one reply (AGT-7): each gets exactly one result.
#[tokio::test(flavor = "multi_thread")]
async fn s15_s16_native_tools() {
    let plan = |tasks: serde_json::Value| json!({"tool_call_purpose": "plan", "recursive_plan_tree": {"core_goal": "g", "tree_nodes": tasks}});
    let first = json!([{"task_id": "TASK-1", "task_name": "Setup", "status": "pending"}]);
    let second = json!([{"task_id": "TASK-1", "task_name": "Setup", "status": "completed"}, {"task_id": "TASK-2", "task_name": "Execute", "status": "pending"}]);
    let desk = Desk::new([
        Scripted::call(PLAN, plan(first))
            .and_call(
                READ_FILE,
                json!({"file_path": "a.txt", "tool_call_purpose": "look"}),
            )
            .and_call(READ_FILE, json!({"file_path": "missing.txt"}))
            .and_call("no_such_tool", json!({})),
        Scripted::call(PLAN, plan(second)),
        Scripted::call("answer", json!({"text": "The file says 北."})),
    ]);
    let agent = desk.agent().await;
    let mut start = start("Read the file.");
    start.dialect = Dialect::NativeTools;
    start.tools = vec![PLAN.into(), READ_FILE.into()];
    start
        .files
        .push(agent.file("a.txt", "北\n".into()).await.unwrap());
    let run = crate::support::drive(agent.start(start).await.unwrap()).await;
    assert_eq!(answer_of(&run), "The file says 北.");
    assert_eq!(run.ending().unwrap().reason, ExitReason::Answered);
    let requests = desk.model.requests();
    assert_eq!(requests.len(), 3);
    let messages = requests[1].json()["messages"].as_array().unwrap().clone();
    let results: Vec<_> = messages.iter().filter(|m| m["role"] == "tool").collect();
    assert_eq!(results.len(), 4, "{messages:#?}");
    let calls = messages.iter().find(|m| m["role"] == "assistant").unwrap()["tool_calls"].clone();
    for (call, result) in calls.as_array().unwrap().iter().zip(&results) {
        assert_eq!(call["id"], result["tool_call_id"]);
    }
    let text = |n: usize| results[n]["content"].to_string();
    assert!(text(1).contains("File contents (2 chars)"), "{}", text(1));
    assert!(text(2).contains("does not exist"), "{}", text(2));
    assert!(
        text(3).contains("There is no tool `no_such_tool`"),
        "{}",
        text(3)
    );
    let last = desk.last_conversation();
    assert!(last.contains("Execute") && last.contains("Setup"), "{last}");
}

/// S2: an error is seen, its cause is found, and the run continues with the state that it has.
#[tokio::test(flavor = "multi_thread")]
async fn s2_an_error_is_seen_through() {
    let desk = Desk::new([
        code("rows = [{'a': 1}, {'a': None}]\ntotal = sum(row['a'] for row in rows)"),
        code("total = sum(row['a'] or 0 for row in rows)\nprint(total)"),
        answer("1"),
    ]);
    let run = desk.run(start("Sum the column a.")).await;
    assert_eq!(answer_of(&run), "1");
    let talk = desk.last_conversation();
    assert!(talk.contains("TypeError"), "{talk}");
}
