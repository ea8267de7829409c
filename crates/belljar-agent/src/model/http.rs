//! Clients of HTTP, as all of ours are.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, ClientBuilder, Url, redirect};

use super::exchange::root;

/// Whether only this machine is asked.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

/// A client for one server. It sends these headers with each request, and follows no redirect: they
/// may hold keys. An error says why there is none.
pub fn http_client(headers: HeaderMap, url: &Url, connect: Duration) -> Result<Client, String> {
    http_client_builder(headers, url, connect).build().map_err(|error| {
        format!(
            "the HTTP client cannot be created: {}\nhint: the package `ca-certificates` may be missing",
            root(&error)
        )
    })
}

/// The same with whatever else a caller needs.
pub fn http_client_builder(headers: HeaderMap, url: &Url, connect: Duration) -> ClientBuilder {
    // The program's own choice stands, if it made one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("belljar/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(connect)
        .redirect(redirect::Policy::none());
    if is_loopback(url) {
        builder = builder.no_proxy(); // what stays on this machine must not leave it
        if url.scheme() == "http" {
            builder = builder.tls_certs_only([]); // reading those of the host takes its time
        }
    }
    builder
}
