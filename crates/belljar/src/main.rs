//! The belljar command.
fn main() {}
