//! S1: emergency response planning from end to end, through a plan of twelve tasks.

use belljar_agent::{CallResult, Dialect, ExitReason, PLAN, Run, Start, TaskStatus};
use belljar_sandbox::protocol::Language;
use belljar_test_model::Scripted;
use serde_json::{Value, json};

use crate::emergency_data::{Expected, FILES, Scenario, expected, scenario, schema};
use crate::support::{Desk, answer_of, drive, start};

/// The tasks of the source document, and the places of those that they depend on.
const TASKS: [(&str, &[usize]); 12] = [
    ("读取并解析 schema.json 文件", &[]),
    ("读取并检查应急响应数据文件", &[1]),
    ("构建数据模型类", &[1]),
    ("实现数据加载器", &[2, 3]),
    ("分析数据分布特征", &[4]),
    ("模拟单一救援场景", &[4]),
    ("设计动态调度算法框架", &[3]),
    ("实现基础指派算法（贪心策略）", &[7]),
    ("实现高级指派算法（加权评分模型）", &[8]),
    ("设计路径重规划机制", &[9]),
    ("评估算法性能指标", &[8, 9]),
    ("运行多组对比实验", &[11]),
];

/// The plan with the first tasks completed, and one more processing.
fn plan(completed: usize) -> Value {
    let tasks: Vec<Value> = TASKS
        .iter()
        .zip(1..)
        .map(|((name, needs), number)| {
            let needs: Vec<&str> = needs.iter().map(|need| TASKS[need - 1].0).collect();
            let status = if number <= completed { "completed" } else { "pending" };
            json!({"task_id": format!("T{number}"), "task_name": name, "status": status, "dependencies": needs})
        })
        .collect();
    json!({
        "tool_call_purpose": "更新计划",
        "recursive_plan_tree": {"core_goal": "应急物资运输调度研究", "tree_nodes": tasks},
    })
}

/// A reply with the state of the plan and the next cell.
fn step(completed: usize, code: &str) -> Scripted {
    Scripted::call(PLAN, plan(completed))
        .and_call("python", json!({"code": code, "tool_call_purpose": "继续"}))
}

fn script(final_answer: &str) -> Vec<Scripted> {
    let cells = [
        (0, include_str!("cells/s1_schema.py")),
        // The error of the source document: the wrong encoding.
        (
            1,
            "with open('emergency_response_data_01.json', encoding='ascii') as file:\n    json.load(file)",
        ),
        (1, include_str!("cells/s1_validate.py")),
        (3, include_str!("cells/s1_load.py")),
        (4, include_str!("cells/s1_statistics.py")),
        (6, include_str!("cells/s1_greedy.py")),
        (8, include_str!("cells/s1_weighted.py")),
        (9, include_str!("cells/s1_replan.py")),
        (10, include_str!("cells/s1_compare.py")),
    ];
    let mut script: Vec<Scripted> = cells.map(|(done, code)| step(done, code)).into();
    script.push(Scripted::call(PLAN, plan(12)));
    script.push(Scripted::call("answer", json!({"text": final_answer})));
    script
}

fn answer_text(expected: &Expected) -> String {
    let [high, medium, low] = expected.priorities;
    let [plain, risky] = expected.paths;
    format!(
        "共 60 个任务：高 {high}、中 {medium}、低 {low}。贪心总距离 {:.2} 公里，{} 个任务未指派。路径 {plain:.3}，避开风险后 {risky:.3}。",
        expected.greedy_kilometres, expected.unassigned
    )
}

/// The result of a tool in a step.
fn result(run: &Run, step: usize, tool: &str) -> CallResult {
    let calls = &run.steps()[step].calls;
    let call = calls.iter().find(|call| call.tool == tool).unwrap();
    call.result().unwrap().clone()
}

