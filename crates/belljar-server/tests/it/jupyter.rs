//! Jupyter's wire, as hostile and ordinary clients use it. Jupyter's own clients are run by `.ci/jupyter`.

use futures_util::SinkExt as _;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::jupyter_client::{Wire, ask, kernel, on, with_offsets};
use crate::support::{Ask as _, soon, until_free, world, world_in, world_with};

/// Routes of one kernel or notebook, and those of all.
const OF_ONE: [(&str, &str); 8] = [
    ("GET", "/api/kernels/{id}"),
    ("DELETE", "/api/kernels/{id}"),
    ("POST", "/api/kernels/{id}/interrupt"),
    ("POST", "/api/kernels/{id}/restart"),
    ("GET", "/api/kernels/{id}/channels"),
    ("GET", "/api/sessions/{notebook}"),
    ("PATCH", "/api/sessions/{notebook}"),
    ("DELETE", "/api/sessions/{notebook}"),
];
const OF_ALL: [(&str, &str); 9] = [
    ("GET", "/api/status"),
    ("GET", "/api/me"),
    ("GET", "/api/kernelspecs"),
    ("GET", "/api/kernelspecs/python3"),
    ("GET", "/api/kernels"),
    ("POST", "/api/kernels"),
    ("GET", "/api/sessions"),
    ("POST", "/api/sessions"),
    ("GET", "/api/contents"),
];

/// K1: without a key nothing is done, and a kernel of another tenant is as one that is not there.
#[tokio::test]
async fn k1_no_tenant_reaches_a_kernel_of_another() {
    let world = world_with(on()).await;
    let (owner, other) = (world.client("a").await, world.client("b").await);
    let asked =
        json!({"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": "python3"}});
    let made = ask(&owner, "POST", "/api/sessions").json(&asked);
    let made = made.json_with(201).await;
    let id = made["kernel"]["id"].as_str().unwrap();
    let notebook = made["id"].as_str().unwrap();
    let absent = "00000000-0000-0000-0000-000000000000";
    let named = |path: &str, id: &str, notebook: &str| {
        let path = path.replace("{id}", id);
        path.replace("{notebook}", notebook)
    };
    for (method, path) in OF_ONE.iter().chain(&OF_ALL) {
        let path = named(path, id, notebook);
        for key in ["bj_wrong_key", ""] {
            let request = ask(&owner.with_key(key), method, &path).json(&json!({}));
            let refused = request.json_with(401).await;
            assert_eq!(refused["reason"], "unauthorized", "{method} {path}");
        }
    }
    for (method, path) in OF_ONE {
        let mut told = Vec::new();
        for (id, notebook) in [(id, notebook), (absent, absent)] {
            let request = ask(&other, method, &named(path, id, notebook)).json(&json!({}));
            let refused = request.json_with(404).await.to_string();
            told.push(refused.replace(id, "ID").replace(notebook, "ID"));
        }
        assert_eq!(told[0], told[1], "{method} {path}");
    }
    for path in ["/api/kernels", "/api/sessions"] {
        assert_eq!(ask(&other, "GET", path).json_with(200).await, json!([]));
    }
    // By id, nobody takes over the kernel of another.
    let asked = json!({"path": "b.ipynb", "kernel": {"id": id}});
    ask(&other, "POST", "/api/sessions")
        .json(&asked)
        .json_with(404)
        .await;
    // Each place of a key: a stranger's, a wrong one, none.
    let key = &other.key.text;
    let path = format!("/api/kernels/{id}/channels");
    for (path, headers, status) in [
        (
            path.clone(),
            vec![("authorization", format!("token {key}"))],
            404,
        ),
        (
            path.clone(),
            vec![("authorization", format!("Bearer {key}"))],
            404,
        ),
        (format!("{path}?token={key}"), vec![], 404),
        (format!("/token/{key}{path}"), vec![], 404),
        (
            path.clone(),
            vec![("authorization", "token bj_x_y".to_owned())],
            401,
        ),
        (format!("{path}?token=bj_x_y"), vec![], 401),
        (format!("/token/bj_x_y{path}"), vec![], 401),
        (format!("/token/{path}"), vec![], 401),
        (path.clone(), vec![], 401),
    ] {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, it)| (*name, it.as_str()))
            .collect();
        let refused = Wire::connect(&world, &path, &headers).await;
        assert_eq!(refused.err(), Some(status), "{path} {headers:?}");
    }
    // A key in the query is for WebSockets alone.
    let query = format!("/jupyter/api/kernels?token={}", owner.key.text);
    owner
        .without_key(reqwest::Method::GET, &query)
        .json_with(401)
        .await;
    // The kernel has noticed nothing.
    let mut wire = Wire::open(&world, &owner, id).await;
    assert_eq!(wire.run("6 * 7").await.value(), "42");
}

