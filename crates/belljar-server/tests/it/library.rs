//! The library of runs: found, named, tagged, shared, started again, and as turns of a conversation.

use belljar_server::Scope;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::runs::{answer, client, code, desk, offering};
use crate::support::{Ask as _, Client, World, world_in};

/// A run of this task that has answered; its path.
async fn answered(client: &Client, task: &str) -> String {
    let run = client.start(json!({"task": task})).await;
    client.until(&run, "answered").await;
    run
}

fn id(run: &str) -> &str {
    run.rsplit('/').next().unwrap()
}

/// The tasks of the runs that a query finds, newest first.
async fn found(client: &Client, query: &str) -> Vec<String> {
    let page = client
        .get(&format!("/v1/runs?{query}"))
        .json_with(200)
        .await;
    let runs = page["runs"].as_array().unwrap();
    let tasks = runs
        .iter()
        .map(|run| run["task"].as_str().unwrap().to_owned());
    tasks.collect()
}

/// What a share link shows, asked without a key.
fn shared(world: &World, token: &str, path: &str) -> RequestBuilder {
    let url = format!("http://{}/v1/shared{path}", world.address);
    reqwest::Client::new().get(url).bearer_auth(token)
}

#[tokio::test]
async fn runs_are_found_by_text_state_time_and_tag() {
    let (world, client, _model) = desk([
        code("6 * 7"),
        answer("42"),
        code("6 * 7"),
        answer("42"),
        code("1"),
    ])
    .await;
    answered(&client, "Sales of the North").await;
    let second = answered(&client, "Weather in the SOUTH").await;
    let waits = client
        .start(json!({"task": "Sales of the south", "approvals": "always"}))
        .await;
    client.until(&waits, "waits").await;
    let all = found(&client, "").await;
    assert_eq!(all.len(), 3);
    assert_eq!(
        found(&client, "text=south%20the").await,
        ["Sales of the south", "Weather in the SOUTH"]
    );
    assert_eq!(
        found(&client, "text=sales&state=answered").await,
        ["Sales of the North"]
    );
    assert_eq!(found(&client, "state=waits").await, ["Sales of the south"]);
    assert_eq!(found(&client, "text=100%25").await, [""; 0]);
    let labelled = client
        .request(reqwest::Method::PATCH, &second)
        .json(&json!({"title": "  Clouds ", "tags": ["b", "a", "b"]}))
        .json_with(200)
        .await;
    assert_eq!(labelled["title"], "Clouds");
    assert_eq!(labelled["tags"], json!(["a", "b"]));
    assert_eq!(labelled["state"], "answered");
    assert_eq!(
        found(&client, "text=clouds").await,
        ["Weather in the SOUTH"]
    );
    assert_eq!(found(&client, "tag=a").await, ["Weather in the SOUTH"]);
    assert_eq!(found(&client, "tag=c").await, [""; 0]);
    let created = labelled["created_at"].as_u64().unwrap();
    assert_eq!(
        found(&client, &format!("created_after={}", created + 3600)).await,
        [""; 0]
    );
    assert_eq!(
        found(&client, &format!("created_after={}", created - 3600)).await,
        all
    );
    assert_eq!(
        found(&client, &format!("created_before={}", created - 3600)).await,
        [""; 0]
    );
    // Pages of a search, to its end.
    let page = client.get("/v1/runs?text=sales&limit=1").json_with(200);
    let page = page.await;
    assert_eq!(page["runs"][0]["id"], id(&waits));
    let next = page["next_cursor"].as_str().unwrap();
    let rest = client.get(&format!("/v1/runs?text=sales&limit=1&cursor={next}"));
    let rest = rest.json_with(200).await;
    assert_eq!(rest["runs"][0]["task"], "Sales of the North");
    assert!(rest.get("next_cursor").is_none());
    for query in [
        "state=other",
        "created_after=-1",
        "created_before=x",
        "created_before=9223372036854775808",
    ] {
        let wrong = client.get(&format!("/v1/runs?{query}"));
        wrong.problem(400, "bad_query").await;
    }
    world.ends().await;
}

