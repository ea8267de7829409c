//! Layers on disk.
//!
//! ```text
//! <root>/packages/
//!   secret                   the key for the names of layers
//!   layers/<name>/           shown to sessions, who can open a layer but not list them
//!   records/<content>.json   contents of a layer; written before the layer has its name
//!   requests/<hash>.json     which layer was the answer to a request, and when
//!   staging/                 unfinished work of uv
//!   uv/                      uv's cache, on the same disk, so that files are linked and not copied
//! ```
//! Nothing is synced to disk: a layer from before the last boot is hashed again at its first use.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::requirement::{Requirement, normalise};
use super::tree::{clean, hash, hexadecimal, is_metadata};
use super::wheels::{Installing, names_an_index};
use super::{Layer, PackageError};
use crate::environment::{Environment, EnvironmentError, LockedPackage, Uv, data_directory};
use crate::permissions::open_to_sessions;

/// Where sessions see layers.
pub(crate) const LAYERS: &str = "/opt/packages";

/// The most bytes of one layer.
const LAYER_BYTES: u64 = 4 << 30;

/// How long the answer to a request without exact versions is valid.
const ANSWER_AGE: Duration = Duration::from_hours(24);

/// Age at which files in `staging` count as abandoned.
const STALE: Duration = Duration::from_hours(24);

/// The store of packages, and where they come from.
#[derive(Clone, Debug)]
pub struct PackageStore {
    directory: PathBuf,
    indexes: Option<Vec<String>>,
    layer_bytes: u64,
    uv: Arc<OnceLock<Uv>>,
}

/// The record of a layer.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    packages: Vec<LockedPackage>,
    /// The boot in which its files were last verified.
    boot: String,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
struct Resolution {
    /// None if the environment has all of it.
    content: Option<String>,
    pinned: bool,
}

impl PackageStore {
    /// The store in the data directory `root`. Nothing is written until an engine uses it.
    pub fn open(root: impl Into<PathBuf>) -> Self {
        Self {
            directory: root.into().join("packages"),
            indexes: None,
            layer_bytes: LAYER_BYTES,
            uv: Arc::default(),
        }
    }

    /// The store in `$BELLJAR_DATA_DIR`, or in `belljar` of the user's data directory.
    pub fn open_default() -> Result<Self, EnvironmentError> {
        Ok(Self::open(data_directory()?))
    }

    /// Packages come from these alone: URLs of indexes, and directories with wheels. By default
    /// they come from the sources in uv's environment variables (`UV_DEFAULT_INDEX`,
    /// `UV_FIND_LINKS`, …), or from `PyPI`.
    #[must_use]
    pub fn indexes<T: Into<String>>(mut self, indexes: impl IntoIterator<Item = T>) -> Self {
        self.indexes = Some(indexes.into_iter().map(Into::into).collect());
        self
    }

    /// The most bytes of all files of one install: 4 GiB by default.
    #[must_use]
    pub fn layer_bytes(mut self, bytes: u64) -> Self {
        self.layer_bytes = bytes;
        self
    }

    pub(crate) fn layers(&self) -> PathBuf {
        self.directory.join("layers")
    }

    /// Its part that the root of an engine's sessions shows, and where.
    pub(crate) fn mount(&self) -> Result<(PathBuf, PathBuf), PackageError> {
        Ok((self.prepare()?, PathBuf::from(LAYERS)))
    }

