//! The server name in a TLS `ClientHello`.
//!
//! By hand, since existing parsers take in all of TLS: this reads one message and one of its
//! extensions. Its input is hostile, so it is strict: whatever is not exactly a `ClientHello` is
//! refused.

use super::DeniedReason;
use super::name::HostName;

/// The longest `ClientHello`, records included. Real ones have one or two KiB.
const HELLO_BYTES: usize = 16 << 10;
const RECORD_HEADER_BYTES: usize = 5;
const MESSAGE_HEADER_BYTES: usize = 4;
/// The largest record of plain text.
const RECORD_BYTES: usize = 1 << 14;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const HOST_NAME: u8 = 0;
const SERVER_NAME: u16 = 0;
/// ECH, and the draft before it. With these the server name in the open is only a cover.
const ENCRYPTED_HELLO: [u16; 2] = [0xfe0d, 0xffce];

/// A `ClientHello` as it arrives. Each byte is read once, however finely it is cut.
#[derive(Debug, Default)]
pub(super) struct Hello {
    /// All that arrived, to be passed on.
    received: Vec<u8>,
    /// How much of it was whole records.
    taken: usize,
    /// The message that the records carry.
    message: Vec<u8>,
}

impl Hello {
    /// Takes what was read. `None` as long as the `ClientHello` is incomplete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Option<HostName>, DeniedReason> {
        self.received.extend_from_slice(bytes);
        while let Some(&[kind, major, _, high, low]) = self.received[self.taken..].first_chunk() {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if kind != HANDSHAKE || major != 3 || !(1..=RECORD_BYTES).contains(&length) {
                return Err(DeniedReason::NotTls);
            }
            let start = self.taken + RECORD_HEADER_BYTES;
            let Some(body) = self.received.get(start..start + length) else {
                break;
            };
            self.message.extend_from_slice(body);
            self.taken = start + length;
            if let Some(name) = self.read_message()? {
                return Ok(Some(name));
            }
        }
        // Whatever is not whole by now has already said what it is: not too short for that.
        let wrong_start = self.received.first().is_some_and(|kind| *kind != HANDSHAKE);
        if wrong_start || self.received.len() > HELLO_BYTES {
            return Err(DeniedReason::NotTls);
        }
        Ok(None)
    }

    /// All that arrived.
    pub(super) fn into_received(self) -> Vec<u8> {
        self.received
    }

    fn read_message(&self) -> Result<Option<HostName>, DeniedReason> {
        let Some((&[kind, high, middle, low], body)) = self.message.split_first_chunk() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes([0, high, middle, low]));
        let length = length.unwrap_or(usize::MAX);
        if kind != CLIENT_HELLO || length > HELLO_BYTES - MESSAGE_HEADER_BYTES {
            return Err(DeniedReason::NotTls);
        }
        if body.len() < length {
            return Ok(None);
        }
        let mut body = Reader(body);
        let name = server_name(&mut body).ok_or(DeniedReason::NotTls)??;
        // More in the same record: nobody sends that, and it may be read in two ways.
        body.end().ok_or(DeniedReason::NotTls)?;
        Ok(Some(name))
    }
}

/// The one server name of a greeting. The outer `None` is for what is malformed.
fn server_name(body: &mut Reader<'_>) -> Option<Result<HostName, DeniedReason>> {
    let [major, ..] = *body.take(2)? else {
        return None;
    };
    let _random = body.take(32)?;
    let session = body.short_list()?;
    let suites = body.long_list()?;
    let compressions = body.short_list()?;
    let well_formed = major == 3
        && session.0.len() <= 32
        && !suites.0.is_empty()
        && suites.0.len().is_multiple_of(2)
        && !compressions.0.is_empty();
    if !well_formed {
        return None;
    }
    if body.0.is_empty() {
        return Some(Err(DeniedReason::NoServerName));
    }
    let mut name = None;
    let mut encrypted = false;
    let mut extensions = body.long_list()?;
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let mut content = extensions.long_list()?;
        encrypted |= ENCRYPTED_HELLO.contains(&kind);
        if kind == SERVER_NAME {
            let mut names = content.long_list()?;
            content.end()?;
            let [HOST_NAME] = *names.take(1)? else {
                return None;
            };
            let text = names.long_list()?;
            names.end()?;
            // A second name, wherever it is, would leave it to the server which one counts.
            if name.replace(text.0).is_some() {
                return None;
            }
        }
    }
    if encrypted {
        return Some(Err(DeniedReason::EncryptedHello));
    }
    let Some(name) = name else {
        return Some(Err(DeniedReason::NoServerName));
    };
    // An invalid name can't be the name of the requested host.
    let name = std::str::from_utf8(name)
        .ok()
        .and_then(|text| HostName::parse(text).ok());
    Some(name.ok_or(DeniedReason::ServerNameMismatch))
}