/// Title and tags are where the keys are: they are there after a restart, and gone with the run.
#[tokio::test]
async fn a_run_keeps_its_title_through_a_restart() {
    let (world, client, model) = desk([code("6 * 7"), answer("42")]).await;
    let run = answered(&client, "Count.").await;
    let relabel =
        |client: &Client, body: Value| client.request(reqwest::Method::PATCH, &run).json(&body);
    relabel(&client, json!({"title": "One", "tags": ["x"]}))
        .with(200)
        .await;
    let share = client.post(&format!("{run}/shares"), json!({}));
    let token = share.json_with(201).await["token"].clone();
    let data = world.ends().await;
    let world = world_in(data, offering(&model)).await;
    let client = self::client(&world, "a").await;
    let kept = client.get(&run).json_with(200).await;
    assert_eq!(
        (&kept["title"], &kept["tags"]),
        (&json!("One"), &json!(["x"]))
    );
    let seen = shared(&world, token.as_str().unwrap(), "");
    assert_eq!(seen.json_with(200).await["title"], "One");
    let less = relabel(&client, json!({"title": ""})).json_with(200).await;
    assert_eq!((less.get("title"), &less["tags"]), (None, &json!(["x"])));
    let long = "x".repeat(201);
    for body in [
        json!({"title": long}),
        json!({"title": "a\nb"}),
        json!({"tags": [""]}),
        json!({"tags": vec!["x"; 21]}),
        json!({"name": "x"}),
    ] {
        relabel(&client, body).problem(400, "bad_body").await;
    }
    world.ends().await;
}

/// A link shows its run to whoever has it, without a key, and nothing else; it ends when it is revoked, and with its run.
#[tokio::test]
async fn a_run_is_shared_by_a_link() {
    let (world, owner, _model) = desk([
        code("print('first cell')"),
        code("6 * 7"),
        answer("42"),
        code("6 * 7"),
        answer("42"),
    ])
    .await;
    let run = answered(&owner, "What is six times seven?").await;
    let secret = answered(&owner, "Another one.").await;
    let shares = format!("{run}/shares");
    let make = async |body: Value| owner.post(&shares, body).json_with(201).await;
    let (whole, step) = (make(json!({})).await, make(json!({"step": 1})).await);
    let [whole_token, step_token] = [&whole, &step].map(|made| made["token"].as_str().unwrap());
    // The list has no token, and neither has the file of the tenants.
    let listed = owner.get(&shares).json_with(200).await;
    // Of one second: in any order.
    let mut steps: Vec<_> = listed["shares"].as_array().unwrap().iter().collect();
    steps.sort_by_key(|share| share.get("step").is_some());
    assert_eq!(steps.len(), 2);
    assert_eq!((steps[0].get("step"), &steps[1]["step"]), (None, &json!(1)));
    assert_eq!(steps[1]["id"], step["id"]);
    assert!(!listed.to_string().contains("bjs_"), "{listed:#}");
    let hidden = whole_token.rsplit('_').next().unwrap();
    for name in ["tenants.sqlite", "tenants.sqlite-wal"] {
        let bytes = std::fs::read(world.data.path().join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(hidden), "{name} has the secret of a link");
    }

    let seen = shared(&world, whole_token, "").json_with(200).await;
    assert_eq!(seen["task"], "What is six times seven?");
    assert_eq!(
        (&seen["state"], &seen["answer"]),
        (&json!("answered"), &json!("42"))
    );
    assert_eq!(seen["evidence"][0]["value"], "42");
    let steps = shared(&world, whole_token, "/steps").json_with(200).await;
    assert_eq!(steps["steps"].as_array().unwrap().len(), 3);
    // Nothing names the run, its tenant or its key.
    for told in [&seen, &steps] {
        let told = told.to_string();
        assert!(
            !told.contains(id(&run)) && !told.contains(&owner.key.info.prefix),
            "{told}"
        );
    }
    let response = shared(&world, whole_token, "").with(200).await;
    assert!(
        !response
            .headers()
            .keys()
            .any(|name| name.as_str().contains("ratelimit"))
    );

    let seen = shared(&world, step_token, "").json_with(200).await;
    assert_eq!(seen["step"], 1);
    assert_eq!((seen.get("answer"), seen.get("spent")), (None, None));
    assert_eq!(seen["evidence"], json!([]));
    let steps = shared(&world, step_token, "/steps?limit=20")
        .json_with(200)
        .await;
    assert_eq!(steps["steps"].as_array().unwrap().len(), 1);
    assert_eq!(steps["more"], false);
    assert!(steps.to_string().contains("first cell"));

    // It opens nothing else, and nothing else opens it.
    for path in [run.as_str(), secret.as_str(), "/v1/runs", "/v1/me"] {
        let url = format!("http://{}{path}", world.address);
        let asked = reqwest::Client::new().get(url).bearer_auth(whole_token);
        asked.problem(401, "unauthorized").await;
    }
    let wrong = format!("{}0", &whole_token[..whole_token.len() - 1]);
    let wrong = if wrong == whole_token {
        format!("{}1", &whole_token[..whole_token.len() - 1])
    } else {
        wrong
    };
    for token in [wrong.as_str(), "bjs_", "bjs_0_0", &owner.key.text] {
        shared(&world, token, "")
            .problem(404, "share_not_found")
            .await;
        shared(&world, token, "/steps")
            .problem(404, "share_not_found")
            .await;
    }
    // No text that a header can have.
    shared(&world, "bjs_é_0", "")
        .problem(401, "unauthorized")
        .await;
    let nobody = reqwest::Client::new().get(format!("http://{}/v1/shared", world.address));
    nobody.problem(401, "unauthorized").await;

    // Neither another tenant nor a key without the scope makes or revokes one.
    let other = client(&world, "b").await;
    other
        .post(&shares, json!({}))
        .problem(404, "run_not_found")
        .await;
    let link = format!("{shares}/{}", whole["id"].as_str().unwrap());
    other.delete(&link).problem(404, "run_not_found").await;
    let sessions = world.client_with("a", &[Scope::Sessions]).await;
    sessions
        .post(&shares, json!({}))
        .problem(403, "scope_missing")
        .await;
    owner
        .post(&shares, json!({"step": 9}))
        .problem(404, "step_not_found")
        .await;

    owner.delete(&link).with(204).await;
    shared(&world, whole_token, "")
        .problem(404, "share_not_found")
        .await;
    owner.delete(&link).problem(404, "share_not_found").await;
    shared(&world, step_token, "").with(200).await;
    owner.delete(&run).with(204).await;
    for path in ["", "/steps"] {
        shared(&world, step_token, path)
            .problem(404, "share_not_found")
            .await;
    }
    world.ends().await;
}

