//! Why a table of a session was not read.

/// Why a table of a session was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Nothing has this name any more, or nothing ever had.
    #[error("no such variable: `{0}`\nhint: list the manifest of the session")]
    NoName(String),
    /// Its value is no table.
    #[error(
        "`{0}` is not a table\nhint: a DataFrame or Series of pandas, or an array with two dimensions, is one"
    )]
    NotATable(String),
    /// The table has no such column.
    #[error("`{0}` has no such column\nhint: columns are counted from 0; -1 is the index")]
    NoColumn(String),
    /// The value of a filter is none of its column.
    #[error(
        "a filter of `{0}` has a value that its column cannot be compared with\nhint: a column of numbers takes a number, one of dates a date"
    )]
    NotComparable(String),
    /// The time was up.
    #[error(
        "`{name}` was not read within {seconds} s\nhint: use fewer filters, or a smaller table"
    )]
    TooSlow {
        /// The name of the table.
        name: String,
        /// The time.
        seconds: u64,
    },
    /// It has more bytes than the limit.
    #[error("`{name}` has more than {limit} bytes\nhint: use filters, or write it to a file")]
    TooLarge {
        /// The name of the table.
        name: String,
        /// The limit.
        limit: u64,
    },
    /// The process that read it was killed: for lack of memory, if not by the code of its values.
    #[error(
        "the process that read `{0}` was killed, most likely for lack of memory\nhint: delete variables, or use a session with more memory"
    )]
    Killed(String),
    /// The session can't have another process.
    #[error(
        "the session cannot start a process to read `{0}`\nhint: end processes or threads, and try again"
    )]
    NoProcess(String),
    /// The library or the values' classes failed.
    #[error("reading `{0}` failed in its library or in the classes of its values")]
    Failed(String),
}
