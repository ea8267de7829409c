//! PLN-1, PLN-2: the plan.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use belljar_agent::{PLAN, Plan, PlanChange, PlanFault, TaskStatus, find_tool};
use belljar_protocol::Language;
use proptest::prelude::*;
use serde_json::{Value, json};

fn call(plan: &mut Plan, nodes: Value) -> Result<belljar_agent::PlanUpdate, PlanFault> {
    let mut arguments = json!({
        "tool_call_purpose": "plan",
        "recursive_plan_tree": { "core_goal": "goal" },
    });
    arguments["recursive_plan_tree"]["tree_nodes"] = nodes;
    plan.call(&arguments)
}

/// S16: the plan of two versions.
#[test]
fn s16_a_status_changes_and_a_task_is_added() {
    let mut plan = Plan::default();
    let setup = |status| json!({ "task_id": "TASK-1", "task_name": "Setup", "status": status });
    let first = call(&mut plan, json!([setup("pending")])).unwrap();
    assert!(
        first
            .summary(Language::Chinese)
            .starts_with("✅ 首次创建计划树")
    );
    let second = call(
        &mut plan,
        json!([setup("completed"), { "task_id": "TASK-2", "task_name": "Execute" }]),
    )
    .unwrap();
    let summary = second.summary(Language::Chinese);
    assert_eq!(
        summary,
        "🆕 新增任务：Execute\n🔄 状态变更：Setup（待执行 → 执行成功）"
    );
    assert_eq!(second.ready, ["Execute"]);
    assert_eq!(second.statistics.percent(TaskStatus::Completed), 50);
    let text = second.text(Language::English);
    assert_eq!(
        text,
        "### Changes\n🆕 Added: Execute\n🔄 Status: Setup (pending → completed)\n\
         ### Checklist\n- [✅] **Setup** (ID: TASK-1)\n- [⏳] **Execute** (ID: TASK-2)\n\
         ### Statistics\n2 tasks: pending 1, processing 0, completed 1, failed 0, retry 0, skipped 0; \
         50 % completed\n### Ready to be done\nExecute\n"
    );
    let third = call(
        &mut plan,
        json!([setup("completed"), { "task_id": "TASK-2", "task_name": "Execute" }]),
    )
    .unwrap();
    assert_eq!(third.summary(Language::Chinese), "ℹ️ 计划树无明显变更");
}

/// PLN-2: ids stay although the model leaves them out, and are never given twice.
#[test]
fn tasks_keep_their_ids_by_name() {
    let mut plan = Plan::default();
    let first = call(
        &mut plan,
        json!([{ "task_name": "a" }, { "task_name": "b" }]),
    )
    .unwrap();
    let second = call(
        &mut plan,
        json!([{ "task_name": "b" }, { "task_name": "c" }]),
    )
    .unwrap();
    assert_eq!(
        first.tree.tree_nodes[1].task_id,
        second.tree.tree_nodes[0].task_id
    );
    let changes = [
        PlanChange::Added { name: "c".into() },
        PlanChange::Removed { name: "a".into() },
    ];
    assert_eq!(second.changes, changes);
    assert_eq!(second.tree.tree_nodes[1].task_id, "TASK-3");
    // The model may name an id itself that would have come next.
    let own = json!([{ "task_name": "d" }, { "task_name": "e", "task_id": "TASK-4" }]);
    let third = call(&mut plan, own).unwrap();
    assert_eq!(third.tree.tree_nodes[0].task_id, "TASK-5");
}

/// PLN-2: a move is reported by parent; renaming the parent is none.
#[test]
fn moves_and_renamed_parents() {
    let mut plan = Plan::default();
    let leaf = json!({ "task_id": "L", "task_name": "leaf" });
    call(
        &mut plan,
        json!([{ "task_id": "A", "task_name": "a", "children": [leaf] }, { "task_id": "B", "task_name": "b" }]),
    )
    .unwrap();
    let renamed = call(
        &mut plan,
        json!([{ "task_id": "A", "task_name": "a2", "children": [leaf] }, { "task_id": "B", "task_name": "b", "children": null }]),
    )
    .unwrap();
    assert_eq!(renamed.changes, []);
    let moved = call(
        &mut plan,
        json!([{ "task_id": "A", "task_name": "a2" }, { "task_id": "B", "task_name": "b" }, leaf]),
    )
    .unwrap();
    assert_eq!(
        moved.summary(Language::English),
        "📌 Moved: leaf (parent: a2 → root)"
    );
}

