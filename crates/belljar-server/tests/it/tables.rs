//! Tables of a live session, over HTTP.

use belljar_sandbox::{Engine, EnvironmentStore};
use belljar_server::ServerOptions;
use serde_json::{Value, json};

use crate::support::{Ask as _, World, options, world_of_engines};

const FRAME: &str = "import pandas as pd\n\
    frame = pd.DataFrame({'name': [f'n{i % 7}' for i in range(1000)], 'value': range(1000)})\n\
    text = 'text'";

/// With pandas.
async fn data_world(options: ServerOptions) -> World {
    let environment = EnvironmentStore::open_default().unwrap();
    let environment = environment.load("default").unwrap();
    let engine = || Engine::builder(environment.clone()).build();
    world_of_engines(engine, tempfile::tempdir().unwrap(), options).await
}

/// A path with filters in its query.
fn with_filters(path: &str, filters: &Value) -> String {
    let hex = |byte: u8| format!("%{byte:02X}");
    let encoded: String = filters.to_string().bytes().map(hex).collect();
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}filters={encoded}")
}

#[tokio::test]
async fn a_table_is_read_by_pages() {
    let world = data_world(ServerOptions::default()).await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, FRAME).await;
    let frame = format!("{session}/variables/frame");
    let page = client.get(&format!("{frame}/rows?offset=998"));
    assert_eq!(
        page.json_with(200).await,
        json!({
            "columns": [{"name": "name", "dtype": "str"}, {"name": "value", "dtype": "int64"}],
            "index": [998, 999], "rows": [["n4", 998], ["n5", 999]],
            "matching_rows": 1000, "total_rows": 1000, "total_columns": 2,
        })
    );
    let usual = client.get(&format!("{frame}/rows")).json_with(200).await;
    assert_eq!(usual["rows"].as_array().unwrap().len(), 100);
    let filters = json!([
        {"column": 0, "operator": "equals", "value": "n3"},
        {"column": 1, "operator": "less", "value": "20"},
    ]);
    let path = format!("{frame}/rows?limit=2&sort=1&descending=true");
    let page = client.get(&with_filters(&path, &filters));
    let page = page.json_with(200).await;
    assert_eq!(page["rows"], json!([["n3", 17], ["n3", 10]]));
    assert_eq!(page["matching_rows"], 3);
    let path = with_filters(&format!("{frame}/statistics?column=1"), &filters);
    assert_eq!(
        client.get(&path).json_with(200).await,
        json!({"count": 3, "missing": 0, "unique": 3, "min": 3, "max": 17, "mean": 10.0})
    );
    let path = with_filters(&format!("{frame}/csv?sort=1&descending=true"), &filters);
    let csv = client.get(&path).with(200).await;
    assert_eq!(csv.headers()["content-type"], "text/csv; charset=utf-8");
    assert_eq!(
        csv.headers()["content-disposition"],
        "attachment; filename*=UTF-8''frame.csv"
    );
    assert_eq!(
        csv.text().await.unwrap(),
        "name,value\nn3,17\nn3,10\nn3,3\n"
    );

    // The session is as before: no cell, no name.
    let cells = client.get(&format!("{session}/cells"));
    let cells = cells.json_with(200).await;
    assert_eq!(cells["cells"].as_array().unwrap().len(), 1);
    let outcome = client.run(&session, "len(frame)").await;
    assert_eq!(outcome["cell"], 2);
    assert_eq!(outcome["changes"]["added"], json!([]), "{outcome:#}");
    world.ends().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_said() {
    let small = options(|options| options.session.limits.transfer_bytes = 1 << 16);
    let world = data_world(small).await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, FRAME).await;
    let variables = format!("{session}/variables");
    for part in ["rows", "csv", "statistics?column=0"] {
        let gone = client.get(&format!("{variables}/none/{part}"));
        let problem = gone.problem(404, "variable_not_found").await;
        assert!(problem["detail"].as_str().unwrap().contains("`none`"));
        client
            .get(&format!("{variables}/text/{part}"))
            .problem(409, "not_a_table")
            .await;
    }
    let elsewhere = client.get(&format!("{variables}/frame/rows?namespace=other"));
    elsewhere.problem(404, "namespace_not_found").await;
    for query in [
        "rows?limit=0",
        "rows?limit=501",
        "rows?sort=2",
        "rows?sort=-2",
        "rows?sort=name",
        "rows?offset=-1",
        "rows?page=1",
        "rows?filters=x",
        "statistics",
        "statistics?column=9",
        "csv?sort=9",
    ] {
        let refused = client.get(&format!("{variables}/frame/{query}"));
        refused.problem(400, "bad_query").await;
    }
    let one = json!({"column": 1, "operator": "less", "value": "1"});
    for filters in [
        json!({}),
        json!(vec![one.clone(); 21]),
        json!([{"column": 1, "operator": "like", "value": "1"}]),
        json!([{"column": 1, "operator": "less", "value": "x".repeat(1001)}]),
        json!([{"column": 1, "operator": "less", "value": "many"}]),
        json!([{"column": 7, "operator": "less", "value": "1"}]),
        json!([{"column": 1, "operator": "less", "value": "1", "more": 1}]),
    ] {
        let refused = client.get(&with_filters(&format!("{variables}/frame/rows"), &filters));
        refused.problem(400, "bad_query").await;
    }
    client
        .run(&session, "frame = pd.DataFrame({'x': ['y' * 1000] * 100})")
        .await;
    client
        .get(&format!("{variables}/frame/csv"))
        .problem(413, "file_too_large")
        .await;
    client
        .get(&format!("{variables}/frame/rows"))
        .with(200)
        .await;
    let other = world.client("b").await;
    other
        .get(&format!("{variables}/frame/rows"))
        .problem(404, "session_not_found")
        .await;
    world.ends().await;
}