/// A link to a value of an answer has the value, its evidence, and the step that computed it; nothing of the other values.
#[tokio::test]
async fn a_value_of_an_answer_is_shared_by_a_link() {
    let (world, owner, _model) = desk([
        code("print('secret sum', 4096 + 55)"),
        code("rate = 21\nprint('price', 2 * rate)"),
        answer("The secret sum is 4151.\nThe price is 42."),
    ])
    .await;
    let run = answered(&owner, "What are the price and the secret sum?").await;
    let shares = format!("{run}/shares");
    let evidence = owner.get(&run).json_with(200).await["evidence"].clone();
    assert_eq!(
        (&evidence[0]["value"], &evidence[1]["value"]),
        (&json!("4151"), &json!("42"))
    );
    let made = owner
        .post(&shares, json!({"value": 2}))
        .json_with(201)
        .await;
    assert_eq!((made.get("step"), &made["value"]), (None, &json!(2)));
    let listed = owner.get(&shares).json_with(200).await;
    assert_eq!(listed["shares"][0]["value"], 2);
    let token = made["token"].as_str().unwrap();
    let seen = shared(&world, token, "").json_with(200).await;
    assert_eq!(
        (&seen["value"], &seen["answer"], &seen["evidence"]),
        (
            &json!("42"),
            &json!("The price is 42."),
            &json!([evidence[1]])
        )
    );
    assert_eq!(seen["reason"]["kind"], "answered");
    assert_eq!((seen.get("step"), seen.get("spent")), (None, None));
    let derived = &seen["evidence"][0]["seen"]["derived"];
    assert_eq!(derived["expression"], "2 * rate");
    let steps = shared(&world, token, "/steps").json_with(200).await;
    let numbers = steps["steps"].as_array().unwrap().iter();
    let numbers: Vec<_> = numbers.map(|step| step["number"].as_u64()).collect();
    assert_eq!(numbers, [Some(2)]);
    for told in [&seen, &steps] {
        let told = told.to_string();
        assert!(!told.contains("4151") && !told.contains(id(&run)), "{told}");
    }
    for (body, status, problem) in [
        (json!({"value": 0}), 404, "value_not_found"),
        (json!({"value": 3}), 404, "value_not_found"),
        (json!({"value": 1, "step": 1}), 400, "bad_request"),
    ] {
        owner.post(&shares, body).problem(status, problem).await;
    }
    let link = format!("{shares}/{}", made["id"].as_str().unwrap());
    owner.delete(&link).with(204).await;
    for path in ["", "/steps"] {
        shared(&world, token, path)
            .problem(404, "share_not_found")
            .await;
    }
    world.ends().await;
}

