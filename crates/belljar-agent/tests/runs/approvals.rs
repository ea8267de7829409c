//! A person is asked before code runs, and before code that runs calls a tool (APR-1).

use std::time::{Duration, Instant};

use belljar_agent::{
    Agent, Approval, Approvals, Budget, Control, Decision, DecisionError, Dialect, ExitReason,
    LiveRun, Policy, Progress, RUN_COMMAND, Run, RunEvent, Start, Subject, ToolEffects,
};
use belljar_sandbox::{AllowList, Network, SessionOptions};
use belljar_test_model::Scripted;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use crate::bridge::World;
use crate::support::{Desk, answer, answer_of, code, drive, start};

const ACCEPT: Decision = Decision::Accept { rest_of_run: false };

fn asking(policy: Policy, task: &str) -> Start {
    Start {
        approvals: Approvals {
            policy,
            ..Approvals::default()
        },
        ..start(task)
    }
}

/// A run that is driven, and what it asks for.
struct Driven {
    control: Control,
    asked: UnboundedReceiver<Approval>,
    run: JoinHandle<Run>,
}

impl Driven {
    fn new(live: LiveRun) -> Self {
        let control = live.control();
        let (sender, asked) = tokio::sync::mpsc::unbounded_channel();
        let run = tokio::spawn(async move {
            let mut listener = |progress: Progress<'_>| {
                if let Progress::Event(RunEvent::ApprovalAsked(approval), _) = progress {
                    let _ = sender.send((**approval).clone());
                }
            };
            live.drive(&mut listener).await.unwrap()
        });
        Self {
            control,
            asked,
            run,
        }
    }

    async fn asks(&mut self) -> Approval {
        self.asked.recv().await.unwrap()
    }

    async fn decide(&self, asked: &Approval, decision: Decision) {
        let decided = self.control.decide(&asked.id, &asked.hash, decision).await;
        decided.unwrap();
    }

    async fn ends(self) -> Run {
        self.run.await.unwrap()
    }
}

fn code_of(asked: &Approval) -> &str {
    match &asked.subject {
        Subject::Cell { code, .. } => code,
        Subject::Command { .. } | Subject::Call { .. } => panic!("{asked:?}"),
    }
}

async fn agent(desk: &Desk, world: &World) -> Agent {
    desk.agent().await.tools(vec![
        world.doubling("look", ToolEffects::None),
        world.doubling("mail", ToolEffects::EachCall),
    ])
}

/// Accept, feedback, edit, reject: each is reported to the model, an edit as the person's.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_waits_for_a_person() {
    let desk = Desk::new([
        code("x = 1\nprint('x is', x)"),
        code("y = 2"),
        code("print('y', 3)"),
        code("print('z')"),
        answer("x is 1 and y is 4"),
    ]);
    let agent = desk.agent().await;
    let live = agent.start(asking(Policy::Always, "Do it.")).await.unwrap();
    let id = live.id().clone();
    let mut driven = Driven::new(live);
    let asked = driven.asks().await;
    assert_eq!(code_of(&asked), "x = 1\nprint('x is', x)");
    driven.decide(&asked, ACCEPT).await;
    let asked = driven.asks().await;
    let feedback = Decision::Feedback {
        text: "Print it, please.".into(),
    };
    driven.decide(&asked, feedback).await;
    let asked = driven.asks().await;
    let edit = Decision::Edit {
        code: "print('y is', 4)".into(),
    };
    driven.decide(&asked, edit).await;
    let asked = driven.asks().await;
    assert!(desk.last_conversation().contains("says: Print it, please."));
    assert!(
        desk.last_conversation()
            .contains("A person changed the code")
    );
    driven.decide(&asked, Decision::Reject).await;
    let run = driven.ends().await;
    assert_eq!(answer_of(&run), "x is 1 and y is 4");
    let seen = desk.last_conversation();
    assert!(seen.contains("```python\nprint('y is', 4)\n```"), "{seen}");
    assert!(seen.contains("y is 4\n"), "{seen}");
    assert!(
        seen.contains("does not allow it. Go another way."),
        "{seen}"
    );
    let events = desk.events(&id).await;
    let decisions: Vec<&Decision> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::ApprovalDecided { decision, .. } => Some(decision),
            _ => None,
        })
        .collect();
    assert_eq!(decisions.len(), 4);
    assert!(matches!(decisions[2], Decision::Edit { code } if code == "print('y is', 4)"));
    // What ran is what the notebook and a replay see.
    let edited = run.steps()[2].calls[0].code().unwrap();
    assert_eq!(edited, "print('y is', 4)");
}