#[tokio::test]
async fn the_wire_is_off_by_default() {
    let world = world().await;
    let client = world.client("a").await;
    for path in ["/api", "/api/kernels", "/api/kernelspecs"] {
        client.get(&format!("/jupyter{path}")).with(404).await;
    }
}

#[tokio::test]
async fn kernels_are_sessions() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let version = client.without_key(reqwest::Method::GET, "/jupyter/api");
    assert!(version.json_with(200).await["version"].is_string());
    let specs = ask(&client, "GET", "/api/kernelspecs?1794807241165");
    let specs = specs.json_with(200).await;
    assert_eq!(specs["default"], "bare");
    let spec = &specs["kernelspecs"]["bare"];
    assert_eq!(spec["spec"]["language"], "python");
    for name in ["bare", "python3", "python"] {
        let path = format!("/api/kernelspecs/{name}");
        assert_eq!(&ask(&client, "GET", &path).json_with(200).await, spec);
    }
    ask(&client, "GET", "/api/kernelspecs/julia")
        .with(404)
        .await;
    let unknown = json!({"name": "julia"});
    let refused = ask(&client, "POST", "/api/kernels").json(&unknown);
    let refused = refused.json_with(400).await;
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("it offers bare")
    );

    // As browsers send it: not marked as JSON.
    let body = json!({"name": "", "path": "x", "env": {"A": "7", "KERNEL_WORKING_DIR": "/home/x"}});
    let made = ask(&client, "POST", "/api/kernels")
        .header("content-type", "text/plain;charset=UTF-8")
        .body(body.to_string());
    let made = made.json_with(201).await;
    let id = made["id"].as_str().unwrap();
    assert_eq!(id.split('-').count(), 5);
    let moment = made["last_activity"].as_str().unwrap();
    assert_eq!((moment.len(), &moment[19..20]), (27, "."));
    assert_eq!(
        (&made["name"], &made["connections"]),
        (&json!("bare"), &json!(0))
    );
    let mut wire = Wire::open(&world, &client, id).await;
    let code = "import os\nos.environ['A'], os.environ.get('KERNEL_WORKING_DIR')";
    assert_eq!(wire.run(code).await.value(), "('7', None)");
    let path = format!("/api/kernels/{id}");
    let shown = ask(&client, "GET", &path).json_with(200).await;
    assert_eq!(
        (&shown["execution_state"], &shown["connections"]),
        (&json!("idle"), &json!(1))
    );
    assert_eq!(
        ask(&client, "GET", "/api/kernels").json_with(200).await,
        json!([shown])
    );
    let status = ask(&client, "GET", "/api/status").json_with(200).await;
    assert_eq!(
        (&status["kernels"], &status["connections"]),
        (&json!(1), &json!(1))
    );
    let me = ask(&client, "GET", "/api/me").json_with(200).await;
    assert_eq!(me["identity"]["username"], "a");

    // A session of `/v1` is no kernel, and a kernel is a session of `/v1`.
    let session = client.session().await;
    let digits = session.rsplit('-').next().unwrap();
    let grouped = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    let path_of_session = format!("/api/kernels/{}", grouped.join("-"));
    ask(&client, "GET", &path_of_session).with(404).await;
    let sessions = client.get("/v1/sessions").json_with(200).await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);

    ask(&client, "DELETE", &path).with(204).await;
    assert_eq!(wire.hear().await, Err(Some(1000)));
    ask(&client, "GET", &path).with(404).await;
    ask(&client, "DELETE", &path).with(404).await;
    until_free(&world, "streams").await;
}

