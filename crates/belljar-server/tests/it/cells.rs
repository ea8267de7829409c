//! Cells: waited for, streamed, streamed again.

use std::time::Duration;

use serde_json::json;

use crate::spread::tenants;
use crate::support::{Ask as _, Events, options, world, world_with};

/// Prints five lines, one at a time.
const SLOW: &str = "import time\nfor i in range(5):\n    print(i, flush=True)\n    time.sleep(0.1)";

#[tokio::test]
async fn events_are_streamed_with_numbers() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let events = client.stream(&session, SLOW).await.rest().await;
    let ids: Vec<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        (events[0].kind.as_str(), &events[0].data["cell"]),
        ("started", &json!(1))
    );
    let last = events.last().unwrap();
    assert_eq!(
        (last.kind.as_str(), &last.data["type"]),
        ("outcome", &json!("outcome"))
    );
    let printed: String = events
        .iter()
        .filter(|event| event.kind == "output")
        .map(|event| event.data["text"].as_str().unwrap())
        .collect();
    assert_eq!(printed, "0\n1\n2\n3\n4\n");
    assert!(events.len() >= 5, "they came one by one: {events:#?}");

    // What is waited for is the same.
    let cell = client
        .get(&format!("{session}/cells/1"))
        .json_with(200)
        .await;
    assert_eq!(cell["state"], "done");
    assert_eq!(cell["outcome"]["stdout"], last.data["stdout"]);
    assert_eq!(cell["events"], events.len());
}

/// What a thread prints between two cells comes after the start of the second, in its stream.
#[tokio::test]
async fn late_output_comes_after_the_start() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let late = "import threading\nthreading.Timer(0.2, print, ['late']).start()";
    client.stream(&session, late).await.rest().await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let events = client.stream(&session, "print('now')").await.rest().await;
    assert_eq!(events[0].kind, "started", "{events:#?}");
    let stdout = &events.last().unwrap().data["stdout"]["text"];
    assert_eq!(stdout, "late\nnow\n");
}

/// A client whose connection breaks at any event goes on without gap or repeat, while the cell runs and
/// after it.
#[tokio::test]
async fn a_stream_is_resumed_without_gap_or_repeat() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut first = client.stream(&session, SLOW).await;
    let mut seen = vec![first.next().await.unwrap(), first.next().await.unwrap()];
    drop(first);
    let path = format!("{session}/cells/1/events");
    loop {
        let last = seen.last().unwrap().id;
        let mut again = Events::from_request(client.get(&path).header("last-event-id", last)).await;
        match again.next().await {
            Some(event) => seen.push(event),
            None => break,
        }
    }
    let whole = Events::from_request(client.get(&path)).await.rest().await;
    assert_eq!(seen, whole);
    let after_end = client.get(&path).header("last-event-id", whole.len() + 1);
    after_end.problem(400, "bad_header").await;
    client
        .get(&path)
        .header("last-event-id", "x")
        .problem(400, "bad_header")
        .await;
    client
        .get(&format!("{session}/cells/2/events"))
        .problem(404, "cell_not_found")
        .await;
    client
        .get(&format!("{session}/cells/x"))
        .problem(404, "cell_not_found")
        .await;
}

/// Shows more than a session may keep of its cells.
pub(crate) const LARGE: &str = "class Large:\n    def _repr_html_(self): return 'x' * 1_000_000\nfor _ in range(5): display(Large())";

/// The last cells are kept, some of them with events, and no more.
#[tokio::test]
async fn old_cells_are_given_up() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    for _ in 0..18 {
        client.run(&session, "1").await;
    }
    let second = format!("{session}/cells/2");
    let events = format!("{second}/events");
    client.get(&events).problem(410, "events_gone").await;
    assert_eq!(client.get(&second).json_with(200).await["state"], "done");
    client
        .get(&format!("{session}/cells/3/events"))
        .with(200)
        .await;
    let count = async || {
        let list = client.get(&format!("{session}/cells")).json_with(200).await;
        list["cells"].as_array().unwrap().len()
    };
    assert_eq!(count().await, 18);
    client.run(&session, LARGE).await;
    client.run(&session, "1").await;
    client.get(&second).problem(404, "cell_not_found").await;
    assert_eq!(count().await, 1);
}

/// What a cell tells is bounded; who wants what was given up is told so, and the outcome is there.
#[tokio::test]
async fn too_many_events_are_given_up_from_the_oldest() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let code = "class Large:\n    def _repr_html_(self): return 'x' * 1_000_000\nfor _ in range(4): display(Large())";
    let outcome = client.run(&session, code).await;
    assert_eq!(outcome["status"], "success", "{:?}", outcome["exception"]);
    let path = format!("{session}/cells/1/events");
    client.get(&path).problem(410, "events_gone").await;
    let last = Events::from_request(client.get(&path).header("last-event-id", 5))
        .await
        .rest()
        .await;
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].kind, "outcome");
}