/// PLN-2: what is not sound is refused by name, and the plan stays.
#[test]
fn faults_are_told() {
    let mut plan = Plan::default();
    call(&mut plan, json!([{ "task_name": "a" }])).unwrap();
    let before = plan.clone();
    let mut fault = |nodes| call(&mut plan, nodes).unwrap_err().to_string();
    let same = fault(json!([{ "task_name": "x", "children": [{ "task_name": "x" }] }]));
    assert!(same.contains("two tasks are named `x`"), "{same}");
    let missing = fault(json!([{ "task_name": "x", "dependencies": ["y"] }]));
    assert_eq!(missing, "`x` depends on `y`, which is no task of the plan");
    let circle = fault(json!([
        { "task_name": "x", "dependencies": ["y"] },
        { "task_name": "y", "dependencies": ["z"] },
        { "task_name": "z", "dependencies": ["x"] },
    ]));
    assert_eq!(circle, "these tasks wait for each other: x → y → z → x");
    let own_parent = fault(json!([
        { "task_name": "x", "children": [{ "task_name": "y", "dependencies": ["x"] }] },
    ]));
    assert_eq!(own_parent, "these tasks wait for each other: x → y → x");
    let status = fault(json!([{ "task_name": "x", "status": "done" }]));
    for word in [
        "done",
        "pending",
        "processing",
        "completed",
        "failed",
        "retry",
        "skipped",
    ] {
        assert!(status.contains(word), "{status}");
    }
    assert!(fault(json!([{ "task_name": " " }])).contains("task_name"));
    let ids = json!([{ "task_name": "x", "task_id": "1" }, { "task_name": "y", "task_id": "1" }]);
    assert!(fault(ids).contains("the id `1`"));
    let mut deep = json!({ "task_name": "0" });
    for level in 1..=64 {
        deep = json!({ "task_name": level.to_string(), "children": [deep] });
    }
    assert!(fault(json!([deep])).contains("levels deep"));
    assert_eq!(plan, before);
}

/// PLN-2: what can be done next.
#[test]
fn ready_tasks_wait_for_dependencies_of_their_parents_too() {
    let mut plan = Plan::default();
    let update = call(
        &mut plan,
        json!([
            { "task_name": "load", "status": "completed" },
            { "task_name": "clean", "dependencies": ["load"], "children": [
                { "task_name": "dates" },
                { "task_name": "names", "dependencies": ["dates"] },
            ] },
            { "task_name": "plot", "dependencies": ["clean"], "children": [{ "task_name": "axes" }] },
            { "task_name": "again", "status": "retry" },
            { "task_name": "after failure", "dependencies": ["broken"] },
            { "task_name": "broken", "status": "failed", "references": ["unknown members are left out"] },
        ]),
    )
    .unwrap();
    assert_eq!(update.ready, ["dates", "again"]);
    let text = update.text(Language::English);
    assert!(text.contains("  - [⏳] **dates**"), "{text}");
    assert!(
        text.contains("**broken** (ID: TASK-9) | status: failed"),
        "{text}"
    );
}

/// The schema is one that a provider can send: the tree refers to itself.
#[test]
fn the_schema_is_recursive() {
    let spec = find_tool(PLAN).unwrap().spec(Language::English);
    let children = &spec.parameters["$defs"]["Task"]["properties"]["children"];
    assert!(
        children.to_string().contains("#/$defs/Task"),
        "{}",
        spec.parameters
    );
    assert_eq!(
        spec.parameters["$defs"]["Task"]["required"],
        json!(["task_name"])
    );
}

fn nodes(depth: u32) -> impl Strategy<Value = Value> {
    let leaf = (
        "[a-f]{1,3}",
        "[pcx]",
        prop::option::of("[1-4]"),
        prop::collection::vec("[a-f]{1,2}", 0..2),
    );
    let task = leaf.prop_map(|(name, status, id, dependencies)| {
        let status = if status == "p" {
            "pending"
        } else {
            "completed"
        };
        let mut task = json!({ "task_name": name, "status": status, "dependencies": dependencies });
        if let Some(id) = id {
            task["task_id"] = json!(id);
        }
        json!([task])
    });
    task.prop_recursive(depth, 12, 4, |inner| {
        prop::collection::vec((inner, "[a-f]{1,3}"), 1..4).prop_map(|parts| {
            let part = |(children, name)| json!({ "task_name": name, "children": children });
            Value::Array(parts.into_iter().map(part).collect())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same tree again is no change, whatever was before; its own tree with ids too.
    #[test]
    fn the_same_again_is_no_change(trees in prop::collection::vec(nodes(3), 1..4)) {
        let mut plan = Plan::default();
        for tree in trees {
            let Ok(update) = call(&mut plan, tree.clone()) else { continue };
            prop_assert_eq!(call(&mut plan, tree).unwrap().changes, []);
            let mut again = plan.clone();
            prop_assert_eq!(again.update(update.tree).unwrap().changes, []);
            prop_assert_eq!(again, plan.clone());
        }
    }
}
