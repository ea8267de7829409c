//! Output of a command for a caller who waits for its end: the head and the tail of each stream.

use belljar_protocol::Output;

use super::log::{OutputChunk, OutputStream};
use super::process::CommandProcess;
use crate::session::capture::Kept;

/// The most bytes of output that are taken over at once.
const PART: usize = 64 << 10;

/// Output of a command within bounds.
#[derive(Debug)]
pub struct CommandCapture {
    streams: [Kept; 2],
}

impl CommandCapture {
    /// Keeps so many bytes of each stream.
    pub fn new(most: usize) -> Self {
        let kept = || Kept::new(most - most / 4, most);
        Self {
            streams: [kept(), kept()],
        }
    }

    /// Takes what was read.
    pub fn push(&mut self, chunk: &OutputChunk) {
        let stream = usize::from(chunk.stream == OutputStream::Stderr);
        self.streams[stream].push(&chunk.bytes);
    }

    /// Standard output and standard error.
    pub fn finish(self) -> [Output; 2] {
        self.streams.map(Kept::into_output)
    }
}

impl CommandProcess {
    /// Waits for the end of the command, and of its output. Keeps so many bytes of each stream; `each` sees all of it.
    pub async fn capture(&self, most: usize, mut each: impl FnMut(&OutputChunk)) -> [Output; 2] {
        let mut capture = CommandCapture::new(most);
        let mut at = 0;
        loop {
            let part = self.next_output(at, PART).await;
            if part.chunks.is_empty() && self.end().is_some() {
                return capture.finish();
            }
            for chunk in &part.chunks {
                capture.push(chunk);
                each(chunk);
            }
            at = part.next;
        }
    }
}