#[tokio::test]
async fn both_forms_carry_the_same_messages() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let id = kernel(&client).await;
    for mut wire in [
        Wire::open(&world, &client, &id).await,
        Wire::open_v1(&world, &client, &id, "name").await,
    ] {
        let info = wire.ask("kernel_info_request", json!({})).await;
        assert_eq!(
            (&info["status"], &info["protocol_version"]),
            (&json!("ok"), &json!("5.4"))
        );
        let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n\
                    display({'text/html': '<b>数</b>'}, raw=True)\n41 + 1";
        let seen = wire.run(code).await;
        for kind in [
            "status",
            "execute_input",
            "display_data",
            "execute_result",
            "execute_reply",
        ] {
            assert!(seen.kinds().contains(&kind), "{:?}", seen.0);
        }
        assert_eq!((seen.text().len(), seen.value()), (8, "42"));
        assert_eq!(
            seen.content("display_data")["data"]["text/html"],
            "<b>数</b>"
        );
        let reply = seen.0.iter().find(|(_, kind, _)| kind == "execute_reply");
        assert_eq!(reply.unwrap().0, "shell");
        let seen = wire.run("raise ValueError('wrong')").await;
        assert_eq!(seen.content("error")["ename"], "ValueError");
        assert_eq!(seen.content("execute_reply")["status"], "error");
        let asked = json!({"code": "数 = 1; pri", "cursor_pos": 10});
        let completed = wire.ask("complete_request", asked).await;
        assert_eq!(
            (&completed["matches"][0], &completed["cursor_start"]),
            (&json!("print"), &json!(7))
        );
        let asked = json!({"code": "zip", "cursor_pos": 3, "detail_level": 0});
        assert_eq!(wire.ask("inspect_request", asked).await["found"], true);
        let asked = json!({"code": "for x in y:"});
        assert_eq!(
            wire.ask("is_complete_request", asked).await["status"],
            "incomplete"
        );
        let history = json!({"hist_access_type": "tail", "n": 1});
        let history = wire.ask("history_request", history).await;
        assert_eq!(history["history"][0][2], "raise ValueError('wrong')");
        // Unknown requests harm nobody.
        wire.send("shell", "debug_request", json!({})).await;
        wire.send("iopub", "execute_request", json!({"code": "1"}))
            .await;
    }
}

/// The interpreter dies, and the variables are as they were before the cell.
#[tokio::test]
async fn a_crash_keeps_the_variables() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let id = kernel(&client).await;
    let mut wire = Wire::open_v1(&world, &client, &id, "name").await;
    wire.run("x = [6]").await;
    let seen = wire
        .run("x.append(7); import os; os.kill(os.getpid(), 11)")
        .await;
    let error = seen.content("error");
    assert_eq!(
        (&error["ename"], &error["evalue"]),
        (&json!("Crashed"), &json!("SIGSEGV"))
    );
    assert!(seen.text().starts_with("[belljar] "), "{:?}", seen.0);
    assert!(
        !seen
            .0
            .iter()
            .any(|it| it.2["execution_state"] == "restarting")
    );
    assert_eq!(wire.run("x").await.value(), "[6]");
}

#[tokio::test]
async fn interrupts_keep_the_variables_and_restarts_the_files() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let id = kernel(&client).await;
    let path = format!("/api/kernels/{id}");
    let mut wire = Wire::open(&world, &client, &id).await;
    wire.run("x = 1; _ = open('a.txt', 'w').write('kept')")
        .await;
    let cell = wire.sleep().await;
    let waiting = wire
        .send("shell", "execute_request", json!({"code": "x = 2"}))
        .await;
    let shown = ask(&client, "GET", &path).json_with(200).await;
    assert_eq!(shown["execution_state"], "busy");
    ask(&client, "POST", &format!("{path}/interrupt"))
        .with(204)
        .await;
    let seen = wire.seen(&cell).await;
    assert_eq!(seen.content("error")["ename"], "KeyboardInterrupt");
    let seen = wire.seen(&waiting).await;
    assert_eq!(seen.content("execute_reply")["status"], "aborted");
    // By a message, while a cell runs.
    let cell = wire.sleep().await;
    wire.send("control", "interrupt_request", json!({})).await;
    let seen = wire.seen(&cell).await;
    assert_eq!(seen.content("execute_reply")["ename"], "KeyboardInterrupt");
    assert_eq!(wire.run("x").await.value(), "1");

    // While a cell runs, too: it is interrupted, and what waits is dropped.
    wire.sleep().await;
    wire.send("shell", "execute_request", json!({"code": "x = 2"}))
        .await;
    let restarted = ask(&client, "POST", &format!("{path}/restart"));
    assert_eq!(restarted.json_with(200).await["id"], id);
    let seen = wire.run("'x' in globals(), open('a.txt').read()").await;
    assert_eq!(seen.value(), "(False, 'kept')");
    assert_eq!(seen.content("execute_input")["execution_count"], 1);
    // By a message, and twice.
    for _ in 0..2 {
        wire.run("x = 1").await;
        let id = wire.send("control", "shutdown_request", json!({"restart": true}));
        let id = id.await;
        while wire.hear().await.unwrap()["parent_header"]["msg_id"] != id {}
        while wire.hear().await.unwrap()["content"]["execution_state"] != "starting" {}
        assert_eq!(wire.run("'x' in globals()").await.value(), "False");
    }
    wire.send("control", "shutdown_request", json!({"restart": false}))
        .await;
    while wire.hear().await.is_ok() {}
    soon(async || ask(&client, "GET", &path).send().await.unwrap().status() == 404).await;
    until_free(&world, "sessions").await;
}

