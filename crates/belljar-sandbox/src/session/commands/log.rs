//! Output of a command: the newest part of it, from which any number of readers follow it.

use std::collections::VecDeque;

use crate::buffers::Share;

/// Bytes that are kept of one command.
const KEPT: usize = 512 << 10;

/// Bytes that are kept if the host's memory for guests is full.
const KEPT_AT_LEAST: usize = 48 << 10;

/// Where a command wrote something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Its terminal.
    Terminal,
}

/// Output of a command that was read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// Where it was written.
    pub stream: OutputStream,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A part of the output of a command, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputPart {
    /// Bytes before it that are no longer kept.
    pub lost_bytes: u64,
    /// The output.
    pub chunks: Vec<OutputChunk>,
    /// Where the next part begins.
    pub next: u64,
}

/// The newest output of a command. A place in it is the number of bytes before that.
#[derive(Debug)]
pub(super) struct OutputLog {
    chunks: VecDeque<OutputChunk>,
    kept: usize,
    total: u64,
    /// Bytes of each stream so far.
    totals: [u64; 3],
    share: Share,
}

impl OutputLog {
    pub(super) fn new(share: Share) -> Self {
        Self {
            chunks: VecDeque::new(),
            kept: 0,
            total: 0,
            totals: [0; 3],
            share,
        }
    }

    pub(super) fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.totals[stream as usize] += bytes.len() as u64;
        self.kept += bytes.len();
        match self.chunks.back_mut() {
            // A program that writes byte by byte costs no more than its bytes.
            Some(last) if last.stream == stream && last.bytes.len() + bytes.len() <= 4096 => {
                last.bytes.extend_from_slice(bytes);
            }
            _ => self.chunks.push_back(OutputChunk {
                stream,
                bytes: bytes.to_vec(),
            }),
        }
        let most = if self.share.keep(self.kept.min(KEPT)) {
            KEPT
        } else {
            KEPT_AT_LEAST
        };
        while self.kept > most {
            let over = self.kept - most;
            let Some(first) = self.chunks.front_mut() else {
                break;
            };
            let gone = first.bytes.len().min(over);
            if gone == first.bytes.len() {
                self.chunks.pop_front();
            } else {
                first.bytes.drain(..gone);
            }
            self.kept -= gone;
        }
    }

    /// What is kept of one stream, and how many bytes before that are not.
    pub(super) fn kept_of(&self, stream: OutputStream) -> (Vec<u8>, u64) {
        let chunks = self.chunks.iter().filter(|chunk| chunk.stream == stream);
        let kept: Vec<u8> = chunks.flat_map(|chunk| &chunk.bytes).copied().collect();
        let lost_bytes = self.totals[stream as usize] - kept.len() as u64;
        (kept, lost_bytes)
    }

    /// Where output that comes next begins.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The output from this place on, at most so many bytes of it.
    pub(super) fn read(&self, from: u64, most: usize) -> OutputPart {
        let first = self.total - self.kept as u64;
        let mut at = from.clamp(first, self.total);
        let mut part = OutputPart {
            lost_bytes: at.saturating_sub(from),
            chunks: Vec::new(),
            next: at,
        };
        let (mut start, mut left) = (first, most);
        for chunk in &self.chunks {
            let end = start + chunk.bytes.len() as u64;
            if end > at && left > 0 {
                let skipped = usize::try_from(at - start).unwrap_or(0);
                let bytes = &chunk.bytes[skipped..];
                let bytes = &bytes[..bytes.len().min(left)];
                part.chunks.push(OutputChunk {
                    stream: chunk.stream,
                    bytes: bytes.to_vec(),
                });
                left -= bytes.len();
                at += bytes.len() as u64;
            }
            start = end;
        }
        part.next = at;
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log() -> OutputLog {
        OutputLog::new(Share::new(None))
    }

    #[test]
    fn a_late_reader_learns_how_much_it_missed() {
        let mut log = log();
        for _ in 0..300 {
            log.push(OutputStream::Stdout, &[b'x'; 4096]);
        }
        log.push(OutputStream::Stderr, b"end");
        let part = log.read(10, usize::MAX);
        let kept: usize = part.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        assert_eq!(kept, KEPT);
        assert_eq!(part.next, 300 * 4096 + 3);
        assert_eq!(part.lost_bytes, part.next - 10 - KEPT as u64);
        assert_eq!(part.chunks.last().unwrap().bytes, b"end");
        let lost_bytes = 300 * 4096 + 3 - KEPT as u64;
        assert_eq!(log.kept_of(OutputStream::Stdout).1, lost_bytes);
        assert_eq!(log.kept_of(OutputStream::Stderr), (b"end".to_vec(), 0));
        assert_eq!(
            log.read(part.next, 100),
            OutputPart {
                next: part.next,
                ..OutputPart::default()
            }
        );
    }

    proptest! {
        /// Whatever the pieces, and however it is read: what comes out is what went in, in order.
        #[test]
        fn pieces_do_not_matter(
            pieces in prop::collection::vec((any::<bool>(), 1_usize..6000, any::<u8>()), 0..20),
            most in 1_usize..5000,
        ) {
            let mut log = log();
            let (mut whole, mut read) = (Vec::new(), Vec::new());
            for (error, length, first) in &pieces {
                let bytes: Vec<u8> = (0..*length).map(|at| first.wrapping_add(at.to_le_bytes()[0])).collect();
                let stream = if *error { OutputStream::Stderr } else { OutputStream::Stdout };
                log.push(stream, &bytes);
                whole.extend(bytes.iter().map(|byte| (stream, *byte)));
            }
            let mut at = 0;
            loop {
                let part = log.read(at, most);
                prop_assert_eq!(part.lost_bytes, 0);
                if part.chunks.is_empty() {
                    break;
                }
                for chunk in &part.chunks {
                    read.extend(chunk.bytes.iter().map(|byte| (chunk.stream, *byte)));
                }
                at = part.next;
            }
            prop_assert!(read == whole);
        }
    }
}
