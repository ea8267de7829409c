//! The files of the web interface, as `npm run build` made them in `web/dist` before this crate was built.
//!
//! Building needs no Node: without these files there is a page that says how to get them.

/// A file of the interface.
#[derive(Debug)]
pub struct File {
    /// Relative to where the interface is.
    pub path: &'static str,
    /// A hash of its contents, as a header has it.
    pub etag: &'static str,
    /// Its bytes.
    pub contents: &'static [u8],
    /// The same by gzip, where that is less.
    pub gzip: Option<&'static [u8]>,
}

/// All files; none in a binary that was built without them.
pub const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The page that is shown where there are none.
pub const MISSING: &str = include_str!("missing.html");

/// The file at a path; the page itself at none.
pub fn find(path: &str) -> Option<&'static File> {
    let path = if path.is_empty() { "index.html" } else { path };
    FILES.iter().find(|file| file.path == path)
}

impl File {
    /// Whether its name has a hash of its contents: under this name there is never anything else.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with("assets/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_there_or_said_to_be_missing() {
        assert_eq!(find("").is_some(), !FILES.is_empty());
        assert!(find("../Cargo.toml").is_none());
        for text in ["npm ci", "npm run build", "cargo build"] {
            assert!(MISSING.contains(text), "{text}");
        }
        for file in FILES {
            let fewer = file
                .gzip
                .is_none_or(|gzip| gzip.len() < file.contents.len());
            assert!(fewer && file.etag.len() == 34, "{}", file.path);
        }
    }
}
