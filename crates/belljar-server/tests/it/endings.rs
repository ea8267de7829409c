//! A run can always be cancelled and deleted, whatever has become of its model and of its events. That it ends whatever its
//! files are is N21 and N22 of the attack suite.

use belljar_journal::{Journal, NewEvent, RunId, Timestamp};
use belljar_server::ServerOptions;
use belljar_test_model::ScriptedModel;
use serde_json::json;

use crate::runs::{client, offering, one_run};
use crate::support::{Ask as _, world_in, world_with};

/// The model of a run is not offered any more: nobody needs it to end the run.
#[tokio::test]
async fn a_run_without_its_model_is_cancelled_and_deleted() {
    let model = ScriptedModel::react(one_run).unwrap();
    let world = world_with(offering(&model)).await;
    let theirs = client(&world, "a").await;
    let run = theirs.waiting_run().await;
    let data = world.ends().await;
    let world = world_in(data, ServerOptions::default()).await;
    let theirs = client(&world, "a").await;
    theirs.delete(&run).problem(409, "run_not_ended").await;
    let resume = theirs.post(&format!("{run}/cancel"), json!({}));
    resume.with(202).await;
    let shown = theirs.until(&run, "ended").await;
    assert_eq!(shown["reason"]["kind"], "stopped", "{shown:#}");
    theirs.delete(&run).with(204).await;
    theirs.get(&run).problem(404, "run_not_found").await;
    world.ends().await;
}

/// A run that can't be read can't be cancelled, and need not be.
#[tokio::test]
async fn a_run_that_cannot_be_read_is_deleted() {
    let model = ScriptedModel::react(one_run).unwrap();
    let world = world_with(offering(&model)).await;
    let theirs = client(&world, "a").await;
    let (newer, damaged) = (theirs.waiting_run().await, theirs.waiting_run().await);
    let data = world.ends().await;
    let journal = Journal::open(&data.path().join("runs/a")).await.unwrap();
    for (run, version) in [(&newer, 99), (&damaged, 1)] {
        let id: RunId = run.rsplit('/').next().unwrap().parse().unwrap();
        let last = journal.last_seq(&id).await.unwrap();
        let event = NewEvent::new("of-tomorrow", version, Timestamp::now(), &json!({"x": 1}));
        journal.append(&id, last, &[event.unwrap()]).await.unwrap();
    }
    drop(journal);
    let world = world_in(data, offering(&model)).await;
    let theirs = client(&world, "a").await;
    for run in [newer, damaged] {
        theirs.delete(&run).with(204).await;
        theirs.get(&run).problem(404, "run_not_found").await;
    }
    world.ends().await;
}
