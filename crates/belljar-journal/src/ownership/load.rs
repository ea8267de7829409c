//! What a node reports with its beats.

/// What a node has, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLoad {
    /// Its sessions, also those that are hibernated.
    pub sessions: u64,
    /// How many it may have.
    pub session_limit: u64,
    /// Bytes of memory that new sessions may take.
    pub free_memory: u64,
}

impl NodeLoad {
    /// For the columns of a life.
    pub(super) fn columns(load: Option<Self>) -> [Option<i64>; 3] {
        let column = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match load {
            Some(load) => [load.sessions, load.session_limit, load.free_memory]
                .map(|number| Some(column(number))),
            None => [None; 3],
        }
    }
}