/// A command is asked for as a cell is, and runs beside the variables and files of the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_for_a_person() {
    let run_command = |line: &str| Scripted::call(RUN_COMMAND, json!({"command": line}));
    let desk = Desk::new([
        run_command("echo 42 > n.txt; cat n.txt"),
        run_command("rm n.txt"),
        Scripted::call("python", json!({"code": "print(open('n.txt').read())"})),
        Scripted::call("answer", json!({"text": "It is 42."})),
    ]);
    let start = Start {
        dialect: Dialect::NativeTools,
        tools: vec![RUN_COMMAND.into()],
        ..asking(Policy::Always, "What is in the file?")
    };
    let live = desk.agent().await.start(start).await.unwrap();
    let mut driven = Driven::new(live);
    for (line, decision) in [
        ("echo 42 > n.txt; cat n.txt", ACCEPT),
        ("rm n.txt", Decision::Reject),
    ] {
        let asked = driven.asks().await;
        let Subject::Command { command, .. } = &asked.subject else {
            panic!("{asked:?}");
        };
        assert_eq!(command.command, line);
        let edit = Decision::Edit { code: "ls".into() };
        let edited = driven.control.decide(&asked.id, &asked.hash, edit).await;
        assert_eq!(edited, Err(DecisionError::NotCode));
        driven.decide(&asked, decision).await;
    }
    let asked = driven.asks().await;
    let seen = desk.last_conversation();
    assert!(seen.contains("[exit code 0]\nstdout:\n42"), "{seen}");
    driven.decide(&asked, ACCEPT).await;
    let run = driven.ends().await;
    assert_eq!(answer_of(&run), "It is 42.");
    let failed: Vec<bool> = run
        .steps()
        .iter()
        .flat_map(|step| &step.calls)
        .filter_map(|call| Some(call.result()?.failed))
        .collect();
    assert_eq!(failed[..3], [false, true, false]);
}

/// Without approvals: failures and time limits are the model's to see, and a stop ends the command.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_fails_times_out_and_is_stopped() {
    let run_command = |line: &str, seconds: u32| {
        let arguments = json!({"command": line, "timeout_seconds": seconds});
        Scripted::call(RUN_COMMAND, arguments)
    };
    let desk = Desk::new([
        run_command("echo wrong >&2; exit 3", 20),
        run_command("sleep 100", 1),
        run_command("sleep 100", 60),
    ]);
    let start = Start {
        dialect: Dialect::NativeTools,
        tools: vec![RUN_COMMAND.into()],
        ..start("Run them.")
    };
    let live = desk.agent().await.start(start).await.unwrap();
    let driven = Driven::new(live);
    while desk.model.requests().len() < 3 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let seen = desk.last_conversation();
    assert!(seen.contains("[exit code 3]\nstderr:\nwrong"), "{seen}");
    assert!(seen.contains("[stopped at its time limit]"), "{seen}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stopped = Instant::now();
    driven.control.stop();
    let run = driven.ends().await;
    assert!(stopped.elapsed() < Duration::from_secs(10));
    assert_eq!(run.ending().unwrap().reason, ExitReason::Stopped);
}

/// Only what is risky is asked for, unless the rest of the run was allowed it.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_risky_is_asked_for() {
    let desk = Desk::new([
        code("print(6 * 7)"),
        code("import os\nos.system('true')"),
        code("import os\nprint(os.system('true; true'))"),
        answer("42"),
    ]);
    let agent = desk.agent().await;
    let live = agent.start(asking(Policy::Risky, "Do it.")).await.unwrap();
    let mut driven = Driven::new(live);
    let asked = driven.asks().await;
    assert!(code_of(&asked).contains("os.system('true')"));
    let Subject::Cell { risk, .. } = &asked.subject else {
        panic!("{asked:?}");
    };
    assert_eq!(risk.findings[0].what, "os.system('true')");
    driven
        .decide(&asked, Decision::Accept { rest_of_run: true })
        .await;
    let run = driven.ends().await;
    assert_eq!(answer_of(&run), "42");
}

