//! Code of a run calls tools of the host (TOL-2), also when the host dies meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_agent::{
    Agent, Approvals, Budget, Decision, Given, HostTool, Invocation, Policy, Progress, Run,
    RunEvent, Start, Subject, ToolEffects,
};
use belljar_sandbox::protocol::{ToolError, ToolStub};
use belljar_test_model::ScriptedModel;
use serde_json::{Value, json};

use crate::support::{Desk, answer, answer_of, code, drive, start};

pub(crate) fn stub(name: &str, parameters: &Value, result: Option<Value>) -> ToolStub {
    ToolStub {
        name: name.into(),
        description: format!("The tool {name}."),
        parameters: json!({"type": "object", "properties": parameters}),
        result,
    }
}

/// What was done to the world: how often each call was performed, by key.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<BTreeMap<String, u32>>>);

impl World {
    pub(crate) fn done(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap().clone()
    }

    fn act(&self, key: &str) -> u32 {
        let mut done = self.0.lock().unwrap();
        let times = done.entry(key.to_owned()).or_default();
        *times += 1;
        *times
    }

    /// A tool that doubles a number after some time, and has an effect once for each key.
    pub(crate) fn doubling(&self, name: &str, effects: ToolEffects) -> HostTool {
        let world = self.clone();
        let schema = json!({"n": {"type": "integer"}});
        let number = Some(json!({"type": "integer"}));
        HostTool::new(
            stub(name, &schema, number),
            effects,
            move |call: Invocation| {
                let world = world.clone();
                async move {
                    let n = call.arguments["n"].as_i64().unwrap();
                    tokio::time::sleep(Duration::from_millis(u64::try_from(n % 7).unwrap())).await;
                    // An effect of a tool that takes keys is one however often it is asked for.
                    if effects != ToolEffects::Once || !world.done().contains_key(&call.key) {
                        world.act(&call.key);
                    }
                    Ok(Given::Value(json!(2 * n)))
                }
            },
        )
    }
}

fn tools() -> Vec<HostTool> {
    let table = json!({"type": "array", "x-belljar": "table"});
    let sales = HostTool::new(
        stub("sales", &json!({"year": {"type": "integer"}}), Some(table)),
        ToolEffects::None,
        async |call: Invocation| match call.arguments["year"].as_i64() {
            Some(2025) => Ok(Given::Value(
                json!([{"city": "Oslo", "sum": 120}, {"city": "Rome", "sum": 345}]),
            )),
            _ => Err(ToolError("there are no sales of that year".into())),
        },
    );
    let chart = HostTool::new(
        stub("chart", &json!({"title": {"type": "string"}}), None),
        ToolEffects::None,
        async |_| {
            Ok(Given::Kept {
                mime: "image/png".into(),
                data: b"\x89PNG not really".to_vec(),
            })
        },
    );
    let poem = HostTool::new(
        stub("poem", &json!({}), None),
        ToolEffects::None,
        async |_| {
            Ok(Given::Kept {
                mime: "text/plain".into(),
                data: "Roses are red.".into(),
            })
        },
    );
    vec![sales, chart, poem]
}

