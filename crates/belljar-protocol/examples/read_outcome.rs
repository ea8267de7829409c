//! Reads a line that `belljar exec --json` printed, and prints the text for a model.
//!
//! `cargo run -p belljar-protocol --example read_outcome`
#![allow(clippy::print_stdout, reason = "an example prints")]

use belljar_protocol::{Event, Language};

const LINE: &str = r#"{"type": "outcome", "cell": 1, "status": "failure", "cause": {"kind": "exception"},
  "state": {"fate": "kept"}, "exit_code": 0, "exception": {"type": "ZeroDivisionError", "value": "division by zero",
  "repr": "ZeroDivisionError('division by zero')", "traceback": "ZeroDivisionError: division by zero\n", "line": 1},
  "stdout": {"text": "", "bytes": 0, "omitted_bytes": 0}, "stderr": {"text": "", "bytes": 0, "omitted_bytes": 0},
  "transcript": "", "durations": {"total_us": 6536, "run_us": 38, "cpu_us": 1918}}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Event::Outcome(outcome) = serde_json::from_str(LINE)? {
        println!("{:?}, variables: {:?}", outcome.status, outcome.state);
        print!("{}", outcome.brief(Language::English));
    }
    Ok(())
}
