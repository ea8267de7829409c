//! A tenant asks for less isolation than it must have. The tests in `it` try each wire.

use belljar_server::Scope;
use belljar_test_model::ScriptedModel;
use serde_json::{Value, json};

use crate::approvals::offering;
use crate::harness::{Case, Severity};
use crate::mcp_client::Mcp;
use crate::support::Ask as _;

#[tokio::test(flavor = "multi_thread")]
async fn n79_less_than_the_least_isolation() {
    let model = ScriptedModel::start([]).unwrap();
    let case = Case::begin_with(
        offering(&model),
        "N79",
        Severity::InternalEsc,
        "a tenant with a least isolation asks for less: by name, as a default, for runs, snapshots and MCP; and uses \
         what it had before: cells, commands, files, forks, a wake",
        "403 and the reason, each time; nothing of it runs, and what it had is there when the least is removed",
    )
    .await;
    let hostile = case.hostile_with(&[Scope::Sessions, Scope::Runs]).await;
    let (awake, asleep) = (hostile.session().await, hostile.session().await);
    for path in [&awake, &asleep] {
        hostile.run(path, "x = 42").await;
    }
    let snapshot = hostile.get(&format!("{awake}/snapshot")).with(200).await;
    let snapshot = snapshot.bytes().await.unwrap();
    let hibernate = hostile.post(&format!("{asleep}/hibernate"), json!({}));
    hibernate.with(200).await;
    let mcp = Mcp::open(&hostile).await;
    assert_eq!(mcp.prints("print(1)").await, "1\n");
    let admin = case.world.admin(&[Scope::Admin]).await;
    let least = async |least: Value| {
        let set = "/v1/admin/tenants/hostile/isolation";
        admin.post(set, json!({"least": least})).with(200).await;
    };
    // The service has `full` alone.
    least("gvisor".into()).await;

    let load = |query: &str| {
        let path = format!("/v1/sessions/from-snapshot{query}");
        let request = hostile.request(reqwest::Method::POST, &path);
        let kind = "application/vnd.belljar.snapshot";
        request.header("content-type", kind).body(snapshot.clone())
    };
    let mut requests = vec![
        hostile.post("/v1/sessions", json!({})),
        hostile.post("/v1/sessions", json!({"isolation": "full"})),
        hostile.post(
            "/v1/sessions",
            json!({"isolation": null, "environment": "bare"}),
        ),
        load(""),
        load("?isolation=full"),
        hostile.post("/v1/runs", json!({"task": "Write."})),
        hostile.post("/v1/runs", json!({"task": "Write.", "isolation": "full"})),
    ];
    for path in [&awake, &asleep] {
        let post = |what: &str, body| hostile.post(&format!("{path}/{what}"), body);
        requests.extend([
            post("cells", json!({"code": "open('ran', 'w')"})),
            post("commands", json!({"argv": ["touch", "ran"]})),
            post("fork", json!({})),
            post("wake", json!({})),
            post("namespaces", json!({"name": "other"})),
            hostile.put(&format!("{path}/files/ran"), "1"),
        ]);
    }
    for request in requests {
        request.problem(403, "isolation_too_weak").await;
    }
    for (tool, arguments) in [
        ("run_python", json!({"code": "open('ran', 'w')"})),
        ("create_session", json!({"isolation": "full"})),
        ("ask_agent", json!({"task": "Write."})),
    ] {
        let refused = mcp.call(tool, arguments).await;
        assert_eq!(refused["isError"], true, "{tool}: {refused:#}");
    }
    case.check_peer().await;
    assert!(model.requests().is_empty());

    least(Value::Null).await;
    let look = "import os\nprint(x, os.path.exists('ran'))";
    for path in [&awake, &asleep] {
        assert_eq!(hostile.printed(path, look).await, "42 False\n");
        hostile.delete(path).with(204).await;
    }
    drop(mcp);
    case.end().await;
}
