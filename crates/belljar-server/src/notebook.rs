//! The notebook of a session: its cells as a person has arranged them, beside the history of what has run.
//!
//! The service keeps it as one document and does not read it, but for its revision: who stores it says which one was
//! changed, so two pages cannot overwrite each other.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::charged::ChargedBytes;
use crate::problem::{Code, Problem};
use crate::tenants::TenantName;

/// The most bytes of a notebook, as JSON.
const MAX_BYTES: usize = 1 << 20;

/// The most bytes of the id of a cell.
const MAX_ID: usize = 64;

/// The cells of a session as a person has arranged them.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Notebook {
    /// Counts how often it was stored. To store it, send the revision that it was read with.
    revision: u64,
    /// Its cells, in their order.
    cells: Vec<NotebookCell>,
    /// Numbers of executed cells that it does not show: run again since, or removed.
    #[serde(default)]
    hidden: Vec<u32>,
}

/// A cell of a notebook.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NotebookCell {
    /// Chosen by the client, and unique in the notebook.
    #[schema(min_length = 1, max_length = 64)]
    id: String,
    kind: NotebookCellKind,
    /// Python source code, or Markdown.
    source: String,
    /// Number of its newest execution, if it has run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cell: Option<u32>,
}

/// Kind of a cell of a notebook.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NotebookCellKind {
    /// Python, to be run.
    Code,
    /// Text, as Markdown.
    Markdown,
}

impl Notebook {
    fn check(&self) -> Result<(), Problem> {
        let mut ids = HashSet::new();
        for cell in &self.cells {
            if cell.id.is_empty() || cell.id.len() > MAX_ID {
                let detail = format!("the `id` of a cell has 1 to {MAX_ID} bytes");
                return Err(Problem::new(Code::BadBody, detail));
            }
            if !ids.insert(cell.id.as_str()) {
                let detail = format!("two cells have the id `{}`", cell.id);
                return Err(Problem::new(Code::BadBody, detail));
            }
        }
        Ok(())
    }
}

/// A notebook as it is kept.
#[derive(Debug, Default)]
pub(crate) struct KeptNotebook {
    revision: u64,
    /// The notebook as JSON, counted; nothing before the first one is stored.
    json: Bytes,
}

impl KeptNotebook {
    /// Its revision, once it was stored.
    pub(crate) fn revision(&self) -> Option<u64> {
        (self.revision > 0).then_some(self.revision)
    }

    /// The notebook as JSON.
    pub(crate) fn json(&self) -> Bytes {
        match self.revision() {
            Some(_) => self.json.clone(),
            None => Bytes::from_static(br#"{"revision":0,"cells":[],"hidden":[]}"#),
        }
    }

    /// Replaces it, and returns its new revision.
    pub(crate) fn store(
        &mut self,
        mut notebook: Notebook,
        memory: &Arc<ChargedBytes>,
        tenant: &TenantName,
    ) -> Result<u64, Problem> {
        if notebook.revision != self.revision {
            let detail = format!(
                "its revision is {}, not {}: read it again, and repeat the change",
                self.revision, notebook.revision
            );
            return Err(Problem::new(Code::NotebookChanged, detail));
        }
        notebook.check()?;
        notebook.revision += 1;
        let json = serde_json::to_vec(&notebook)
            .map_err(|error| Problem::internal("cannot write a notebook", error))?;
        if json.len() > MAX_BYTES {
            let detail = format!(
                "the notebook has {} bytes, and the limit is {MAX_BYTES}",
                json.len()
            );
            return Err(Problem::new(Code::BodyTooLarge, detail));
        }
        let charge = memory.charge_or_refuse(tenant, json.len())?;
        *self = Self {
            revision: notebook.revision,
            json: charge.hold(json),
        };
        Ok(self.revision)
    }

    /// For the next start of the service.
    pub(crate) fn to_record(&self) -> Option<Box<RawValue>> {
        self.revision()?;
        RawValue::from_string(String::from_utf8_lossy(&self.json).into_owned()).ok()
    }

    /// What the service before this one has kept; `None` where the tenant holds as much as it may.
    pub(crate) fn from_record(
        record: &RawValue,
        memory: &Arc<ChargedBytes>,
        tenant: &TenantName,
    ) -> Option<Self> {
        let notebook: Notebook = serde_json::from_str(record.get()).ok()?;
        let charge = memory.charge(tenant, record.get().len())?;
        Some(Self {
            revision: notebook.revision,
            json: charge.hold(record.get().to_owned()),
        })
    }
}