fn check_plan(run: &Run) {
    let tree = run.plan().tree.as_ref().unwrap();
    let nodes: Vec<(&str, Vec<&str>)> = tree
        .tree_nodes
        .iter()
        .map(|task| {
            assert_eq!(task.status, TaskStatus::Completed, "{}", task.task_name);
            let needs = task.dependencies.iter().map(String::as_str);
            (task.task_name.as_str(), needs.collect())
        })
        .collect();
    let wanted: Vec<(&str, Vec<&str>)> = TASKS
        .iter()
        .map(|(name, needs)| (*name, needs.iter().map(|need| TASKS[need - 1].0).collect()))
        .collect();
    assert_eq!(nodes, wanted);
    let ready = |step: usize| -> String {
        let text = result(run, step, PLAN).text;
        let (_, ready) = text.split_once("### 可执行的任务\n").unwrap();
        ready.trim().to_owned()
    };
    assert_eq!(ready(0), TASKS[0].0);
    assert_eq!(
        ready(1),
        format!("{}、{}", TASKS[1].0, TASKS[2].0),
        "at the same time"
    );
    assert_eq!(ready(9), "无");
    let changes = result(run, 3, PLAN).text;
    assert!(
        changes.contains("🔄 状态变更：读取并检查应急响应数据文件（待执行 → 执行成功）"),
        "{changes}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_emergency_planning() {
    let scenarios: Vec<Scenario> = (1..=FILES).map(scenario).collect();
    let expected = expected(&scenarios);
    assert!(expected.unassigned > 0 && expected.paths[0] < expected.paths[1]);
    let said = answer_text(&expected);
    let desk = Desk::new(script(&said)).with_libraries();
    let agent = desk.agent().await;
    let mut start = Start {
        dialect: Dialect::NativeTools,
        language: Language::Chinese,
        tools: vec![PLAN.into()],
        ..start("根据数据特征制定研究计划，并分析如何将数据用于应急物资运输调度。")
    };
    let mut files = vec![("schema.json".to_owned(), schema())];
    for (scenario, number) in scenarios.iter().zip(1..) {
        let name = format!("emergency_response_data_{number:02}.json");
        files.push((name, scenario.json.clone()));
    }
    for (name, contents) in files {
        let contents = serde_json::to_vec_pretty(&contents).unwrap();
        start.files.push(agent.file(&name, contents).await.unwrap());
    }
    let live = agent.start(start).await.unwrap();
    let kept = live.artifacts();
    let run = drive(live).await;
    for (number, step) in run.steps().iter().enumerate() {
        for call in &step.calls {
            let result = call.result().unwrap();
            assert_eq!(
                result.failed,
                number == 1 && call.tool == "python",
                "{}",
                result.text
            );
        }
    }
    let ending = run.ending().unwrap();
    assert_eq!(ending.reason, ExitReason::Answered, "{ending:?}");
    assert_eq!(answer_of(&run), said);
    check_plan(&run);

    // The error of the second cell is reported, and what the cells found.
    let failure = result(&run, 1, "python").text;
    assert!(
        failure.contains("UnicodeDecodeError: 'ascii' codec"),
        "{failure}"
    );
    let output = |step: usize| result(&run, step, "python").cell.unwrap().output;
    assert!(
        output(0).contains("7 个实体： CARRIER、LOCATION、PATH"),
        "{}",
        output(0)
    );
    assert!(
        output(2).contains("Loaded 5 datasets,") && output(2).contains(" 0 problems"),
        "{}",
        output(2)
    );
    assert!(output(3).contains("60 个任务 20 个载具"), "{}", output(3));

    // The figures are those of the test, and each is traced to the cell that printed it.
    assert!(ending.evidence.len() >= 8, "{:?}", ending.evidence);
    for value in &ending.evidence {
        assert!(value.seen.is_some(), "{value:?} in {said}");
    }
    let [high, medium, low] = expected.priorities;
    assert!(
        output(4).contains(&format!("高 {high} 中 {medium} 低 {low}")),
        "{}",
        output(4)
    );
    let greedy = format!(
        "贪心总距离 {:.2} 公里，未指派 {}",
        expected.greedy_kilometres, expected.unassigned
    );
    assert!(output(5).contains(&greedy), "{greedy}: {}", output(5));

    // Charts were drawn with warnings as errors, so that no glyph is missing; they and the report
    // are kept.
    let names: Vec<&str> = ending
        .artifacts
        .iter()
        .map(|artifact| artifact.path.as_str())
        .collect();
    let charts = [
        "01_data_distribution.png",
        "02_single_scenario.png",
        "03_replan.png",
        "04_comparison.png",
    ];
    assert_eq!(names, [&charts[..], &["05_对比报告.md"]].concat());
    for chart in charts {
        let png = std::fs::read(kept.join(chart)).unwrap();
        assert_eq!(&png[..4], b"\x89PNG");
        assert!(output(4).contains("Visualization saved: /workspace/01_data_distribution.png"));
    }
    let report = std::fs::read_to_string(kept.join("05_对比报告.md")).unwrap();
    let done = f64::from(60 - u32::try_from(expected.unassigned).unwrap()) / 60.0;
    assert!(
        report.contains(&format!("| 完成率 | {done:.4} | {done:.4} |")),
        "{report}"
    );
}
