//! The cells of a session that the service keeps: code and outcome for whoever opens the session later, and events for
//! who follows them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cell_record::CellRecord;

/// The cells that are kept, those of them with events, and what all may hold together.
const MAX_CELLS: usize = 200;
const MAX_WITH_EVENTS: usize = 16;
const MAX_BYTES: usize = 4 << 20;

/// The newest cells, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct KeptCells(VecDeque<Arc<CellRecord>>);

impl KeptCells {
    /// Keeps a cell, and gives up what is too much: events before outcomes, older cells before newer ones. The newest
    /// cell is always kept.
    pub(crate) fn push(&mut self, record: Arc<CellRecord>) {
        let older = self.0.len();
        self.0.push_back(record);
        let without_events = self.0.len().saturating_sub(MAX_WITH_EVENTS);
        for cell in self.0.iter().take(without_events) {
            cell.drop_events();
        }
        for cell in self.0.iter().take(older) {
            if self.bytes() <= MAX_BYTES {
                break;
            }
            cell.drop_events();
        }
        while self.0.len() > MAX_CELLS || (self.0.len() > 1 && self.bytes() > MAX_BYTES) {
            self.0.pop_front();
        }
    }

    pub(crate) fn find(&self, number: u32) -> Option<Arc<CellRecord>> {
        let mut newest_first = self.0.iter().rev();
        newest_first.find(|cell| cell.number == number).cloned()
    }

    pub(crate) fn list(&self) -> Vec<Arc<CellRecord>> {
        self.0.iter().cloned().collect()
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|cell| cell.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;

    use super::*;
    use crate::cell_record::CellEnd;
    use crate::charged::ChargedBytes;

    /// A cell with so much code, and an outcome of as many bytes.
    async fn ended(number: u32, bytes: usize) -> Arc<CellRecord> {
        let memory = ChargedBytes::new(None);
        let tenant = "a".parse().unwrap();
        let cell = CellRecord::new(number, "#".repeat(bytes), memory, tenant);
        let outcome = CellEnd::Outcome(Bytes::from(vec![b' '; bytes]));
        let end = cell.add("outcome", bytes, Some(outcome), move |writer| {
            std::io::Write::write_all(writer, &vec![b' '; bytes])
        });
        end.await;
        Arc::new(cell)
    }

    #[tokio::test]
    async fn code_and_outcome_are_kept_longer_than_events() {
        let mut cells = KeptCells::default();
        for number in 1..=250 {
            cells.push(ended(number, 10).await);
        }
        let kept: Vec<u32> = cells.list().iter().map(|cell| cell.number).collect();
        assert_eq!(kept, (51..=250).collect::<Vec<_>>());
        assert!(cells.find(50).is_none());
        let (old, new) = (cells.find(51).unwrap(), cells.find(250).unwrap());
        assert_eq!(old.code().as_deref(), Some("##########"));
        assert!(old.ended().is_some());
        assert!(old.after(0).is_err(), "its events are given up");
        assert!(new.after(0).is_ok());
    }

    #[tokio::test]
    async fn bytes_are_bounded_and_the_newest_cell_is_kept() {
        let mut cells = KeptCells::default();
        for number in 1..=8 {
            cells.push(ended(number, 1 << 20).await);
        }
        // Code and outcome of one, and all of the newest: 5 MiB would be two of them.
        let kept: Vec<u32> = cells.list().iter().map(|cell| cell.number).collect();
        assert_eq!(kept, [8]);
        cells.push(ended(9, 10).await);
        assert_eq!(cells.list().len(), 2);
        cells.push(ended(10, 5 << 20).await);
        let kept: Vec<u32> = cells.list().iter().map(|cell| cell.number).collect();
        assert_eq!(kept, [10]);
    }
}
