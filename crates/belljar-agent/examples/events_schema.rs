//! Prints the JSON Schema of a run's events: `docs/events.schema.json`.
#![allow(clippy::print_stdout, reason = "it prints")]

fn main() {
    let schema = schemars::schema_for!(belljar_agent::RunEvent);
    println!("{:#}", schema.to_value());
}
