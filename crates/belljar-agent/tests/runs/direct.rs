//! Tools that the model calls by itself, and what that costs against code that calls them.

use belljar_agent::{
    Approvals, Budget, Dialect, Given, HostTool, Invocation, Policy, Run, RunEvent, Start,
    ToolEffects,
};
use belljar_test_model::Scripted;
use serde_json::{Value, json};

use crate::bridge::{World, stub};
use crate::support::{Desk, answer_of, drive, start};

fn native(task: &str) -> Start {
    Start {
        dialect: Dialect::NativeTools,
        context_window: 2_000_000,
        budget: Budget {
            steps: 60,
            ..Budget::default()
        },
        ..start(task)
    }
}

/// Row `n` of the table.
fn row(n: i64) -> Value {
    let cities = ["Oslo", "Rome", "Lima", "Cairo", "Delhi"];
    let city = cities[usize::try_from(n * 7 % 5).unwrap()];
    json!({"order": n, "city": city, "amount": (n * 37) % 1000 + 100 * i64::from(city == "Rome")})
}

/// Fifty tools, of which two know a table of 10,000 rows: one gives all of it, one a page.
fn tools() -> Vec<HostTool> {
    let table = json!({"type": "array", "x-belljar": "table"});
    let range = json!({"from": {"type": "integer"}, "count": {"type": "integer"}});
    let rows = |call: Invocation| {
        let number = |name: &str, usual| {
            call.arguments
                .get(name)
                .and_then(Value::as_i64)
                .unwrap_or(usual)
        };
        let from = number("from", 0);
        let to = (from + number("count", 10_000)).min(10_000);
        Ok(Given::Value((from..to).map(row).collect()))
    };
    let mut tools = vec![HostTool::new(
        stub("orders", &range, Some(table)),
        ToolEffects::None,
        move |call| std::future::ready(rows(call)),
    )];
    for n in 1..50 {
        let mut other = stub(
            &format!("service_{n}"),
            &json!({"id": {"type": "string"}, "detail": {"type": "boolean"}}),
            None,
        );
        other.description = format!(
            "Looks up what service {n} knows of an id. Returns its record with all fields."
        );
        tools.push(HostTool::new(other, ToolEffects::None, async |_| {
            Ok(Given::Value(json!(1)))
        }));
    }
    tools
}

const TASK: &str = "Which city has the largest sum of amounts of all orders?";

fn final_answer() -> Scripted {
    Scripted::call("answer", json!({"text": "It is `Rome`."}))
}

async fn run_with(script: Vec<Scripted>, tools: Vec<HostTool>) -> Run {
    let desk = Desk::new(script);
    let agent = desk.agent().await.tools(tools);
    let run = drive(agent.start(native(TASK)).await.unwrap()).await;
    assert_eq!(answer_of(&run), "It is `Rome`.");
    run
}

/// The same task over 50 tools and 10,000 rows, with the same model: once its code calls the tools,
/// once it calls them itself and reads all rows. docs/tools.md has the figures.
#[tokio::test(flavor = "multi_thread")]
async fn code_on_the_bridge_needs_few_tokens() {
    let code = "orders = tools.orders()\nsums = orders.groupby('city')['amount'].sum()\n\
                print(len(orders), sums.idxmax(), sums.max())";
    let script = vec![
        Scripted::call("python", json!({"code": code})),
        final_answer(),
    ];
    let bridge = run_with(script, tools()).await;
    // It is the true result, and not only what the script says.
    let output = &bridge.steps()[0].calls[0].result().unwrap().text;
    assert!(output.starts_with("10000 Rome "), "{output}");
    let mut script: Vec<Scripted> = (0..25)
        .map(|page| Scripted::call("orders", json!({"from": page * 400, "count": 400})))
        .collect();
    script.push(final_answer());
    let direct = tools().into_iter().map(HostTool::direct).collect();
    let direct = run_with(script, direct).await;
    let (bridge, direct) = (bridge.spent().tokens(), direct.spent().tokens());
    println!("on the bridge {bridge} tokens, directly {direct} tokens");
    assert!(direct > 100 * bridge, "{direct} {bridge}");
    let page = include_str!("../../../../docs/tools.md");
    let thousands = |tokens: u64| format!("{} thousand", tokens.div_ceil(500) / 2);
    for figure in [thousands(bridge), thousands(direct)] {
        assert!(
            page.contains(&figure),
            "docs/tools.md does not say {figure}"
        );
    }
}

/// A call of the model itself waits for a person as one of code does.
#[tokio::test(flavor = "multi_thread")]
async fn a_direct_call_waits_for_a_person() {
    let world = World::default();
    let desk = Desk::new([
        Scripted::call("mail", json!({"n": 21})),
        Scripted::call("mail", json!({"n": 3})),
        Scripted::call("answer", json!({"text": "42"})),
    ]);
    let tool = world.doubling("mail", ToolEffects::EachCall).direct();
    let agent = desk.agent().await.tools(vec![tool]);
    let wanted = Start {
        approvals: Approvals {
            policy: Policy::Risky,
            ..Approvals::default()
        },
        ..native("Double it.")
    };
    let live = agent.start(wanted).await.unwrap();
    let id = live.id().clone();
    let run = drive(live.unattended()).await;
    assert_eq!(world.done().len(), 0);
    let asked = run.undecided()[0].clone();
    let mut live = agent.resume(&id).await.unwrap().unattended();
    let accept = belljar_agent::Decision::Accept { rest_of_run: false };
    live.decide(&asked.id, &asked.hash, accept).await.unwrap();
    let run = drive(live).await;
    assert_eq!(world.done().len(), 1);
    let asked = run.undecided()[0].clone();
    let mut live = agent.resume(&id).await.unwrap().unattended();
    let reject = belljar_agent::Decision::Reject;
    live.decide(&asked.id, &asked.hash, reject).await.unwrap();
    let run = drive(live).await;
    assert_eq!(answer_of(&run), "42");
    assert_eq!(world.done().len(), 1);
    let refused = run.steps()[1].calls[0].result().unwrap();
    assert_eq!(refused.text, "a person does not allow this call");
    let events = desk.events(&id).await;
    let decided = events
        .iter()
        .filter(|e| matches!(e, RunEvent::ApprovalDecided { .. }));
    assert_eq!(decided.count(), 2);
}