/// A cell that no interrupt reaches does not keep a kernel from its restart.
#[tokio::test]
async fn waits_a_restart_ends_a_cell_that_ignores_interrupts() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let id = kernel(&client).await;
    let mut wire = Wire::open(&world, &client, &id).await;
    let code = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\nprint('begun', flush=True)\nwhile True: pass";
    wire.send("shell", "execute_request", json!({"code": code}))
        .await;
    while wire.hear().await.unwrap()["content"]["text"] != "begun\n" {}
    let path = format!("/api/kernels/{id}/restart");
    ask(&client, "POST", &path).with(200).await;
    assert_eq!(wire.run("6 * 7").await.value(), "42");
}

#[tokio::test]
async fn several_sockets_share_a_kernel() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let id = kernel(&client).await;
    let mut first = Wire::open_v1(&world, &client, &id, "first").await;
    let mut second = Wire::open(&world, &client, &id).await;
    first.run("print('to all')").await;
    let (mut kinds, mut text) = (Vec::new(), String::new());
    loop {
        let heard = second.hear().await.unwrap();
        kinds.push(heard["channel"].as_str().unwrap().to_owned());
        text += heard["content"]["text"].as_str().unwrap_or_default();
        if heard["content"]["execution_state"] == "idle" {
            break;
        }
    }
    // The reply went to who asked.
    assert_eq!(text, "to all\n");
    assert!(kinds.iter().all(|channel| channel == "iopub"), "{kinds:?}");

    // A question goes to who runs the cell, and so does its answer.
    let code = json!({"code": "print('so:', input('? '))", "allow_stdin": true});
    let cell = second.send("shell", "execute_request", code).await;
    let question = loop {
        let heard = second.hear().await.unwrap();
        if heard["channel"] == "stdin" {
            break heard;
        }
    };
    assert_eq!(question["content"]["prompt"], "? ");
    second
        .send("stdin", "input_reply", json!({"value": "yes"}))
        .await;
    assert_eq!(second.seen(&cell).await.text(), "so: yes\n");

    // Who comes back under its name gets what it has missed: the output and the reply.
    let code = "import time\ntime.sleep(0.5)\nprint('late')";
    let cell = first
        .send("shell", "execute_request", json!({"code": code}))
        .await;
    while first.hear().await.unwrap()["header"]["msg_type"] != "execute_input" {}
    first.socket.close(None).await.unwrap();
    while second.hear().await.unwrap()["content"]["text"] != "late\n" {}
    while second.hear().await.unwrap()["content"]["execution_state"] != "idle" {}
    let mut back = Wire::open_v1(&world, &client, &id, "first").await;
    let seen = back.seen(&cell).await;
    assert_eq!(seen.text(), "late\n");
    assert_eq!(seen.content("execute_reply")["status"], "ok");

    // There is a most.
    let path = format!("/api/kernels/{id}/channels?token={}", client.key.text);
    let mut all = Vec::new();
    let refused = loop {
        match Wire::connect(&world, &path, &[]).await {
            Ok(wire) => all.push(wire),
            Err(status) => break status,
        }
    };
    assert!((refused, all.len()) == (429, 14) || (refused, all.len()) == (429, 13));
}