/// One call inside of running code waits, others continue; the code gets what the person says.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_in_place() {
    let world = World::default();
    let desk = Desk::new([
        code(
            "import asyncio\nlocal = 5\n\
             got = await asyncio.gather(tools.mail(n=1), tools.look(n=2), tools.mail(n=3), return_exceptions=True)\n\
             print(local, got)",
        ),
        answer("it is done"),
    ]);
    let agent = agent(&desk, &world).await;
    let wanted = Start {
        budget: Budget {
            seconds: Some(2),
            ..Budget::default()
        },
        ..asking(Policy::Risky, "Do it.")
    };
    let mut driven = Driven::new(agent.start(wanted).await.unwrap());
    let (first, second) = (driven.asks().await, driven.asks().await);
    assert!(
        matches!(&first.subject, Subject::Call { tool, arguments, .. } if tool == "mail" && arguments["n"] == 1)
    );
    // The person takes longer than the run may, which is not the run's time.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.done().len(), 1, "what needs no person was done");
    let no = Decision::Feedback {
        text: "not to them".into(),
    };
    driven.decide(&second, no).await;
    driven.decide(&first, ACCEPT).await;
    let run = driven.ends().await;
    let seen = desk.last_conversation();
    let expected =
        "5 [2, 4, ToolError('a person does not allow this call, and says: not to them')]";
    assert!(seen.contains(expected), "{seen}");
    assert_eq!(run.ending().unwrap().reason, ExitReason::Answered);
    assert_eq!(world.done().len(), 2);
}

/// Attacks L4 and L6: a decision is for the exact bytes that were shown, for one use, in one run.
#[tokio::test(flavor = "multi_thread")]
async fn l4_l6_a_decision_is_for_one_thing_once() {
    let world = World::default();
    let desk = Desk::new([
        code("print(tools.mail(n=1), tools.mail(n=1))"),
        code("print(tools.mail(n=2), 'sent')"),
        answer("sent"),
    ]);
    let agent = agent(&desk, &world).await;
    let other = agent.start(asking(Policy::Risky, "Else.")).await.unwrap();
    let mut driven = Driven::new(agent.start(asking(Policy::Risky, "Do.")).await.unwrap());
    let first = driven.asks().await;
    let control = driven.control.clone();
    // Other bytes than what was shown, or none.
    for hash in ["", &"0".repeat(64), &first.hash.to_uppercase()] {
        let refused = control.decide(&first.id, hash, ACCEPT).await;
        assert_eq!(refused, Err(DecisionError::Changed));
    }
    // Arguments are not edited.
    let edit = Decision::Edit {
        code: "tools.mail(n=9)".into(),
    };
    let refused = control.decide(&first.id, &first.hash, edit).await;
    assert_eq!(refused, Err(DecisionError::NotCode));
    // Of another run.
    let elsewhere = other.control();
    let refused = elsewhere.decide(&first.id, &first.hash, ACCEPT);
    let refused = tokio::time::timeout(Duration::from_millis(200), refused).await;
    assert!(refused.is_err(), "it is not driven, and takes nothing");
    drop(other);
    assert_eq!(world.done().len(), 0);
    driven.decide(&first, ACCEPT).await;
    // The same call with the same bytes is another approval; the first can't be used again.
    let second = driven.asks().await;
    assert_eq!(first.hash, second.hash);
    assert_ne!(first.id, second.id);
    let replayed = control.decide(&first.id, &first.hash, ACCEPT).await;
    assert_eq!(replayed, Err(DecisionError::NotWaiting));
    assert_eq!(world.done().len(), 1);
    driven.decide(&second, Decision::Reject).await;
    let third = driven.asks().await;
    driven.decide(&third, ACCEPT).await;
    let run = driven.ends().await;
    assert_eq!(world.done().len(), 2);
    assert_eq!(answer_of(&run), "sent");
    let over = control.decide(&third.id, &third.hash, ACCEPT).await;
    assert_eq!(over, Err(DecisionError::Over));
}

/// Attack L6: an approval that nobody needs any more is refused; the code had given the call up.
#[tokio::test(flavor = "multi_thread")]
async fn l6_an_approval_expires_with_its_call() {
    let world = World::default();
    let desk = Desk::new([
        code(
            "import asyncio\ntry:\n    await asyncio.wait_for(tools.mail(n=1), 0.3)\n\
             except TimeoutError:\n    print('given up')\n    await tools.mail(n=2)",
        ),
        answer("given up"),
    ]);
    let agent = agent(&desk, &world).await;
    let mut driven = Driven::new(agent.start(asking(Policy::Risky, "Do.")).await.unwrap());
    let first = driven.asks().await;
    let second = driven.asks().await;
    let late = driven.control.decide(&first.id, &first.hash, ACCEPT).await;
    assert_eq!(late, Err(DecisionError::NotWaiting));
    driven.decide(&second, ACCEPT).await;
    driven.ends().await;
    assert_eq!(world.done().len(), 1);
}