    /// Makes its directories; returns the one that sessions see.
    fn prepare(&self) -> Result<PathBuf, PackageError> {
        for name in ["records", "requests", "staging", "uv"] {
            let path = self.directory.join(name);
            fs::create_dir_all(&path).map_err(PackageError::io("make", &path))?;
        }
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&self.directory, private)
            .map_err(PackageError::io("close", &self.directory))?;
        let layers = self.layers();
        // A layer can be opened by its name, but layers can't be listed: a session doesn't see what
        // others have installed. Not even by the owner, who may be the sessions' user.
        fs::create_dir_all(&layers)
            .and_then(|()| fs::set_permissions(&layers, fs::Permissions::from_mode(0o311)))
            .map_err(PackageError::io("make", &layers))?;
        let secret = self.directory.join("secret");
        if !secret.exists() {
            let mut bytes = [0; 32];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
                .map_err(|error| PackageError::io("draw", &secret)(error.into()))?;
            let made = write_new(&secret, &bytes, false);
            made.map_err(PackageError::io("write", &secret))?;
        }
        self.sweep();
        layers
            .canonicalize()
            .map_err(PackageError::io("open", &layers))
    }

    /// The layer with these contents, if it is here and whole.
    pub(super) fn known(&self, content: &str) -> Option<Layer> {
        // It may come from a snapshot, and becomes a path.
        if content.len() != 64 || !content.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let name = self.name(content).ok()?;
        let path = self.layers().join(&name);
        let mut record: Record = read(&self.record(content))?;
        if !path.is_dir() {
            return None;
        }
        if record.boot != boot() {
            if hash(&path, u64::MAX).ok()? != content {
                return None;
            }
            record.boot = boot();
            let _ = write(&self.record(content), &record);
        }
        Some(Layer {
            content: content.to_owned(),
            packages: record.packages,
            name,
        })
    }

    /// A layer with the requested packages and their dependencies, in addition to the environment
    /// and the session's layers. None if these have all of it.
    pub(super) fn provide(
        &self,
        environment: &Environment,
        layers: &[Layer],
        mut requirements: Vec<Requirement>,
    ) -> Result<Option<Layer>, PackageError> {
        requirements.sort();
        requirements.dedup();
        let request = self.request(environment, layers, &requirements);
        let known = self.answer(&request);
        if let Some((answer, true)) = known {
            return Ok(answer);
        }
        let installed = match (self.install(environment, layers, &requirements), known) {
            (Err(error), Some((answer, false))) => {
                // It was valid yesterday; an unreachable index is no reason to refuse it.
                tracing::warn!(%error, "the newest versions of packages could not be looked up");
                return Ok(answer);
            }
            (installed, _) => installed?,
        };
        let answer = Resolution {
            content: installed.as_ref().map(|layer| layer.content.clone()),
            pinned: requirements.iter().all(Requirement::is_pinned),
        };
        write(&request, &answer).map_err(PackageError::io("write", &request))?;
        Ok(installed)
    }

    /// The recorded answer to a request, and whether it is still valid.
    fn answer(&self, request: &Path) -> Option<(Option<Layer>, bool)> {
        let answer: Resolution = read(request)?;
        // One from the future is as good as new: the clock was set back since.
        let modified = fs::metadata(request).ok()?.modified().ok()?;
        let age = modified.elapsed().unwrap_or_default();
        let layer = match &answer.content {
            Some(content) => Some(self.known(content)?),
            None => None,
        };
        Some((layer, answer.pinned || age < ANSWER_AGE))
    }

    fn install(
        &self,
        environment: &Environment,
        layers: &[Layer],
        requirements: &[Requirement],
    ) -> Result<Option<Layer>, PackageError> {
        let staging = self.directory.join("staging");
        let work = TempDir::new_in(&staging).map_err(PackageError::io("make", &staging))?;
        // Shows a cleanup that the directory is in use, whatever its clock says.
        let lock = File::open(work.path()).and_then(|lock| lock.lock().map(|()| lock));
        let _lock = lock.map_err(PackageError::io("lock", work.path()))?;
        let target = work.path().join("layer");
        let present = self.present(environment, layers);
        let constraints = work.path().join("constraints");
        lay_out(&target, &constraints, &present).map_err(PackageError::io("write", work.path()))?;
        let uv = if let Some(uv) = self.uv.get() {
            uv
        } else {
            let found = Uv::find()?;
            self.uv.get_or_init(|| found)
        };
        let cache = self.directory.join("uv");
        let installing = Installing {
            requirements,
            target: &target,
            constraints: (!present.is_empty()).then_some(&constraints),
            python: environment.python(),
            directory: work.path(),
            cache: &cache,
            indexes: self.indexes.as_deref(),
            limit: self.layer_bytes,
        };
        let installed = installing.run(uv)?;
        for one in &present {
            let path = target.join(&one.directory);
            fs::remove_dir_all(&path).map_err(PackageError::io("remove", &path))?;
        }
        clean(&target).map_err(PackageError::io("clean", &target))?;
        let packages = contents(&target, installed)?;
        if packages.is_empty() {
            return Ok(None);
        }
        let content = hash(&target, self.layer_bytes)?;
        open_to_sessions(&target).map_err(PackageError::io("open to sessions", &target))?;
        self.publish(&target, content, packages).map(Some)
    }

    /// Gives a layer its name in one step; the second writer uses the layer of the first.
    fn publish(
        &self,
        target: &Path,
        content: String,
        packages: Vec<LockedPackage>,
    ) -> Result<Layer, PackageError> {
        let name = self
            .name(&content)
            .map_err(PackageError::io("read", &self.directory))?;
        let place = self.layers().join(&name);
        let record = self.record(&content);
        let boot = boot();
        let packages = Record { packages, boot };
        if place.exists() {
            // A record is written before its layer has a name.
            if let Some(known) = self.known(&content) {
                return Ok(known);
            }
            // It is from before a power cut, and not whole.
            let aside = target.with_file_name("broken");
            fs::rename(&place, &aside).map_err(PackageError::io("remove", &place))?;
        }
        write(&record, &packages).map_err(PackageError::io("write", &record))?;
        match fs::rename(target, &place) {
            Err(error) if !place.is_dir() => return Err(PackageError::io("make", &place)(error)),
            _ => {}
        }
        Ok(Layer {
            content,
            packages: packages.packages,
            name,
        })
    }

    /// What uv must treat as installed.
    fn present(&self, environment: &Environment, layers: &[Layer]) -> Vec<Present> {
        let (major, minor, _) = environment.version();
        let prefix = environment.python().parent().and_then(Path::parent);
        let library = format!("lib/python{major}.{minor}/site-packages");
        let places = prefix.map(|prefix| prefix.join(library)).into_iter();
        let places = places.chain(layers.iter().map(|layer| self.layers().join(&layer.name)));
        let files: Vec<PathBuf> = places
            .filter_map(|place| fs::read_dir(place).ok())
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_metadata(path))
            .collect();
        let packages = environment.packages().iter();
        let packages = packages.chain(layers.iter().flat_map(|layer| &layer.packages));
        packages
            .map(|package| {
                let directory = format!(
                    "{}-{}.dist-info",
                    normalise(&package.name).replace('-', "_"),
                    package.version
                );
                let same = |path: &&PathBuf| {
                    name_and_version(path).is_some_and(|(name, version)| {
                        name == normalise(&package.name) && version == package.version
                    })
                };
                let metadata = files.iter().find(same);
                let metadata = metadata.and_then(|path| fs::read(path.join("METADATA")).ok());
                Present {
                    pin: format!("{}=={}", package.name, package.version),
                    // If it is elsewhere, its presence has to suffice.
                    metadata: metadata.unwrap_or_else(|| {
                        let (name, version) = (&package.name, &package.version);
                        format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n").into()
                    }),
                    directory,
                }
            })
            .collect()
    }

    /// Where the answer to a request is kept.
    fn request(
        &self,
        environment: &Environment,
        layers: &[Layer],
        requirements: &[Requirement],
    ) -> PathBuf {
        let requirements: Vec<String> = requirements.iter().map(ToString::to_string).collect();
        let layers: Vec<&str> = layers.iter().map(|layer| layer.content.as_str()).collect();
        let key = (
            (
                environment.python(),
                environment.version(),
                environment.packages(),
            ),
            layers,
            requirements,
            (&self.indexes, indexes_of_uv()),
        );
        // Nothing in it can fail to be written as JSON.
        let key = serde_json::to_vec(&key).unwrap_or_default();
        let file = format!("{}.json", hexadecimal(&Sha256::digest(key)));
        self.directory.join("requests").join(file)
    }

    fn record(&self, content: &str) -> PathBuf {
        self.directory
            .join("records")
            .join(format!("{content}.json"))
    }

    /// The name of a layer, which can't be guessed from its contents.
    fn name(&self, content: &str) -> io::Result<String> {
        let secret = fs::read(self.directory.join("secret"))?;
        let mut name = Sha256::new();
        name.update(secret);
        name.update(content);
        Ok(hexadecimal(&name.finalize()))
    }

    /// Removes remains of interrupted installs.
    fn sweep(&self) {
        let entries = fs::read_dir(self.directory.join("staging"))
            .into_iter()
            .flatten();
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|meta| meta.modified());
            let age =
                modified.map(|time| SystemTime::now().duration_since(time).unwrap_or_default());
            let free = || File::open(entry.path()).is_ok_and(|lock| lock.try_lock().is_ok());
            if age.is_ok_and(|age| age > STALE) && free() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// A package that the session has already.
