//! How a service is to be.

use std::time::Duration;

use belljar_sandbox::SessionOptions;

/// What a service gives to its tenants. The defaults suit one machine.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// What a session is started with. A request may ask for less of each limit, never for more.
    pub session: SessionOptions,
    /// The hosts that sessions may ask to reach, as entries of an allow-list; none by default.
    pub allow: Vec<String>,
    /// Names by which clients may call the service, besides the address it listens on: what a reverse
    /// proxy passes on as `Host`.
    pub hosts: Vec<String>,
    /// The most sessions of all tenants together: 1000.
    pub max_sessions: usize,
    /// The most sessions of a tenant: 100.
    pub tenant_sessions: usize,
    /// The most cells of a tenant that run or wait at once: 64.
    pub tenant_cells: usize,
    /// The most streams of events of a tenant at once: 64.
    pub tenant_streams: usize,
    /// Sessions that a tenant may start in a second, on average; twice as many at once: 20.
    pub creates_per_second: u32,
    /// How long cells may go on when the service is told to stop: 30 s.
    pub drain: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            session: SessionOptions::default(),
            allow: Vec::new(),
            hosts: Vec::new(),
            max_sessions: 1000,
            tenant_sessions: 100,
            tenant_cells: 64,
            tenant_streams: 64,
            creates_per_second: 20,
            drain: Duration::from_secs(30),
        }
    }
}
