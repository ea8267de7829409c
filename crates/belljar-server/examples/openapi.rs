//! Prints the OpenAPI document of the service: `docs/openapi.json`.
#![allow(clippy::print_stdout, reason = "it is there to print")]

fn main() {
    println!("{:#}", belljar_server::openapi());
}
