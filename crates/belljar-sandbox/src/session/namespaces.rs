//! The namespaces of a session, as its caller uses them.

use belljar_protocol::{
    ColumnStatistics, GuestFrame, HostFrame, InspectDetail, NameInfo, TableRequest, TableRows,
    TableView,
};
use tokio::sync::mpsc;

use super::Session;
use super::handle::{AwakeSession, SessionHandle};
use super::namespace_list::{MAIN, Namespace};
use super::table_read::TableRead;
use crate::error::Error;
use crate::lock::lock;

/// Namespaces.
impl Session {
    /// Adds an empty namespace. Cells [name](crate::Cell::namespace) the one that they run in; all of them share the
    /// interpreter, so one cell runs at a time.
    ///
    /// Its first cell starts in the directory: relative to the workspace, or absolute. If it is not there then, the cell
    /// fails. A name has 1 to 64 ASCII letters, digits, `-`, `_` and `.`. Does not wait for a running cell.
    ///
    /// # Errors
    /// [`Error::InvalidNamespace`]; [`Error::Namespace`] if the name is taken, and for more than [`MAX_NAMESPACES`](crate::MAX_NAMESPACES).
    pub async fn create_namespace(
        &self,
        name: &str,
        directory: Option<&str>,
    ) -> Result<Namespace, Error> {
        self.with_namespaces(|handle| {
            let mut namespaces = lock(&handle.namespaces);
            namespaces.add(name, directory.unwrap_or_default(), true)?;
            let made = namespaces.directories(&handle.directory()).pop();
            let (name, directory) = made.unwrap_or_default();
            Ok(Namespace { name, directory })
        })
        .await
    }

    /// The namespaces: `main`, then others in the order of their creation. Does not wait for a running cell.
    pub async fn namespaces(&self) -> Result<Vec<Namespace>, Error> {
        self.with_namespaces(|handle| {
            let workspace = handle.directory();
            let others = lock(&handle.namespaces).directories(&workspace);
            let main = (MAIN.to_owned(), workspace);
            let all = std::iter::once(main).chain(others);
            Ok(all
                .map(|(name, directory)| Namespace { name, directory })
                .collect())
        })
        .await
    }

    /// One of the session's namespaces, by its name. `main` is the one that every session has.
    pub fn namespace<'a>(&'a self, name: &'a str) -> SessionNamespace<'a> {
        SessionNamespace {
            session: self,
            name,
        }
    }

    /// Uses the list of namespaces while the session can't hibernate, which writes it.
    async fn with_namespaces<T>(
        &self,
        act: impl FnOnce(&SessionHandle) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let AwakeSession { handle, .. } = self.lifecycle.awake().await?;
        handle.check()?;
        {
            let hibernated = handle.hibernated();
            if !*hibernated {
                return act(&handle);
            }
        }
        // It is just hibernating: this waits, and wakes it.
        let (handle, _guest) = self.wires().await?;
        act(&handle)
    }
}

/// One namespace of a session. Its methods wait for a running cell; if there is no such namespace, they fail with
/// [`Error::NoNamespace`].
#[derive(Clone, Copy, Debug)]
pub struct SessionNamespace<'a> {
    session: &'a Session,
    name: &'a str,
}