#[tokio::test]
async fn a_busy_session_is_waited_for_or_not_and_can_be_interrupted() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut long = client.stream(&session, "import time\ntime.sleep(20)").await;
    long.next().await.unwrap();
    assert_eq!(client.get(&session).json_with(200).await["busy"], true);
    let cells = format!("{session}/cells");
    let impatient = json!({"code": "1", "when_busy": "refuse"});
    client
        .post(&cells, impatient)
        .problem(409, "session_busy")
        .await;
    let patient = tokio::spawn({
        let (client, session) = (client.clone(), session.clone());
        async move { client.run(&session, "2").await }
    });
    let interrupt = format!("{session}/interrupt");
    let answer = client.post(&interrupt, json!({})).json_with(200).await;
    assert_eq!(answer["interrupted"], true);
    let outcome = long.rest().await.pop().unwrap();
    assert_eq!(outcome.data["cause"]["kind"], "interrupted");
    assert_eq!(patient.await.unwrap()["cell"], 2);
    let answer = client
        .request(reqwest::Method::POST, &interrupt)
        .json_with(200)
        .await;
    assert_eq!(answer["interrupted"], false);
}

/// A cell runs to its end though its client hung up.
#[tokio::test]
async fn a_cell_outlives_its_client() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let run = client.post(
        &format!("{session}/cells"),
        json!({"code": "import time\ntime.sleep(0.5)\nx = 1"}),
    );
    let gave_up = run.timeout(Duration::from_millis(200)).send().await;
    assert!(gave_up.unwrap_err().is_timeout());
    assert_eq!(client.printed(&session, "print(x)").await, "1\n");
}

/// No path of the host is in an outcome.
#[tokio::test]
async fn long_output_tells_no_path_of_the_host() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let outcome = client.run(&session, "print('x' * 1_000_000)").await;
    assert!(outcome["stdout"]["omitted_bytes"].as_u64().unwrap() > 0);
    assert_eq!(outcome["stdout"].get("file"), None);
    assert!(!outcome.to_string().contains("/tmp"));
}

/// K9: a stream ends when its key is revoked, also by another process, and whatever is told meanwhile.
#[tokio::test]
async fn a_revoked_key_cuts_its_streams() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let silent = client.session().await;
    let mut talking = client
        .stream(
            &session,
            "import time\nwhile True:\n    print(1, flush=True)\n    time.sleep(0.05)",
        )
        .await;
    let mut silent = client.stream(&silent, "import time\ntime.sleep(25)").await;
    talking.next().await.unwrap();
    silent.next().await.unwrap();
    // As `belljar keys revoke` does it.
    let elsewhere = tenants(world.data.path()).await;
    assert!(elsewhere.revoke(&client.key.info.prefix).await.unwrap());
    for stream in [talking, silent] {
        let rest = tokio::time::timeout(Duration::from_secs(5), stream.rest()).await;
        let rest = rest.expect("the stream goes on");
        assert!(rest.iter().all(|event| event.kind == "output"), "{rest:#?}");
    }
    client
        .get("/v1/sessions")
        .problem(401, "unauthorized")
        .await;
}

/// Streams, too, are counted.
#[tokio::test]
async fn streams_are_bounded() {
    let world = world_with(options(|options| options.tenant_streams = 1)).await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut open = client.stream(&session, "import time\ntime.sleep(20)").await;
    open.next().await.unwrap();
    let path = format!("{session}/cells/1/events");
    client.get(&path).problem(429, "too_many_streams").await;
    let other = world.client("b").await;
    let theirs = other.session().await;
    other.stream(&theirs, "1").await.rest().await;
}

/// K5: who reads nothing holds up nothing, and costs no more than the events that are kept once for all.
#[tokio::test]
async fn readers_who_never_read_cost_little() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let body = json!({"code": "import sys\nfor _ in range(800):\n    sys.stdout.write('x' * 10_000)\n    sys.stdout.flush()"});
    let first = client.post(&format!("{session}/cells"), body);
    let first = first.header("accept", "text/event-stream").with(200).await;
    let resident = async || {
        let text = world.metrics().await;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        value.unwrap().parse::<u64>().unwrap()
    };
    let before = resident().await;
    let mut unread = vec![first];
    for _ in 0..40 {
        let events = client.get(&format!("{session}/cells/1/events"));
        let response = events.send().await.unwrap();
        // One who comes late may be told that the first events are given up.
        if response.status() == 200 {
            unread.push(response);
        }
    }
    // The cell comes to its end all the same, and so does the next one.
    assert_eq!(client.printed(&session, "print(1)").await, "1\n");
    let more = resident().await.saturating_sub(before);
    assert!(more < 96 << 20, "{more} bytes for {} readers", unread.len());
}

