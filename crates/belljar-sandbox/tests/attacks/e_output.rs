//! E: output and what shows it.