impl SessionNamespace<'_> {
    /// The manifest: its names.
    pub async fn manifest(&self) -> Result<Vec<NameInfo>, Error> {
        let namespace = self.check().await?;
        match self.session.ask(&HostFrame::Manifest { namespace }).await? {
            GuestFrame::Manifest { names } => Ok(names),
            _ => Err(self.session.broke_the_protocol()),
        }
    }

    /// Names that complete the word before `cursor` (in bytes), and the start of that word.
    pub async fn complete(&self, code: &str, cursor: usize) -> Result<(usize, Vec<String>), Error> {
        let question = HostFrame::Complete {
            code,
            cursor,
            namespace: self.check().await?,
        };
        match self.session.ask(&question).await? {
            GuestFrame::Completions { start, candidates } => {
                Ok((start.min(code.len()), candidates))
            }
            _ => Err(self.session.broke_the_protocol()),
        }
    }

    /// The description of the name at `cursor` (in bytes), or of the function whose arguments are
    /// there: signature, type, documentation or source. `None` if there is no such name, or if only
    /// running code could tell.
    pub async fn inspect(
        &self,
        code: &str,
        cursor: usize,
        detail: InspectDetail,
    ) -> Result<Option<String>, Error> {
        let question = HostFrame::Inspect {
            code,
            cursor,
            detail,
            namespace: self.check().await?,
        };
        match self.session.ask(&question).await? {
            GuestFrame::Inspected { text } => Ok(text),
            _ => Err(self.session.broke_the_protocol()),
        }
    }

    /// Rows of the table that a name is bound to: a frame or series of pandas, or an array of numpy with two dimensions.
    /// At most `limit` of those that pass the filters, from the one numbered `offset` on.
    ///
    /// A copy of the interpreter reads them, so nothing of the session changes, and its memory is the session's. Texts are
    /// cut, and secrets replaced.
    ///
    /// # Errors
    /// [`Error::Table`]: the name is gone, or its value can't be read so.
    pub async fn table_rows(
        &self,
        name: &str,
        view: &TableView,
        offset: u64,
        limit: u32,
    ) -> Result<TableRows, Error> {
        let request = TableRequest::Rows { offset, limit };
        let read = TableRead::page(self.check().await?, name, view, request);
        let parse = move |json: &[u8]| TableRows::parse(json, limit);
        read.parsed(self.session.lifecycle(), parse).await
    }

    /// Figures about a column of such a table, in the rows that pass the filters. Columns are counted from 0; -1 is the
    /// index.
    ///
    /// # Errors
    /// As [`table_rows`](Self::table_rows).
    pub async fn table_statistics(
        &self,
        name: &str,
        view: &TableView,
        column: i32,
    ) -> Result<ColumnStatistics, Error> {
        let request = TableRequest::Statistics { column };
        let read = TableRead::page(self.check().await?, name, view, request);
        read.parsed(self.session.lifecycle(), ColumnStatistics::parse)
            .await
    }

    /// Sends all rows of such a table that pass the filters as CSV, in parts. They end early if the receiver gives up, or
    /// with an error.
    ///
    /// # Errors
    /// As [`table_rows`](Self::table_rows); and if they have more bytes than the limit.
    pub async fn table_csv(
        &self,
        name: &str,
        view: &TableView,
        limit_bytes: u64,
        parts: mpsc::Sender<Vec<u8>>,
    ) -> Result<(), Error> {
        let read = TableRead::csv(self.check().await?, name, view, limit_bytes);
        read.sent(self.session.lifecycle(), parts).await
    }

    /// Forgets its variables; its next cell starts in its directory. Modules stay loaded, and files, threads and other
    /// namespaces stay as they are. Restoring a checkpoint brings the variables back.
    pub async fn restart(&self) -> Result<(), Error> {
        self.check().await?;
        self.clear().await
    }

    /// Removes it, with its variables. Cells that wait to run in it fail.
    ///
    /// # Errors
    /// [`Error::Namespace`] for `main`.
    pub async fn remove(&self) -> Result<(), Error> {
        let remove = |handle: &SessionHandle| {
            if lock(&handle.namespaces).remove(self.name)? {
                return Ok(());
            }
            Err(Error::Namespace("`main` cannot be removed".into()))
        };
        self.session.with_namespaces(remove).await?;
        self.clear().await
    }

    /// Its name for the guest, if there is such a namespace.
    async fn check(&self) -> Result<Option<&str>, Error> {
        if self.name == MAIN {
            return Ok(None);
        }
        let check = |handle: &SessionHandle| lock(&handle.namespaces).check(self.name);
        self.session.with_namespaces(check).await
    }

    async fn clear(&self) -> Result<(), Error> {
        let namespace = self.name;
        let question = HostFrame::ClearNamespace { namespace };
        match self.session.ask(&question).await? {
            GuestFrame::NamespaceCleared => Ok(()),
            _ => Err(self.session.broke_the_protocol()),
        }
    }
}