/// The flow of the tool bridge (seed 003): code asks for a tool by name with arguments, the host
/// performs it, what is not JSON stands as a marker that is expanded in the final message.
#[tokio::test(flavor = "multi_thread")]
async fn code_calls_tools_and_markers_are_expanded() {
    let desk = Desk::new([
        code(
            "df = tools.sales(year=2025)\nprint(type(df).__name__, df['sum'].sum())\n\
             try:\n    tools.sales(year=1800)\nexcept tools.ToolError as error:\n    print('failed:', error)\n\
             print(tools.chart(title='Sales'), tools.poem())",
        ),
        answer("The sum is 465. ⟦chart:1⟧ says it all: ⟦poem:2⟧"),
    ]);
    let agent = desk.agent().await.tools(tools());
    let live = agent
        .start(start("What is the sum of sales?"))
        .await
        .unwrap();
    let (id, artifacts) = (live.id().clone(), live.artifacts());
    let run = drive(live).await;
    assert_eq!(
        answer_of(&run),
        "The sum is 465. chart-1.png says it all: Roses are red."
    );
    let seen = desk.last_conversation();
    assert!(seen.contains("DataFrame 465"), "{seen}");
    assert!(
        seen.contains("failed: there are no sales of that year"),
        "{seen}"
    );
    assert!(seen.contains("⟦chart:1⟧ ⟦poem:2⟧"), "{seen}");
    let kept = std::fs::read(artifacts.join("chart-1.png")).unwrap();
    assert_eq!(kept, b"\x89PNG not really");
    let ending = run.ending().unwrap();
    assert_eq!(ending.artifacts.last().unwrap().path, "chart-1.png");
    // The markers' numbers are no values of the answer.
    let values: Vec<&str> = ending.evidence.iter().map(|e| e.value.as_str()).collect();
    assert_eq!(values, ["465"]);
    assert_eq!(run.spent().cell_calls, 4);
    let kinds: Vec<&str> = desk.events(&id).await.iter().map(RunEvent::kind).collect();
    let called = kinds.iter().filter(|kind| **kind == "tool_called").count();
    let answered = kinds
        .iter()
        .filter(|kind| **kind == "tool_answered")
        .count();
    assert_eq!((called, answered), (4, 4));
}

/// The prompt describes the granted tools, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_told_of_the_tools() {
    let desk = Desk::new([code("print(40 + 2)"), answer("42")]);
    let agent = desk.agent().await.tools(tools());
    drive(agent.start(start("What?")).await.unwrap()).await;
    let seen = desk.last_conversation();
    for part in [
        "\n- sales(year: int",
        ") -> DataFrame: The tool sales.\n",
        "\n- poem() -> Any",
    ] {
        assert!(seen.contains(part), "no {part:?} in {seen}");
    }
}

/// A gate before the run: what can't succeed is reported for the price of a turn, and nothing was done.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_calls_are_told_before_anything_runs() {
    let desk = Desk::new([
        code("print('begun')\ndf = tools.sale(year=2025)"),
        code("print('begun')\ndf = tools.sales(jahr=2025)"),
        code("print(tools.sales(year=2025)['sum'].sum())"),
        answer("465"),
    ]);
    let agent = desk.agent().await.tools(tools());
    let run = drive(agent.start(start("The sum?")).await.unwrap()).await;
    assert_eq!(answer_of(&run), "465");
    let seen = desk.last_conversation();
    assert!(
        seen.contains("- line 2: there is no `tools.sale`; there are: `sales`"),
        "{seen}"
    );
    assert!(
        seen.contains("no parameter `jahr`; it is `tools.sales(year"),
        "{seen}"
    );
    assert!(!seen.contains("\nbegun\n"), "{seen}");
    assert_eq!(run.spent().cell_calls, 1);
}

/// Attack L2: a loop calls and calls. The budget of the run bounds it, not only that of a cell.
#[tokio::test(flavor = "multi_thread")]
async fn l2_a_run_has_a_budget_of_calls() {
    let world = World::default();
    let loop_code = "n = 0\ntry:\n    while True:\n        tools.double(n=n)\n        n += 1\n\
                     except tools.ToolError as error:\n    print(n, 'calls:', error)";
    let desk = Desk::new([
        code(loop_code),
        code(&format!("x = 1\n{loop_code}")),
        answer("30 calls"),
    ]);
    let agent = desk
        .agent()
        .await
        .tools(vec![world.doubling("double", ToolEffects::None)]);
    let wanted = Start {
        budget: Budget {
            cell_calls: 30,
            ..Budget::default()
        },
        ..start("Count.")
    };
    let run = drive(agent.start(wanted).await.unwrap()).await;
    assert_eq!(world.done().len(), 30);
    assert_eq!(run.spent().cell_calls, 30);
    let seen = desk.last_conversation();
    assert!(
        seen.contains("30 calls: the code of this run may call tools 30 times"),
        "{seen}"
    );
    assert!(seen.contains("0 calls: the code"), "{seen}");
}

