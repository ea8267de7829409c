//! Puts the files of `web/dist` into the crate, compressed, with their hashes. Where there are none,
//! for want of Node, the crate has none.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

fn main() -> io::Result<()> {
    let web = Path::new("../../web");
    let dist = web.join("dist");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let mut paths = Vec::new();
    if dist.is_dir() {
        list(&dist, &mut paths)?;
    }
    // Cargo takes what is not there for changed each time, and would build all that uses this again.
    let watched = [&dist, web, Path::new("build.rs")];
    if let Some(watched) = watched.into_iter().find(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    paths.sort();
    let mut files = String::from("&[\n");
    for (number, path) in paths.iter().enumerate() {
        let name = path.strip_prefix(&dist).unwrap_or(path);
        let name = name.to_string_lossy();
        let contents = fs::read(path)?;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&contents)?;
        let compressed = gzip.finish()?;
        fs::write(out.join(format!("{number}")), &contents)?;
        fs::write(out.join(format!("{number}.gz")), &compressed)?;
        let hash = Sha256::digest(&contents);
        let etag: String = hash.iter().take(16).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        // What does not become smaller is sent as it is.
        let gzip = if compressed.len() < contents.len() {
            format!(r#"Some(include_bytes!(concat!(env!("OUT_DIR"), "/{number}.gz")))"#)
        } else {
            "None".to_owned()
        };
        let _ = writeln!(
            files,
            r#"    File {{ path: {name:?}, etag: "\"{etag}\"", contents: include_bytes!(concat!(env!("OUT_DIR"), "/{number}")), gzip: {gzip} }},"#
        );
    }
    files.push_str("]\n");
    fs::write(out.join("files.rs"), files)
}

fn list(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}
