//! Reading server-sent events, with bounds.
//!
//! By hand, because the crate for it (`eventsource-stream`) lets a line grow without limit.

use super::error::ModelFault;

/// The longest line, and the most data of one event.
pub(super) const MAX_LINE: usize = 4 << 20;

/// Cuts bytes into events.
#[derive(Debug, Default)]
pub(super) struct SseReader {
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    begun: bool,
}

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// Its kind; often empty.
    pub(super) name: String,
    /// Its data.
    pub(super) data: String,
}

impl SseReader {
    /// Reads more bytes, and hands on every event that they complete.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(SseEvent) -> Result<(), ModelFault>,
    ) -> Result<(), ModelFault> {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.extend(&bytes[..end])?;
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            if let Some(event) = self.line(&line)? {
                each(event)?;
            }
        }
        self.extend(bytes)
    }

    /// The event that was not yet closed by an empty line when the bytes ended.
    pub(super) fn finish(mut self) -> Result<Option<SseEvent>, ModelFault> {
        let line = std::mem::take(&mut self.line);
        self.line(&line)?;
        Ok(self.take())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), ModelFault> {
        check(self.line.len() + bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<Option<SseEvent>, ModelFault> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(line);
        let mut text = &*text;
        if !self.begun {
            self.begun = true;
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if text.is_empty() {
            return Ok(self.take());
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            // Some versions of llama.cpp write a failure as a field of its own.
            "data" | "error" => {
                check(self.data.len() + value.len())?;
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
                if field == "error" {
                    field.clone_into(&mut self.name);
                }
            }
            "event" => value.clone_into(&mut self.name),
            _ => {} // comments, ids, times: of no use here
        }
        Ok(None)
    }

    fn take(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(SseEvent { name, data })
    }
}

fn check(bytes: usize) -> Result<(), ModelFault> {
    if bytes > MAX_LINE {
        return Err(ModelFault::TooLarge {
            what: "bytes in one line".to_owned(),
            limit: MAX_LINE,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events of a text that comes in pieces of `size` bytes.
    fn events(text: &str, size: usize) -> Vec<(String, String)> {
        let mut reader = SseReader::default();
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            reader
                .push(piece, |event| {
                    found.push((event.name, event.data));
                    Ok(())
                })
                .unwrap();
        }
        found.extend(
            reader
                .finish()
                .unwrap()
                .map(|event| (event.name, event.data)),
        );
        found
    }

    #[test]
    fn events_are_the_same_in_any_pieces() {
        let text = "\u{feff}: hello\r\ndata: {\"a\":\"预\"}\r\n\r\nevent: x\nid: 7\ndata:1\ndata: 2\n\n\n\ndata\n\nerror: {}\n\nretry: 5\n\ndata: last";
        let expected = vec![
            (String::new(), "{\"a\":\"预\"}".to_owned()),
            ("x".to_owned(), "1\n2".to_owned()),
            (String::new(), String::new()),
            ("error".to_owned(), "{}".to_owned()),
            (String::new(), "last".to_owned()),
        ];
        for size in 1..=text.len() {
            assert_eq!(events(text, size), expected, "{size}");
        }
    }

    #[test]
    fn no_line_and_no_event_grows_without_bound() {
        let mut reader = SseReader::default();
        let piece = vec![b'x'; 1 << 20];
        let fault = (0..5).find_map(|_| reader.push(&piece, |_| Ok(())).err());
        assert!(
            matches!(fault, Some(ModelFault::TooLarge { .. })),
            "{fault:?}"
        );

        let mut reader = SseReader::default();
        let line = format!("data: {}\n", "x".repeat(1 << 20));
        let fault = (0..5).find_map(|_| reader.push(line.as_bytes(), |_| Ok(())).err());
        assert!(
            matches!(fault, Some(ModelFault::TooLarge { .. })),
            "{fault:?}"
        );
    }
}
