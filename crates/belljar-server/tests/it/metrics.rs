//! What operators see, and that clients can't make it grow.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};

use crate::nodes::{Cluster, node_id};
use crate::postgres;
use crate::support::{Ask as _, soon, world};

const DASHBOARD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../ops/grafana/belljar.json"
);

/// A scrape, read as strictly as Prometheus does.
#[derive(Debug)]
struct Scrape {
    /// The type of each family.
    kinds: BTreeMap<String, String>,
    /// Values by name and labels, as they are written.
    samples: BTreeMap<String, f64>,
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The labels in braces: `name="value",…`.
fn labels(text: &str) -> Vec<(String, String)> {
    let mut rest = text;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap();
        let (value, after) = after.split_once('"').unwrap();
        assert!(is_name(name), "{text}");
        assert!(!value.contains(['\\', '\n']), "{text}");
        all.push((name.to_owned(), value.to_owned()));
        let more = after.strip_prefix(',');
        assert!(more.is_some() || after.is_empty(), "{text}");
        rest = more.unwrap_or_default();
    }
    all
}

fn read(text: &str) -> Scrape {
    let mut scrape = Scrape {
        kinds: BTreeMap::new(),
        samples: BTreeMap::new(),
    };
    let mut helped = BTreeSet::new();
    let mut family = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, about) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !about.is_empty(), "{line}");
            assert!(helped.insert(name.to_owned()), "twice: {line}");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(helped.contains(name), "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            name.clone_into(&mut family);
            let earlier = scrape.kinds.insert(name.to_owned(), kind.to_owned());
            assert!(earlier.is_none(), "twice: {line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        let (name, given) = match series.split_once('{') {
            Some((name, rest)) => (name, labels(rest.strip_suffix('}').unwrap())),
            None => (series, Vec::new()),
        };
        let suffix = name.strip_prefix(family.as_str()).unwrap();
        if scrape.kinds[&family] == "histogram" {
            assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}");
            let ends = given.iter().filter(|(label, _)| label == "le").count();
            assert_eq!(ends, usize::from(suffix == "_bucket"), "{line}");
        } else {
            assert_eq!(suffix, "", "{line} in {family}");
        }
        let names: BTreeSet<_> = given.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), given.len(), "{line}");
        let earlier = scrape.samples.insert(series.to_owned(), value);
        assert!(earlier.is_none(), "twice: {line}");
    }
    scrape.histograms_add_up();
    scrape
}

impl Scrape {
    fn value(&self, series: &str) -> f64 {
        let found = self.samples.get(series);
        *found.unwrap_or_else(|| panic!("{series} is not in {:#?}", self.samples))
    }

    fn is_counter(&self, series: &str) -> bool {
        let name = series.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix))
            .find(|family| self.kinds.contains_key(*family));
        self.kinds[family.unwrap_or(name)] != "gauge"
    }

    /// Buckets grow to the last, which is the count.
    fn histograms_add_up(&self) {
        let mut last: BTreeMap<(String, Vec<_>), Vec<(f64, f64)>> = BTreeMap::new();
        for (series, value) in &self.samples {
            let Some((name, rest)) = series.split_once("_bucket{") else {
                continue;
            };
            let mut of_bucket = labels(rest.strip_suffix('}').unwrap());
            let place = of_bucket.iter().position(|(label, _)| label == "le");
            let (_, end) = of_bucket.remove(place.unwrap());
            let end: f64 = end.parse().unwrap();
            let key = (name.to_owned(), of_bucket);
            last.entry(key).or_default().push((end, *value));
        }
        assert!(!last.is_empty());
        for ((name, of_histogram), mut buckets) in last {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{buckets:?}");
            let (end, count) = buckets[buckets.len() - 1];
            assert!(end.is_infinite(), "{name}");
            let of_histogram: Vec<_> = of_histogram
                .iter()
                .map(|(label, value)| format!("{label}=\"{value}\""))
                .collect();
            let series = match of_histogram.as_slice() {
                [] => format!("{name}_count"),
                some => format!("{name}_count{{{}}}", some.join(",")),
            };
            assert!((self.value(&series) - count).abs() < 0.5, "{series}");
        }
    }
}

