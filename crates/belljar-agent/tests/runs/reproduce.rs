//! The code of a run, run again: what it called gets the recorded answers.

use belljar_agent::{Replayed, RunsDirectory, ToolEffects, Verdict, reproduce};
use belljar_sandbox::SessionOptions;

use crate::bridge::World;
use crate::support::{Desk, answer, code, drive, start};

#[tokio::test]
async fn calls_of_tools_are_answered_from_the_run() {
    let desk = Desk::new([
        code("print('twice', tools.double(n=21))"),
        code("print('more', tools.double(n=50) + 1)"),
        answer("It is 42, and then 101."),
    ]);
    let world = World::default();
    let tools = vec![world.doubling("double", ToolEffects::EachCall)];
    let live = desk
        .agent()
        .await
        .tools(tools)
        .start(start("Double."))
        .await;
    let live = live.unwrap();
    let id = live.id().clone();
    drive(live).await;
    assert_eq!(world.done().len(), 2);

    let runs = RunsDirectory::open(desk.directory()).await.unwrap();
    let options = SessionOptions::default();
    let mut steps = 0;
    let mut count = |_: Replayed<'_>| steps += 1;
    let again = reproduce(&runs, &id, &desk.engine, &options, &mut count);
    let again = again.await.unwrap();
    // Nothing was done to the world again.
    assert_eq!(world.done().len(), 2);
    assert!(again.is_identical(), "{again:?}");
    let values: Vec<&str> = again
        .values
        .iter()
        .map(|value| value.value.as_str())
        .collect();
    assert_eq!(values, ["42", "101"]);
    assert!(steps >= 4, "{steps}");
}

#[tokio::test]
async fn a_call_that_the_run_did_not_make_gets_no_answer() {
    let desk = Desk::new([
        code("import time\nprint('now', tools.double(n=time.time_ns() % 10**12))"),
        code("print('sum', 6 * 7)"),
        answer("The sum is 42."),
    ]);
    let tools = vec![World::default().doubling("double", ToolEffects::None)];
    let live = desk
        .agent()
        .await
        .tools(tools)
        .start(start("Double."))
        .await;
    let live = live.unwrap();
    let id = live.id().clone();
    drive(live).await;
    let runs = RunsDirectory::open(desk.directory()).await.unwrap();
    let options = SessionOptions::default();
    let mut ignored = |_: Replayed<'_>| ();
    let again = reproduce(&runs, &id, &desk.engine, &options, &mut ignored);
    let again = again.await.unwrap();
    let verdicts: Vec<Verdict> = again.cells.iter().map(|cell| cell.verdict).collect();
    assert_eq!(verdicts, [Verdict::Changed, Verdict::Identical]);
    assert!(again.is_identical(), "{again:?}");
}