#[tokio::test]
async fn hostile_frames_cost_their_socket_alone() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let id = kernel(&client).await;
    let mut mine = Wire::open(&world, &client, &id).await;
    mine.run("x = 42").await;
    let header = br#"{"msg_id": "1", "msg_type": "execute_request"}"#.to_vec();
    let object = b"{}".to_vec();
    let parts = |channel: &str, header: &[u8], content: &[u8]| {
        let parts = [channel.as_bytes(), header, b"{}", b"{}", content];
        with_offsets(&parts.map(<[u8]>::to_vec))
    };
    let mut far = parts("shell", &header, &object);
    far[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut many = parts("shell", &header, &object);
    many[..8].copy_from_slice(&(u64::MAX / 8).to_le_bytes());
    let long = format!(r#"{{"msg_id": "{}", "msg_type": "x"}}"#, "y".repeat(20_000));
    let deep = format!(r#"{{"header": {}}}"#, "[".repeat(9_000));
    let values = format!(r#"{{"header": [{}0]}}"#, "0,".repeat(20_000));
    let invalid = Some(1007);
    for (message, code) in [
        (Message::binary(far), invalid),
        (Message::binary(many), invalid),
        (Message::binary(vec![0xff; 100]), invalid),
        (Message::binary(Vec::new()), invalid),
        (Message::binary(parts("shell2", &header, &object)), invalid),
        (Message::binary(parts("shell", b"{}", &object)), invalid),
        (Message::binary(parts("shell", &header, b"[1]")), invalid),
        (
            Message::binary(parts("shell", long.as_bytes(), &object)),
            invalid,
        ),
        (Message::text(""), invalid),
        (Message::text("null"), invalid),
        (Message::text(deep), invalid),
        (Message::text(values), Some(1009)),
        (Message::text("x".repeat((1 << 20) + 1)), Some(1009)),
    ] {
        let mut wire = Wire::open_v1(&world, &client, &id, "hostile").await;
        let shown = format!("{message:?}").chars().take(80).collect::<String>();
        // A large message is refused while it is sent.
        let _ = wire.socket.send(message).await;
        let closed = wire.hear().await;
        assert!(
            closed == Err(code) || code == Some(1009) && closed == Err(None),
            "{shown}: {closed:?}"
        );
    }
    // More requests than may wait.
    mine.sleep().await;
    let mut wire = Wire::open(&world, &client, &id).await;
    let request = json!({"header": {"msg_id": "1", "msg_type": "is_complete_request"}, "content": {"code": "1"}});
    for _ in 0..1100 {
        if wire
            .socket
            .feed(Message::text(request.to_string()))
            .await
            .is_err()
        {
            break;
        }
    }
    let _ = wire.socket.flush().await;
    let closed = loop {
        if let Err(code) = wire.hear().await {
            break code;
        }
    };
    assert!([Some(1008), None].contains(&closed), "{closed:?}");
    ask(&client, "POST", &format!("/api/kernels/{id}/interrupt"))
        .with(204)
        .await;
    // Those that waited are answered, and there is room again.
    let mut answered = 0;
    while answered < 1000 {
        let heard = mine.hear().await.unwrap();
        answered += usize::from(heard["content"]["execution_state"] == "idle");
    }
    assert_eq!(mine.run("x").await.value(), "42");
}

/// Nobody waits for a client that does not read, and it holds no memory.
#[tokio::test]
async fn a_slow_reader_is_cut_off() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let id = kernel(&client).await;
    let mut slow = Wire::open_v1(&world, &client, &id, "slow").await;
    let mut fast = Wire::open(&world, &client, &id).await;
    let code = "for n in range(24): display({'text/html': 'x' * 1_000_000}, raw=True)";
    for _ in 0..3 {
        let seen = fast.run(code).await;
        let shown = seen
            .kinds()
            .iter()
            .filter(|kind| **kind == "display_data")
            .count();
        assert!(shown >= 20, "{shown}");
    }
    let mut heard = 0;
    let closed = loop {
        match slow.hear().await {
            Ok(_) => heard += 1,
            Err(code) => break code,
        }
    };
    assert!(heard < 60, "{heard}");
    assert_eq!(closed, Some(1008));
    assert_eq!(fast.run("6 * 7").await.value(), "42");
}

#[tokio::test]
async fn notebooks_have_kernels() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let asked = |path: &str, kernel: Value| json!({"path": path, "name": "n", "type": "notebook", "kernel": kernel});
    let create = |body: Value| ask(&client, "POST", "/api/sessions").json(&body);
    let made = create(asked("a.ipynb", json!({"name": "python3"})));
    let made = made.json_with(201).await;
    assert_eq!(made["notebook"], json!({"path": "a.ipynb", "name": "n"}));
    // The same notebook has the same kernel.
    let again = create(asked("a.ipynb", json!({"name": "python3"})));
    assert_eq!(
        again.json_with(201).await["kernel"]["id"],
        made["kernel"]["id"]
    );
    let path = format!("/api/sessions/{}", made["id"].as_str().unwrap());
    let renamed = ask(&client, "PATCH", &path).json(&json!({"path": "b.ipynb", "name": "b"}));
    let renamed = renamed.json_with(200).await;
    assert_eq!(
        (&renamed["path"], &renamed["kernel"]["id"]),
        (&json!("b.ipynb"), &made["kernel"]["id"])
    );
    // Another kernel takes its place.
    let changed = ask(&client, "PATCH", &path).json(&json!({"kernel": {"name": "python3"}}));
    let changed = changed.json_with(200).await;
    assert_eq!(
        (&changed["id"], &changed["path"]),
        (&made["id"], &json!("b.ipynb"))
    );
    assert_ne!(changed["kernel"]["id"], made["kernel"]["id"]);
    let kernels = ask(&client, "GET", "/api/kernels").json_with(200).await;
    assert_eq!(kernels.as_array().unwrap().len(), 1);
    // A kernel that is there, unless another notebook has it.
    let free = kernel(&client).await;
    let second = create(asked("c.ipynb", json!({"id": free})));
    assert_eq!(second.json_with(201).await["kernel"]["id"], free);
    create(asked("d.ipynb", json!({"id": free})))
        .with(400)
        .await;
    create(json!({"name": "n"})).with(400).await;
    create(asked(&"x".repeat(2000), json!({}))).with(400).await;
    assert_eq!(
        ask(&client, "GET", &path).json_with(200).await["id"],
        made["id"]
    );
    ask(&client, "DELETE", &path).with(204).await;
    ask(&client, "GET", &path).with(404).await;
    let rest = ask(&client, "GET", "/api/sessions").json_with(200).await;
    assert_eq!(rest.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_kernel_survives_a_restart_of_the_service() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let id = kernel(&client).await;
    let mut wire = Wire::open(&world, &client, &id).await;
    wire.run("x = 41; _ = open('a.txt', 'w').write('kept')")
        .await;
    let key = client.key.clone();
    let data = world.ends().await;
    assert_eq!(wire.hear().await, Err(Some(1001)));
    let world = world_in(data, on()).await;
    let client = world.client_by(key);
    let kernels = ask(&client, "GET", "/api/kernels").json_with(200).await;
    assert_eq!(
        (&kernels[0]["id"], &kernels[0]["execution_state"]),
        (&json!(id), &json!("idle"))
    );
    let mut wire = Wire::open(&world, &client, &id).await;
    assert_eq!(wire.run("x + 1").await.value(), "42");
    // There is no checkpoint of its start any more. Its files stay nonetheless.
    let path = format!("/api/kernels/{id}/restart");
    ask(&client, "POST", &path).with(200).await;
    let seen = wire.run("'x' in globals(), open('a.txt').read()").await;
    assert_eq!(seen.value(), "(False, 'kept')");
}

#[tokio::test]
async fn a_kernel_ends_with_its_session_or_key() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let id = kernel(&client).await;
    let mut wire = Wire::open(&world, &client, &id).await;
    wire.run("1").await;
    let sessions = client.get("/v1/sessions").json_with(200).await;
    let session = sessions["sessions"][0]["id"].as_str().unwrap();
    client
        .delete(&format!("/v1/sessions/{session}"))
        .with(204)
        .await;
    let mut states = Vec::new();
    while let Ok(heard) = wire.hear().await {
        states.push(heard["content"]["execution_state"].clone());
    }
    assert_eq!(states.last(), Some(&json!("dead")));

    let id = kernel(&client).await;
    let mut wire = Wire::open(&world, &client, &id).await;
    wire.run("1").await;
    let prefix = &client.key.info.prefix;
    world.server.tenants().revoke(prefix).await.unwrap();
    assert_eq!(wire.hear().await, Err(Some(1008)));
}