#[tokio::test]
async fn a_scrape_is_what_prometheus_reads_and_its_counters_only_grow() {
    let world = world().await;
    let idle = read(&world.metrics().await);
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "1 / 0").await;
    client.run(&session, "x = 1").await;
    client
        .post(&format!("{session}/hibernate"), json!({}))
        .with(200)
        .await;
    client
        .get("/v1/sessions/none")
        .problem(404, "session_not_found")
        .await;
    let first = read(&world.metrics().await);
    for (series, expected) in [
        ("belljar_sessions", 1.0),
        ("belljar_sessions_hibernated", 1.0),
        ("belljar_sessions_created_total", 1.0),
        ("belljar_cells_running", 0.0),
        ("belljar_cells_total{status=\"success\"}", 1.0),
        ("belljar_cells_total{status=\"failure\"}", 1.0),
        ("belljar_cells_total{status=\"crashed\"}", 0.0),
        ("belljar_cell_duration_seconds_count", 2.0),
        (
            "belljar_http_problems_total{code=\"session_not_found\"}",
            1.0,
        ),
        ("belljar_http_problems_total{code=\"service_full\"}", 0.0),
        (
            "belljar_http_requests_total{method=\"POST\",route=\"/v1/sessions\",status=\"2xx\"}",
            1.0,
        ),
        (
            "belljar_http_requests_total{method=\"GET\",route=\"/v1/sessions/{id}\",status=\"4xx\"}",
            1.0,
        ),
        (
            "belljar_http_request_duration_seconds_count{method=\"POST\",route=\"/v1/sessions/{id}/cells\"}",
            2.0,
        ),
        (
            "belljar_permits_used{kind=\"sessions\",of=\"service\"}",
            1.0,
        ),
        (
            "belljar_permits_limit{kind=\"sessions\",of=\"service\"}",
            1000.0,
        ),
        (
            "belljar_permits_limit{kind=\"streams\",of=\"tenant\"}",
            64.0,
        ),
    ] {
        let found = first.value(series);
        assert!((found - expected).abs() < 0.001, "{series} is {found}");
    }
    assert!(first.value("process_resident_memory_bytes") > 1e6);
    assert!(first.value("process_open_fds") > 5.0);
    assert!(first.value("belljar_host_memory_available_bytes") > 1e6);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let up = now.as_secs_f64() - first.value("process_start_time_seconds");
    assert!((-2.0..600.0).contains(&up), "up for {up} s");

    let mut stream = client.stream(&session, "import time\ntime.sleep(20)").await;
    stream.next().await.unwrap();
    let streaming = read(&world.metrics().await);
    let streams = "belljar_permits_used{kind=\"streams\",of=\"service\"}";
    assert!((streaming.value(streams) - 1.0).abs() < 0.001);
    client.delete(&session).with(204).await;
    let last = read(&world.metrics().await);
    assert!(last.value("belljar_sessions") < 0.5);
    for (before, after) in [(&idle, &first), (&first, &streaming), (&streaming, &last)] {
        assert!(
            before
                .kinds
                .iter()
                .all(|kind| after.kinds.get_key_value(kind.0) == Some(kind))
        );
        for (series, value) in &before.samples {
            if before.is_counter(series) {
                assert!(after.value(series) >= *value, "{series}");
            }
        }
    }
}

/// E11: whatever clients call themselves, their sessions, methods and paths, there are as many series.
#[tokio::test]
async fn clients_can_not_make_the_scrape_grow() {
    let world = world().await;
    let ask = async |name: &str| {
        let client = world.client(name).await;
        let session = client.session().await;
        client.get(&format!("/v1/sessions/{name}")).with(404).await;
        client.get(&format!("/{name}")).with(404).await;
        let method = Method::from_bytes(name.to_ascii_uppercase().as_bytes()).unwrap();
        client.request(method, &session).with(405).await;
        client.delete(&session).with(204).await;
    };
    ask("first").await;
    let few = read(&world.metrics().await);
    for name in ["second", "third", "fourth"] {
        ask(name).await;
    }
    let text = world.metrics().await;
    let many = read(&text);
    assert!(few.samples.keys().eq(many.samples.keys()), "{text}");
    for name in ["first", "second", "FIRST"] {
        assert!(!text.contains(&format!("\"{name}\"")), "{text}");
    }
}

/// Every name in the dashboard is one of the scrape, and every label one that it has.
#[tokio::test]
async fn the_dashboard_shows_what_there_is() {
    // A node of a cluster has more of it.
    let world = Cluster::new(postgres::database(), []).node().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "1").await;
    let scrape = read(&world.metrics().await);
    let dashboard: Value =
        serde_json::from_str(&std::fs::read_to_string(DASHBOARD).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().unwrap();
        targets
            .iter()
            .map(|target| target["expr"].as_str().unwrap())
    });
    let mut shown = BTreeSet::new();
    for query in queries {
        let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for name in
            words.filter(|word| word.starts_with("belljar_") || word.starts_with("process_"))
        {
            let of_scrape = |series: &&String| series.split('{').next() == Some(name);
            let series = scrape.samples.keys().find(of_scrape);
            let series = series.unwrap_or_else(|| panic!("`{name}` is not in the scrape: {query}"));
            for list in query.split("by (").skip(1) {
                for label in list.split(')').next().unwrap().split(", ") {
                    assert!(series.contains(&format!("{label}=")), "{label}: {query}");
                }
            }
            shown.insert(name.to_owned());
        }
    }
    for name in [
        "belljar_http_requests_total",
        "belljar_http_request_duration_seconds_bucket",
        "belljar_sessions",
        "belljar_cells_total",
        "belljar_http_problems_total",
        "process_resident_memory_bytes",
    ] {
        assert!(shown.contains(name), "{name}: {shown:#?}");
    }
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
}

/// Each node of a cluster counts its nodes, what it passes on, and what it continues for others.
#[tokio::test]
async fn a_node_counts_what_it_does_for_the_cluster() {
    let cluster = Cluster::new(postgres::database(), []);
    let (one, two, here, other) = cluster.two().await;
    let session = here.session().await;
    other.printed(&session, "x = 1").await;
    let has = async |series: &str, expected: f64| {
        let found = read(&two.metrics().await).value(series);
        (found - expected).abs() < 0.001
    };
    let passed_on = "belljar_cluster_requests_passed_on_total";
    assert!(has(&format!("{passed_on}{{end=\"answered\"}}"), 1.0).await);
    assert!(has(&format!("{passed_on}{{end=\"unreached\"}}"), 0.0).await);
    assert!(has("belljar_cluster_fenced", 0.0).await);
    assert!(has("belljar_cluster_draining", 0.0).await);
    soon(async || has("belljar_cluster_nodes", 2.0).await).await;
    // Nobody listens there.
    drop(cluster.silence(&one).await);
    other.get(&session).problem(503, "node_lost").await;
    assert!(has(&format!("{passed_on}{{end=\"unreached\"}}"), 1.0).await);
    let declare = format!(
        "UPDATE belljar.lives SET dead = true, died = now() WHERE node = '{}'",
        node_id(&two)
    );
    cluster.sql(&declare).await;
    soon(async || has("belljar_cluster_rejoined_total", 1.0).await).await;
    one.ends().await;
    soon(async || has("belljar_cluster_nodes", 1.0).await).await;
    two.ends().await;
}
