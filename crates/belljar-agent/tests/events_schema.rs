//! The documented shape of events is the one that is written.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use belljar_agent::RunEvent;

#[test]
fn the_documented_schema_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.schema.json");
    let documented = std::fs::read_to_string(path).unwrap();
    let schema = schemars::schema_for!(RunEvent).to_value();
    assert!(
        documented == format!("{schema:#}\n"),
        "docs/events.schema.json is not up to date: \
         cargo run -p belljar-agent --example events_schema > docs/events.schema.json"
    );
}

/// Each kind of event has its place in docs/events.md.
#[test]
fn every_kind_of_event_is_explained() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");
    let text = std::fs::read_to_string(path).unwrap();
    let schema = schemars::schema_for!(RunEvent).to_value();
    let kinds = schema["oneOf"].as_array().unwrap();
    assert!(kinds.len() > 10, "{kinds:#?}");
    for kind in kinds {
        let kind = kind["properties"]["kind"]["const"].as_str().unwrap();
        assert!(text.contains(&format!("| `{kind}` |")), "{kind}");
    }
}