struct Present {
    /// What its directory of metadata is called.
    directory: String,
    metadata: Vec<u8>,
    pin: String,
}

/// Lets a target look as if it had packages, of which there is nothing that could be removed, and
/// pins their versions.
fn lay_out(target: &Path, constraints: &Path, present: &[Present]) -> io::Result<()> {
    fs::create_dir(target)?;
    for one in present {
        let directory = target.join(&one.directory);
        fs::create_dir(&directory)?;
        fs::write(directory.join("METADATA"), &one.metadata)?;
    }
    let pins: Vec<&str> = present.iter().map(|one| one.pin.as_str()).collect();
    fs::write(constraints, pins.join("\n"))
}

/// The packages in a layer: those that uv reported as installed, each once. A wheel may hold the
/// metadata of another package, and could pass for a package that was never requested.
fn contents(
    target: &Path,
    mut installed: BTreeMap<String, String>,
) -> Result<Vec<LockedPackage>, PackageError> {
    let read = |error| PackageError::io("read", target)(error);
    let mut packages = Vec::new();
    for entry in fs::read_dir(target).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if !is_metadata(&path) {
            continue;
        }
        let name = name_and_version(&path).map(|(name, _)| name);
        let Some(version) = name.as_ref().and_then(|name| installed.remove(name)) else {
            let directory = path.file_name().unwrap_or_default();
            return Err(PackageError::Metadata(directory.display().to_string()));
        };
        packages.push(LockedPackage {
            name: name.unwrap_or_default(),
            version,
            hashes: Vec::new(),
        });
    }
    packages.sort();
    Ok(packages)
}

/// `humanize-4.1.dist-info`, read.
fn name_and_version(path: &Path) -> Option<(String, String)> {
    let stem = is_metadata(path).then(|| path.file_stem()?.to_str())??;
    let (name, version) = stem.rsplit_once('-')?;
    Some((normalise(name), version.to_owned()))
}

/// The variables that say where packages come from.
fn indexes_of_uv() -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| names_an_index(name))
        .collect();
    found.sort();
    found
}

/// This boot of the machine.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_new(path, &serde_json::to_vec(value)?, true)
}

/// Writes a file that is there completely or not at all.
fn write_new(path: &Path, contents: &[u8], replace: bool) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(contents)?;
    if replace {
        file.persist(path)?;
    } else if let Err(error) = file.persist_noclobber(path)
        && error.error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error.error);
    }
    Ok(())
}
