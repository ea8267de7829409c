//! What is left of a run when its host dies, and how it resumes.

use belljar_agent::{Effect, Run, RunEvent};
use belljar_test_model::ScriptedModel;

use crate::support::{Desk, answer, answer_of, code, drive, start};

/// A host that dies at any event leaves a journal from which another resumes: the variables are
/// there, nothing is done twice without a note, and the answer is the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_from_every_event() {
    let model = ScriptedModel::react(|request| {
        let talk = request.json().to_string();
        if talk.contains("total is 6") {
            return answer("6");
        }
        if talk.contains("x is 2") {
            return code(
                "try:\n    print('total is', x * 3)\nexcept NameError: x = 2; print('x is 2')",
            );
        }
        code("x = 2\nprint('x is', x)")
    })
    .unwrap();
    let desk = Desk::with(model);
    for dies_at in 1..12 {
        let agent = desk.agent().await;
        let live = agent.start(start("Three times two?")).await.unwrap();
        let id = live.id().clone();
        let (sender, mut dies) = tokio::sync::mpsc::unbounded_channel();
        let mut seen = 1;
        let driven = tokio::spawn(async move {
            live.drive(&mut |progress| {
                if let belljar_agent::Progress::Event(..) = progress {
                    seen += 1;
                    if seen == dies_at {
                        let _ = sender.send(());
                        // The host is gone: nobody hears of what follows.
                        std::thread::sleep(std::time::Duration::from_millis(200));
                    }
                }
            })
            .await
        });
        let _ = dies.recv().await;
        driven.abort();
        let _ = driven.await;
        let before = desk.events(&id).await;
        let run = drive(agent.resume(&id).await.unwrap()).await;
        assert_eq!(answer_of(&run), "6", "died at event {dies_at}");
        let after = desk.events(&id).await;
        assert_eq!(
            after[..before.len()],
            before[..],
            "nothing is lost or changed"
        );
        let started = after
            .iter()
            .filter(|e| matches!(e, RunEvent::CallStarted { .. }))
            .count();
        let ended = after
            .iter()
            .filter(|e| matches!(e, RunEvent::CallEnded { .. } | RunEvent::CallLost { .. }))
            .count();
        assert_eq!(started, ended, "each call that began has one end");
        assert_eq!(Run::fold(&after).unwrap().effect(), Effect::Nothing);
    }
}

/// The same events ask the same questions: a run is a function of its journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_asks_the_same() {
    let desk = Desk::new([code("x = 21"), code("print(2 * x)"), answer("42")]);
    let agent = desk.agent().await;
    let live = agent.start(start("Twice 21?")).await.unwrap();
    let id = live.id().clone();
    drive(live).await;
    let bodies: Vec<String> = desk
        .model
        .requests()
        .iter()
        .map(|request| request.json().to_string())
        .collect();
    let mut run = Run::default();
    let mut asked = Vec::new();
    for event in desk.events(&id).await {
        if let (RunEvent::Asked { .. }, Effect::AskModel { request, .. }) = (&event, run.effect()) {
            let profile = belljar_agent::Profile::built_in("llamacpp").unwrap();
            asked.push(profile.body("scripted", &request).to_string());
        }
        run.apply(&event).unwrap();
    }
    assert_eq!(asked, bodies);
}