/// A run has its files, its task or another one, again.
#[tokio::test]
async fn a_run_is_started_again() {
    let read = "print(open('data.txt').read())";
    let (world, client, _model) = desk([
        code(read),
        answer("17"),
        code(read),
        answer("17"),
        code(read),
        answer("17"),
        code("print(17 + 1)"),
        answer("18"),
        code("print(17 + 1)"),
        answer("18"),
    ])
    .await;
    let file = json!({"name": "data.txt", "contents": "MTc="});
    let run = client
        .start(json!({"task": "Read it.", "files": [file], "budget": {"steps": 7}}))
        .await;
    client.until(&run, "answered").await;
    let again = async |run: &str, body: Value| {
        let made = client.post(&format!("{run}/again"), body);
        let made = format!(
            "/v1/runs/{}",
            made.json_with(202).await["id"].as_str().unwrap()
        );
        client.until(&made, "answered").await
    };
    let same = again(&run, json!({})).await;
    assert_ne!(same["id"], id(&run));
    assert_eq!(
        (&same["task"], &same["budget"]["steps"]),
        (&json!("Read it."), &json!(7))
    );
    assert_eq!((&same["answer"], same.get("parent")), (&json!("17"), None));
    let other = again(&run, json!({"task": "Read it once more."})).await;
    assert_eq!(other["task"], "Read it once more.");
    client
        .post(&format!("{run}/again"), json!({"task": " "}))
        .problem(400, "bad_body")
        .await;
    // A follow-up continues what it continued.
    let next = client.post(
        &format!("{run}/follow-up"),
        json!({"task": "And one more?"}),
    );
    let next = format!(
        "/v1/runs/{}",
        next.json_with(202).await["id"].as_str().unwrap()
    );
    client.until(&next, "answered").await;
    let twice = again(&next, json!({})).await;
    assert_eq!(twice["parent"]["id"], id(&run));
    assert_eq!(twice["answer"], "18");
    world.ends().await;
}

/// Runs that continue each other are turns; a branch from the middle is none.
#[tokio::test]
async fn a_thread_has_the_turns_of_a_conversation() {
    let turn = |text: &str| [code("6 * 7"), answer(text)];
    let script = ["42", "It is 42.", "Yes, 42.", "42 again."]
        .map(turn)
        .concat();
    let (world, client, _model) = desk(script).await;
    let first = answered(&client, "One?").await;
    let goes_on = async |run: &str, way: &str, body: Value| {
        let made = client.post(&format!("{run}/{way}"), body);
        let made = format!(
            "/v1/runs/{}",
            made.json_with(202).await["id"].as_str().unwrap()
        );
        client.until(&made, "answered").await;
        made
    };
    let second = goes_on(&first, "follow-up", json!({"task": "Two?"})).await;
    let third = goes_on(&second, "follow-up", json!({"task": "Three?"})).await;
    let branch = goes_on(&first, "branch", json!({"step": 1, "task": "Else?"})).await;
    let turns = async |run: &str| {
        let thread = client.get(&format!("{run}/thread")).json_with(200).await;
        let tasks = |turns: &Value| {
            let turns = turns.as_array().unwrap().iter();
            let tasks = turns.map(|turn| turn["task"].as_str().unwrap().to_owned());
            tasks.collect::<Vec<_>>().join(" ")
        };
        (tasks(&thread["earlier"]), tasks(&thread["later"]))
    };
    let both = |earlier: &str, later: &str| (earlier.to_owned(), later.to_owned());
    assert_eq!(turns(&first).await, both("", "Two? Three?"));
    assert_eq!(turns(&second).await, both("One?", "Three?"));
    assert_eq!(turns(&third).await, both("One? Two?", ""));
    assert_eq!(turns(&branch).await, both("One?", ""));
    let thread = client.get(&format!("{second}/thread")).json_with(200).await;
    assert_eq!(thread["earlier"][0]["answer"], "42");
    assert_eq!(
        found(&client, &format!("parent={}", id(&first))).await,
        ["Else?", "Two?"]
    );
    // What was deleted ends the thread.
    client.delete(&second).with(204).await;
    assert_eq!(turns(&third).await, both("", ""));
    client
        .get(&format!("{second}/thread"))
        .problem(404, "run_not_found")
        .await;
    world.ends().await;
}

/// Admins see the live runs of all tenants without their contents, and cancel one; that is written down.
#[tokio::test]
async fn admins_cancel_a_run() {
    let (world, owner, _model) = desk([code("1"), answer("Stopped.")]).await;
    let admin = world.admin(&[Scope::Admin]).await;
    let run = owner.waiting_run().await;
    let listed = admin.get("/v1/admin/runs").json_with(200).await;
    let one = &listed["runs"][0];
    assert_eq!(
        (&one["id"], &one["tenant"]),
        (&json!(id(&run)), &json!("a"))
    );
    assert_eq!((&one["state"], &one["steps"]), (&json!("waits"), &json!(1)));
    assert!(!listed.to_string().contains("Write."), "{listed:#}");
    let cancel = format!("/v1/admin/runs/{}/cancel", id(&run));
    admin.post(&cancel, json!({})).with(204).await;
    owner.until(&run, "ended").await;
    let audit = admin.get("/v1/admin/audit?limit=1").json_with(200).await;
    assert_eq!(audit["events"][0]["act"], "run_cancelled");
    assert_eq!(audit["events"][0]["detail"], id(&run));
    admin
        .post("/v1/admin/runs/none/cancel", json!({}))
        .problem(404, "run_not_found")
        .await;
    world.ends().await;
}
