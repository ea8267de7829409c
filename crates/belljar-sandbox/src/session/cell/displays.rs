//! The displays of one cell, within their limits.

use belljar_protocol::{Display, DisplayData, DisplayPart, GuestDisplay};

use std::sync::Arc;

use crate::buffers::Share;
use crate::session::guest_error::ProtocolError;
use crate::variables::Scrubber;

/// The most displays taken from one cell, and their bytes; the guest's own limits are lower, so
/// more than this is not an accident.
const MAX_DISPLAYS: usize = 100;
const MAX_DISPLAY_BYTES: usize = 32 << 20;

/// The same with those that were replaced or cleared since.
const MAX_CHANGES: usize = 10_000;
const MAX_CHANGED_BYTES: usize = 256 << 20;

const MAX_ID: usize = 400;
const MAX_METADATA: usize = 16 << 10;

/// The displays of one cell.
pub(super) struct Displays {
    taken: Vec<Display>,
    bytes: usize,
    /// Displays and changes so far, with their bytes.
    changes: usize,
    changed_bytes: usize,
    /// Memory for them.
    buffers: Share,
    /// How many there was no memory for.
    lost: usize,
}

impl Displays {
    pub(super) fn new(buffers: Share) -> Self {
        Self {
            taken: Vec::new(),
            bytes: 0,
            changes: 0,
            changed_bytes: 0,
            buffers,
            lost: 0,
        }
    }

    /// Takes a display of the guest. `None` if it is not reported: there is no memory for it, or
    /// it replaces another and as many bytes as a cell may have were reported before.
    ///
    /// # Errors
    /// If the guest may not send it.
    pub(super) fn take(
        &mut self,
        display: GuestDisplay,
        blob: &[u8],
        scrubber: &Arc<Scrubber>,
    ) -> Result<Option<Display>, ProtocolError> {
        let display = parse(display, blob, scrubber)?;
        let length = size(&display);
        self.count_change(length)?;
        let is_same = |one: &Display| one.id == display.id;
        let replaced = match &display.id {
            Some(_) if display.update => self.taken.iter().rposition(is_same),
            _ => None,
        };
        let freed = replaced.map_or(0, |at| size(&self.taken[at]));
        let bytes = self.bytes - freed + length;
        let count = self.taken.len() + self.lost;
        if (replaced.is_none() && count >= MAX_DISPLAYS) || bytes > MAX_DISPLAY_BYTES {
            return Err(ProtocolError::TooManyDisplays);
        }
        if !self.buffers.keep(bytes) {
            self.lost += 1;
            return Ok(None);
        }
        self.bytes = bytes;
        let is_reported = self.changed_bytes <= MAX_DISPLAY_BYTES;
        let reported = is_reported.then(|| display.clone());
        match replaced {
            // What it was first, it stays.
            Some(at) => {
                self.taken[at].parts = display.parts;
                self.taken[at].metadata = display.metadata;
            }
            None => self.taken.push(display),
        }
        Ok(reported)
    }

    /// The program takes its displays back.
    pub(super) fn clear(&mut self) {
        self.taken.clear();
        self.bytes = 0;
        self.buffers.keep(0);
    }

    /// Counts a display or a change of one.
    ///
    /// # Errors
    /// If there were too many.
    pub(super) fn count_change(&mut self, bytes: usize) -> Result<(), ProtocolError> {
        self.changes += 1;
        self.changed_bytes += bytes;
        if self.changes > MAX_CHANGES || self.changed_bytes > MAX_CHANGED_BYTES {
            return Err(ProtocolError::TooManyDisplays);
        }
        Ok(())
    }

    /// What an outcome says about those that there was no memory for.
    pub(super) fn note(&self) -> Option<String> {
        (self.lost > 0).then(|| {
            format!(
                "{} displays: the host's memory for displays was used up",
                self.lost
            )
        })
    }

    pub(super) fn finish(self) -> Vec<Display> {
        self.taken
    }
}

fn size(display: &Display) -> usize {
    display.parts.iter().map(|part| part.data.len()).sum()
}

fn parse(
    display: GuestDisplay,
    blob: &[u8],
    scrubber: &Arc<Scrubber>,
) -> Result<Display, ProtocolError> {
    let is_long = |text: &Option<String>, limit| text.as_ref().is_some_and(|one| one.len() > limit);
    if is_long(&display.id, MAX_ID) || is_long(&display.metadata, MAX_METADATA) {
        return Err(ProtocolError::LongDisplay);
    }
    let metadata = display.metadata.as_deref().map(serde_json::from_str);
    let metadata = metadata.transpose();
    let metadata = metadata.map_err(|_| ProtocolError::DisplayMetadata)?;
    let (parts, mut rest): (Vec<DisplayPart>, _) = (display.parts, blob);
    let mut display = Display {
        parts: Vec::new(),
        value: display.value,
        id: display.id,
        update: display.update,
        metadata: metadata.unwrap_or_default(),
    };
    for part in parts.iter().take(16) {
        let fits_mime = part.mime.len() <= 100 && part.mime.bytes().all(|b| b.is_ascii_graphic());
        let Some((data, after)) = rest.split_at_checked(part.len).filter(|_| fits_mime) else {
            return Err(ProtocolError::DisplayParts);
        };
        rest = after;
        display.parts.push(DisplayData {
            mime: part.mime.clone(),
            data: scrubber.bytes(data.to_vec()),
        });
    }
    Ok(display)
}
