//! Prints the OpenAPI document of the service (`docs/openapi.json`), or of its admin API with the argument `admin`
//! (`docs/openapi-admin.json`).
#![allow(clippy::print_stdout, reason = "it is there to print")]

fn main() {
    let document = match std::env::args().nth(1).as_deref() {
        Some("admin") => belljar_server::openapi_admin(),
        _ => belljar_server::openapi(),
    };
    println!("{document:#}");
}