/// Attack L14: a run that waits for a person is stopped at once, and that is in its journal.
#[tokio::test(flavor = "multi_thread")]
async fn l14_a_run_is_stopped_while_it_waits() {
    for wait_in_call in [false, true] {
        let world = World::default();
        let desk = Desk::new([code("print(tools.mail(n=1))"), answer("1")]);
        let agent = agent(&desk, &world).await;
        let policy = if wait_in_call {
            Policy::Risky
        } else {
            Policy::Always
        };
        let live = agent.start(asking(policy, "Do.")).await.unwrap();
        let id = live.id().clone();
        let mut driven = Driven::new(live);
        let asked = driven.asks().await;
        assert_eq!(matches!(asked.subject, Subject::Call { .. }), wait_in_call);
        let stopped = Instant::now();
        driven.control.stop();
        let run = driven.ends().await;
        assert!(stopped.elapsed() < Duration::from_secs(4));
        assert_eq!(run.ending().unwrap().reason, ExitReason::Stopped);
        assert_eq!(world.done().len(), 0);
        let kinds: Vec<&str> = desk.events(&id).await.iter().map(RunEvent::kind).collect();
        assert!(kinds.contains(&"stopped"), "{kinds:?}");
    }
}

/// Nobody is there: the run stops where it waits, and continues from there when somebody has decided,
/// in another process too.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_attends_waits_in_its_journal() {
    let world = World::default();
    let desk = Desk::new([
        code("a = 20"),
        code("b = tools.look(n=1)\nprint('sum', a + b + tools.mail(n=10))"),
        answer("42"),
    ]);
    let agent = agent(&desk, &world).await;
    let live = agent.start(asking(Policy::Risky, "Do.")).await.unwrap();
    let id = live.id().clone();
    let run = drive(live.unattended()).await;
    assert_eq!(run.ending(), None);
    assert_eq!(world.done().len(), 1);
    let asked = run.undecided()[0].clone();
    // Another process: nothing of the first is left but its directory.
    let desk_again = desk.agent().await.tools(vec![
        world.doubling("look", ToolEffects::None),
        world.doubling("mail", ToolEffects::EachCall),
    ]);
    let mut live = desk_again.resume(&id).await.unwrap();
    live.decide(&asked.id, &asked.hash, ACCEPT).await.unwrap();
    let again = live.decide(&asked.id, &asked.hash, ACCEPT).await;
    assert!(again.unwrap_err().to_string().contains("decided already"));
    let run = drive(live).await;
    assert_eq!(answer_of(&run), "42");
    assert_eq!(
        world.done().len(),
        2,
        "what was done before was not done again"
    );
}

/// Attack L6: a cell that was approved for one use is not run a second time after its host died, unless nothing of
/// the first time is left.
#[tokio::test(flavor = "multi_thread")]
async fn l6_a_resumed_run_uses_an_approval_once() {
    for reaches_out in [false, true] {
        let world = World::default();
        let next = if reaches_out {
            code("print('another way')")
        } else {
            answer("22")
        };
        let desk = Desk::new([
            code("a = tools.look(n=1)\nprint('sum', a + tools.mail(n=10))"),
            next,
        ]);
        let allowed = AllowList::parse(["example.com"]).unwrap();
        let agent = agent(&desk, &world).await.session_options(SessionOptions {
            network: if reaches_out {
                Network::Allow(allowed)
            } else {
                Network::None
            },
            ..SessionOptions::default()
        });
        let mut wanted = asking(Policy::Always, "Do.");
        wanted.approvals.tools.insert("look".into(), Policy::Never);
        let live = agent.start(wanted).await.unwrap();
        let id = live.id().clone();
        let mut run = drive(live.unattended()).await;
        // First the cell, then the call in it, where nobody is and the host goes.
        for is_call in [false, true] {
            let asked = run.undecided()[0].clone();
            assert_eq!(matches!(asked.subject, Subject::Call { .. }), is_call);
            let mut live = agent.resume(&id).await.unwrap();
            live.decide(&asked.id, &asked.hash, ACCEPT).await.unwrap();
            run = drive(live.unattended()).await;
        }
        let events = desk.events(&id).await;
        let lost = events
            .iter()
            .any(|event| matches!(event, RunEvent::CallLost { .. }));
        assert_eq!(lost, reaches_out);
        if reaches_out {
            assert_eq!(world.done().len(), 1, "the cell ran once");
            assert_eq!(code_of(&run.undecided()[0]), "print('another way')");
        } else {
            assert_eq!(world.done().len(), 2);
            assert_eq!(answer_of(&run), "22");
        }
    }
}