/// `input()` of a cell is an event; the answer is a request.
#[tokio::test]
async fn a_question_is_answered() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/cells");
    let start = |code: &str| {
        let request = client.post(&path, json!({"code": code, "input": true}));
        Events::from_request(request.header("accept", "text/event-stream"))
    };
    let mut events = start("print(input('\\x1b[2JName: ') + '!')").await;
    let question = loop {
        let event = events.next().await.unwrap();
        if event.kind == "input_requested" {
            break event.data;
        }
    };
    assert_eq!(question["prompt"], "\u{1b}[2JName: ");
    assert_eq!(question["password"], false);
    let number = &question["call"]["number"];
    let answer = |cell: u32, body| client.post(&format!("{path}/{cell}/input"), body);
    let other = world.client("b").await;
    other
        .post(
            &format!("{path}/1/input"),
            json!({"number": number, "text": "theirs"}),
        )
        .json_with(404)
        .await;
    for (cell, body, status, code) in [
        (1, json!({"number": number}), 400, "bad_body"),
        (
            1,
            json!({"number": number, "text": "x", "eof": true}),
            400,
            "bad_body",
        ),
        (1, json!({"number": 9, "text": "x"}), 409, "no_question"),
        (
            2,
            json!({"number": number, "text": "x"}),
            404,
            "cell_not_found",
        ),
        (
            1,
            json!({"number": number, "text": "x".repeat(65_537)}),
            413,
            "body_too_large",
        ),
    ] {
        let refused = answer(cell, body).json_with(status).await;
        assert_eq!(refused["code"], code);
    }
    let right = json!({"number": number, "text": "Zoë"});
    assert_eq!(answer(1, right.clone()).send().await.unwrap().status(), 204);
    let rest = events.rest().await;
    assert_eq!(rest[0].kind, "input_closed");
    assert_eq!(rest.last().unwrap().data["stdout"]["text"], "Zoë!\n");
    // After the end, and where nobody said that there are answers.
    assert_eq!(answer(1, right).json_with(409).await["code"], "no_question");
    let outcome = client.run(&session, "input()").await;
    let value = outcome["exception"]["value"].as_str().unwrap();
    assert!(value.contains("does not answer input()"), "{outcome}");
}

/// A client of Jupyter or E2B needs to know which display is the value of the cell.
#[tokio::test]
async fn events_say_which_display_is_the_value() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let code =
        "display('shown', display_id='one')\ndisplay('new', display_id='one', update=True)\n6 * 7";
    let mut events = client.stream(&session, code).await;
    let mut displays = Vec::new();
    let outcome = loop {
        let event = events.next().await.unwrap();
        match event.kind.as_str() {
            "display" => displays.push(event.data),
            "outcome" => break event.data,
            _ => {}
        }
    };
    let values: Vec<_> = displays.iter().map(|one| one.get("value")).collect();
    assert_eq!(values, [None, None, Some(&json!(true))]);
    assert_eq!(displays[2]["parts"][0]["text"], "42");
    let kept = outcome["displays"].as_array().unwrap();
    let values: Vec<_> = kept.iter().map(|one| one.get("value")).collect();
    assert_eq!(values, [None, Some(&json!(true))]);
}

/// Whoever opens a session later sees what was run in it, also while it sleeps.
#[tokio::test]
async fn code_is_kept_with_outcomes_and_gone_with_the_session() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "first = 6 * 7").await;
    client.run(&session, "print('名', first)").await;
    let hibernate = client.post(&format!("{session}/hibernate"), json!({}));
    hibernate.json_with(200).await;
    let another = world.client("a").await;
    let list = another
        .get(&format!("{session}/cells"))
        .json_with(200)
        .await;
    let codes: Vec<_> = list["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| (&cell["cell"], &cell["code"], cell.get("outcome")))
        .collect();
    assert_eq!(
        codes,
        [
            (&json!(1), &json!("first = 6 * 7"), None),
            (&json!(2), &json!("print('名', first)"), None)
        ]
    );
    let cell = another
        .get(&format!("{session}/cells/2"))
        .json_with(200)
        .await;
    assert_eq!(cell["code"], "print('名', first)");
    assert_eq!(cell["outcome"]["stdout"]["text"], "名 42\n");
    let stranger = world.client("b").await;
    let path = format!("{session}/cells");
    stranger.get(&path).problem(404, "session_not_found").await;
    let ended = client.delete(&session).send().await.unwrap();
    assert!(ended.status().is_success());
    another.get(&path).problem(404, "session_not_found").await;
}