const MANY: u32 = 1000;

fn many_calls() -> ScriptedModel {
    ScriptedModel::react(|request| {
        let talk = request.json().to_string();
        if talk.contains("total is") {
            return answer("The total is 1234500.");
        }
        code(
            "import asyncio\nbase = 235500\n\
             async def one(n):\n    return await (tools.act(n=n) if n % 10 else tools.mail(n=n))\n\
             got = await asyncio.gather(*[one(n) for n in range(1000)])\n\
             assert got == [2 * n for n in range(1000)], got\n\
             print('total is', base + sum(got))",
        )
    })
    .unwrap()
}

/// Accepts what a run asks for, as it asks.
async fn drive_accepting(live: belljar_agent::LiveRun) -> Run {
    let control = live.control();
    let (sender, mut asked) = tokio::sync::mpsc::unbounded_channel::<(String, String)>();
    let person = tokio::spawn(async move {
        while let Some((id, hash)) = asked.recv().await {
            let accept = Decision::Accept { rest_of_run: false };
            let _ = control.decide(&id, &hash, accept).await;
        }
    });
    for approval in live.run().undecided() {
        sender
            .send((approval.id.clone(), approval.hash.clone()))
            .unwrap();
    }
    let run = live
        .drive(&mut |progress| {
            if let Progress::Event(RunEvent::ApprovalAsked(approval), _) = progress {
                let _ = sender.send((approval.id.clone(), approval.hash.clone()));
            }
        })
        .await
        .unwrap();
    drop(sender);
    person.abort();
    run
}

async fn agent_with(desk: &Desk, world: &World) -> Agent {
    desk.agent().await.tools(vec![
        world.doubling("act", ToolEffects::Once),
        world.doubling("mail", ToolEffects::Once),
    ])
}

/// A cell makes a thousand calls at once, a hundred of them wait for a person, and the host dies in
/// the middle of it, several times: each effect is there exactly once, and all values are right.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_survive_restarts_exactly_once() {
    let desk = Desk::with(many_calls());
    let world = World::default();
    let wanted = Start {
        approvals: Approvals {
            tools: BTreeMap::from([("mail".into(), Policy::Always)]),
            ..Approvals::default()
        },
        ..start("Call them all.")
    };
    let agent = agent_with(&desk, &world).await;
    let live = agent.start(wanted).await.unwrap();
    let id = live.id().clone();
    // It dies when 400 calls have their answers: nobody has decided anything by then.
    die_after(live, 400).await;
    let asked = Run::fold(&desk.events(&id).await).unwrap();
    let half = asked.undecided().len() / 2;
    assert!(half > 5, "some wait for a person");
    // Somebody decides half of it while no host is there.
    let mut live = agent_with(&desk, &world).await.resume(&id).await.unwrap();
    for approval in asked.undecided().iter().take(half) {
        let accept = Decision::Accept { rest_of_run: false };
        live.decide(&approval.id, &approval.hash, accept)
            .await
            .unwrap();
    }
    assert_eq!(live.run().undecided().len(), asked.undecided().len() - half);
    // It dies again in the middle of the rest.
    die_after(live, 20).await;
    let live = agent_with(&desk, &world).await.resume(&id).await.unwrap();
    let run = Box::pin(drive_accepting(live)).await;
    assert_eq!(answer_of(&run), "The total is 1234500.");
    let done = world.done();
    assert_eq!(done.len(), MANY as usize, "each call was performed");
    let twice: Vec<_> = done.iter().filter(|(_, times)| **times != 1).collect();
    assert_eq!(twice, [], "and none twice");
    assert_eq!(run.spent().cell_calls, MANY, "nothing was begun twice");
    let cells = desk.events(&id).await;
    let lost = cells
        .iter()
        .filter(|e| matches!(e, RunEvent::CallLost { .. }));
    assert_eq!(lost.count(), 0);
}