/// Bytes that are taken from the front; `None` where there are too few.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*number))
    }

    /// Bytes after their length in one byte.
    fn short_list(&mut self) -> Option<Reader<'a>> {
        let [length] = *self.take(1)? else {
            return None;
        };
        self.take(usize::from(length)).map(Reader)
    }

    /// Bytes after their length in two bytes.
    fn long_list(&mut self) -> Option<Reader<'a>> {
        let length = self.number()?;
        self.take(usize::from(length)).map(Reader)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What OpenSSL 3.0 says to `site.test`, in hexadecimal; 228 bytes of padding follow.
    const OPENSSL: &str = concat!(
        "1603010200010001fc03035f6bb940d6921fdb26d27bfe18645af3469a4b3656a0ef283e5a726c52599720",
        "2022201e04f13442b4ad8d6bbb58a8f1e39b2a9e47f5f8500749cc5d8973665a3f0024130213031301c02c",
        "c030c02bc02fcca9cca8c024c028c023c027009f009e006b006700ff0100018f0000000e000c0000097369",
        "74652e74657374000b000403000102000a00160014001d0017001e00190018010001010102010301040023",
        "00000016000000170000000d002a0028040305030603080708080809080a080b0804080508060401050106",
        "01030303010302040205020602002b00050403040303002d00020101003300260024001d00203ba5f21223",
        "6f2383e6de71b5dc7e683bc407ceb47c9240aab4d08eedd7b7da58001500e4",
    );

    fn openssl() -> Vec<u8> {
        let digits = OPENSSL.as_bytes().chunks(2);
        let mut bytes: Vec<u8> = digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        bytes.resize(bytes.len() + 0xe4, 0);
        bytes
    }

    fn long(bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length, bytes].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &long(content)].concat()
    }

    fn name_extension(name: &str) -> Vec<u8> {
        let entry = [&[HOST_NAME][..], &long(name.as_bytes())].concat();
        extension(SERVER_NAME, &long(&entry))
    }

    /// A message with these extensions.
    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0],
            &long(&[0x13, 0x01]),
            &[1, 0],
            &long(&extensions.concat()),
        ]
        .concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO][..], &length[1..], &body].concat()
    }

    fn record(message: &[u8]) -> Vec<u8> {
        [&[HANDSHAKE, 3, 1][..], &long(message)].concat()
    }

    fn read(bytes: &[u8]) -> Result<Option<String>, DeniedReason> {
        let name = Hello::default().push(bytes)?;
        Ok(name.map(|name| name.as_str().to_owned()))
    }

    #[test]
    fn a_real_greeting_is_read_however_it_is_cut() {
        let bytes = openssl();
        assert_eq!(read(&bytes), Ok(Some("site.test".to_owned())));
        for size in [1, 2, 5, 100] {
            let mut hello = Hello::default();
            let parts: Vec<_> = bytes.chunks(size).collect();
            let (last, before) = parts.split_last().unwrap();
            for part in before {
                assert_eq!(hello.push(part), Ok(None));
            }
            assert!(hello.push(last).unwrap().is_some());
            assert_eq!(hello.into_received(), bytes);
        }
        // Cut into many records too, and with early data behind it.
        let mut bytes: Vec<u8> = message(&[name_extension("Site.TEST.")])
            .chunks(3)
            .flat_map(record)
            .collect();
        assert_eq!(read(&bytes), Ok(Some("site.test".to_owned())));
        bytes.extend([23, 3, 3, 0, 1, 9]);
        assert_eq!(read(&bytes), Ok(Some("site.test".to_owned())));
    }

    /// I5: a greeting that does not say in the open, once, where it wants to go.
    #[test]
    fn evasions_are_refused() {
        let site = || name_extension("site.test");
        let other = || name_extension("evil.test");
        let two_in_one = {
            let entry = [&[HOST_NAME][..], &long(b"a.test")].concat();
            extension(SERVER_NAME, &long(&[entry.clone(), entry].concat()))
        };
        let trailing = [message(&[site()]), vec![0]].concat();
        let mut early_end = message(&[site()]);
        early_end.truncate(MESSAGE_HEADER_BYTES + 2 + 32 + 1 + 4 + 2);
        early_end[3] = u8::try_from(early_end.len() - MESSAGE_HEADER_BYTES).unwrap();
        let mut old_server_hello = message(&[site()]);
        old_server_hello[0] = 2;
        let cases = [
            (message(&[]), DeniedReason::NoServerName),
            (early_end, DeniedReason::NoServerName),
            (message(&[extension(16, b"x")]), DeniedReason::NoServerName),
            (
                message(&[site(), extension(0xfe0d, b"x")]),
                DeniedReason::EncryptedHello,
            ),
            (
                message(&[extension(0xffce, b""), site()]),
                DeniedReason::EncryptedHello,
            ),
            (message(&[site(), other()]), DeniedReason::NotTls),
            (message(&[site(), site()]), DeniedReason::NotTls),
            (message(&[two_in_one]), DeniedReason::NotTls),
            (
                message(&[extension(SERVER_NAME, b"")]),
                DeniedReason::NotTls,
            ),
            (
                message(&[name_extension("")]),
                DeniedReason::ServerNameMismatch,
            ),
            (
                message(&[name_extension("127.0.0.1")]),
                DeniedReason::ServerNameMismatch,
            ),
            (
                message(&[name_extension("site.test\0.evil")]),
                DeniedReason::ServerNameMismatch,
            ),
            (trailing, DeniedReason::NotTls),
            (old_server_hello, DeniedReason::NotTls),
        ];
        for (number, (message, reason)) in cases.into_iter().enumerate() {
            assert_eq!(read(&record(&message)), Err(reason), "case {number}");
        }
    }

    /// I5: other protocols, at their first byte; and greetings without end.
    #[test]
    fn what_is_no_greeting_is_refused_at_once() {
        for bytes in [
            &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
            b"G",
            b"\x80",
            b"\x16\x02\x00\x00\x01",
            b"\x16\x03\x01\x00\x00",
            b"\x16\x03\x01\x40\x01",
            b"\x17\x03\x03\x00\x01\x01",
        ] {
            assert_eq!(read(bytes), Err(DeniedReason::NotTls), "{bytes:?}");
        }
        // A message that says it is longer than any may be.
        assert_eq!(read(&record(&[1, 0, 0x40, 0])), Err(DeniedReason::NotTls));
        assert_eq!(
            read(&record(&[1, 0xff, 0xff, 0xff])),
            Err(DeniedReason::NotTls)
        );
        // One that is within, in records so small that their headers fill the memory.
        let mut hello = Hello::default();
        hello.push(&record(&[1, 0, 0x3f, 0xf0])).unwrap();
        let pushes = (0..HELLO_BYTES).take_while(|_| hello.push(&record(&[0])).is_ok());
        assert!(pushes.count() < HELLO_BYTES / 6);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = read(&bytes);
            let _ = read(&record(&bytes));
            let _ = read(&record(&[&[1, 0, 0, 60, 3, 3], &bytes[..]].concat()));
        }

        /// One changed byte: no panic, and no name out of nothing.
        #[test]
        fn a_bent_greeting_has_the_same_name_or_none(at in 0_usize..517, byte: u8) {
            let mut bytes = openssl();
            bytes[at] = byte;
            if let Ok(Some(name)) = read(&bytes) {
                // The name is at 127 to 136; a full stop at its end is not part of it.
                let found = bytes
                    .windows(name.len())
                    .any(|part| part.eq_ignore_ascii_case(name.as_bytes()));
                prop_assert!(name.len() >= 8 && found, "{}", name);
            }
        }

        #[test]
        fn cuts_do_not_matter(cut in 0_usize..517) {
            let bytes = openssl();
            let mut hello = Hello::default();
            prop_assert_eq!(hello.push(&bytes[..cut]), Ok(None));
            prop_assert!(hello.push(&bytes[cut..]).unwrap().is_some());
        }
    }
}
