//! Files below the directory of a session, as the editor has them.

use std::time::Duration;

use agent_client_protocol_schema::v1::{
    FileSystemCapabilities, ReadTextFileRequest, ReadTextFileResponse, SessionId,
    WriteTextFileRequest,
};
use serde::de::IgnoredAny;
use tokio::time::timeout;

use crate::directory::{Directory, MAX_FILE, Unread};
use crate::peer::{Peer, PeerError};
use crate::words::quoted;

/// How long an editor may take to read or write a file.
const PATIENCE: Duration = Duration::from_secs(30);

/// The files of a session.
pub(crate) struct ClientFiles<'a> {
    pub(crate) peer: &'a Peer,
    pub(crate) session: &'a str,
    pub(crate) directory: &'a Directory,
    pub(crate) can: &'a FileSystemCapabilities,
}

impl ClientFiles<'_> {
    /// Reads a file by its name below the directory: text with its unsaved changes if the editor says
    /// them, anything else from disk.
    pub(crate) async fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let on_disk = match self.directory.read(name) {
            Ok(contents) => Some(contents),
            Err(Unread::Missing) => None,
            Err(Unread::Refused(why)) => return Err(why),
        };
        let is_text = |contents: &Vec<u8>| std::str::from_utf8(contents).is_ok();
        if self.can.read_text_file && on_disk.as_ref().is_none_or(is_text) {
            let path = self.directory.path().join(name);
            let request = ReadTextFileRequest::new(SessionId::new(self.session), path);
            let answer = self.peer.request("fs/read_text_file", &request);
            match timeout(PATIENCE, answer).await {
                Ok(Ok(ReadTextFileResponse { content, .. }))
                    if content.len() as u64 <= MAX_FILE =>
                {
                    return Ok(content.into_bytes());
                }
                Ok(Err(PeerError::Gone)) => return Err(PeerError::Gone.to_string()),
                _ => tracing::debug!(name, "the editor did not read a file"),
            }
        }
        on_disk.ok_or_else(|| format!("The file {} does not exist.", quoted(name)))
    }

    /// Has the editor write a file.
    pub(crate) async fn write(&self, name: &str, contents: &str) -> Result<(), String> {
        let path = self.directory.path().join(name);
        let request = WriteTextFileRequest::new(SessionId::new(self.session), path, contents);
        let answer = self
            .peer
            .request::<IgnoredAny>("fs/write_text_file", &request);
        match timeout(PATIENCE, answer).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the editor did not answer in time".into()),
        }
    }
}