/// Drives a run until this many calls were answered; then its host is gone.
async fn die_after(live: belljar_agent::LiveRun, answers: u32) {
    let (sender, mut dies) = tokio::sync::mpsc::unbounded_channel();
    let mut seen = 0;
    let driven = tokio::spawn(async move {
        live.drive(&mut |progress| {
            if let Progress::Event(RunEvent::ToolAnswered { .. }, _) = progress {
                seen += 1;
                if seen == answers {
                    let _ = sender.send(());
                    std::thread::sleep(Duration::from_millis(300));
                }
            }
        })
        .await
    });
    dies.recv().await.unwrap();
    driven.abort();
    let _ = driven.await;
}

/// A call that can't be made twice, and was under way when the host died: the code gets an error, and
/// nothing is guessed.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_unknown_effect_is_reported() {
    let desk = Desk::new([
        code(
            "try:\n    print(tools.slow())\nexcept tools.ToolError as error:\n    print('it says:', error)",
        ),
        answer("It is not known."),
    ]);
    let begun = Arc::new(tokio::sync::Notify::new());
    let told = begun.clone();
    let slow = move |hangs: bool| {
        let told = told.clone();
        HostTool::new(
            stub("slow", &json!({}), None),
            ToolEffects::EachCall,
            move |_| {
                let told = told.clone();
                async move {
                    told.notify_one();
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    Ok(Given::Value(json!("again")))
                }
            },
        )
    };
    let agent = desk.agent().await.tools(vec![slow(true)]);
    let live = agent.start(start("Do it.")).await.unwrap();
    let id = live.id().clone();
    let driven = tokio::spawn(async move { live.drive(&mut |_| ()).await });
    begun.notified().await;
    driven.abort();
    let _ = driven.await;
    let agent = desk.agent().await.tools(vec![slow(false)]);
    drive(agent.resume(&id).await.unwrap()).await;
    let seen = desk.last_conversation();
    assert!(
        seen.contains("it says: the host was restarted while this call"),
        "{seen}"
    );
    assert!(!seen.contains("again"), "{seen}");
}

/// Code that calls something else when it is run again is abandoned, and the model learns what it
/// had done.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_differs_is_given_up() {
    let world = World::default();
    let desk = Desk::new([
        code("kept = 7"),
        code(
            "import os\nn = int.from_bytes(os.urandom(6), 'big')\n\
             first = tools.act(n=n)\nprint(first, tools.mail(n=1))",
        ),
        code("print('kept is', kept, 'first' in globals())"),
        answer("kept is 7"),
    ]);
    let agent = agent_with(&desk, &world).await;
    let wanted = Start {
        approvals: Approvals {
            tools: BTreeMap::from([("mail".into(), Policy::Always)]),
            ..Approvals::default()
        },
        ..start("Do it.")
    };
    // Nobody is there: it ends where it waits for a person.
    let live = agent.start(wanted).await.unwrap().unattended();
    let id = live.id().clone();
    let run = drive(live).await;
    assert!(run.ending().is_none());
    let [waits] = run.undecided() else {
        panic!("{:?}", run.undecided())
    };
    assert!(matches!(&waits.subject, Subject::Call { tool, .. } if tool == "mail"));
    let run = drive(agent.resume(&id).await.unwrap()).await;
    assert_eq!(answer_of(&run), "kept is 7");
    let seen = desk.last_conversation();
    assert!(
        seen.contains("called other tools than the first time"),
        "{seen}"
    );
    assert!(seen.contains("- act({\"n\":"), "{seen}");
    assert!(seen.contains("mail({\"n\":1}): not done"), "{seen}");
    assert!(seen.contains("kept is 7 False"), "{seen}");
    assert_eq!(world.done().len(), 1);
}

/// One process at a time drives a run.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_one_driver() {
    let desk = Desk::new([code("print(1)"), answer("1")]);
    let agent = desk.agent().await;
    let live = agent.start(start("One.")).await.unwrap();
    let refused = agent.resume(live.id()).await.unwrap_err().to_string();
    assert!(refused.contains("by another process"), "{refused}");
    let id = live.id().clone();
    drop(live);
    drive(agent.resume(&id).await.unwrap()).await;
}
