//! Environments that are images: what is kept is their description.

use serde::{Deserialize, Serialize};

use super::{Building, EnvironmentStore, hold_lock, is_new, sweep, write_record};
use crate::environment::{Environment, EnvironmentError, name};

/// The format of an image's record. Programs that know the first format alone call it newer.
pub(super) const FORMAT: u32 = 2;

/// What `environment.json` holds of an image.
#[derive(Debug, Serialize, Deserialize)]
struct ImageRecord {
    format: u32,
    environment: Environment,
}

/// The environment of a record of [`FORMAT`].
pub(super) fn read(text: &[u8]) -> Result<Environment, serde_json::Error> {
    let record: ImageRecord = serde_json::from_slice(text)?;
    Ok(record.environment)
}

impl EnvironmentStore {
    /// Whether an environment of this name could be created: the name is a valid one, and nothing has it.
    pub fn check_new(&self, name: &str) -> Result<(), EnvironmentError> {
        name::check_name(name)?;
        is_new(&self.directory.join(name), name)
    }

    /// Keeps an environment that is [an image](Environment::from_image) under a name. It stays the image that it was
    /// when it was looked at, by its digest; the image itself is kept by the container engine.
    pub fn keep_image(
        &self,
        name: &str,
        environment: Environment,
    ) -> Result<Environment, EnvironmentError> {
        self.check_new(name)?;
        let name = name.to_owned();
        if environment.image.is_none() {
            return Err(EnvironmentError::NotImage { name });
        }
        let directory = self.make_directory()?;
        let _held = hold_lock(&directory, &mut |_| {})?;
        sweep(&directory);
        // Another process may have been faster.
        self.check_new(&name)?;
        let place = directory.join(&name);
        let building = Building::start(&directory)?;
        let record = ImageRecord {
            format: FORMAT,
            environment: Environment {
                name,
                ..environment
            },
        };
        write_record(building.path(), &record)?;
        building.move_to(&place)?;
        Ok(record.environment)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(image: &serde_json::Value) -> Environment {
        let described = json!({
            "name": "image:a:1", "python": "/usr/bin/python3", "version": "3.12.0", "packages": [], "preload": [],
            "fonts": [], "read_only_paths": [], "image": image,
        });
        serde_json::from_value(described).unwrap()
    }

    #[test]
    fn an_image_is_kept_by_name() {
        let root = tempfile::tempdir().unwrap();
        let store = EnvironmentStore::open(root.path());
        let runtime = json!({"address": null, "certificates": null, "runtime": "runsc"});
        let image = json!({"name": "a:1", "digest": "sha256:00", "container": runtime});
        let kept = store.keep_image("analysis", described(&image)).unwrap();
        assert_eq!(kept.name(), "analysis");
        assert_eq!(store.load("analysis").unwrap(), kept);
        assert_eq!(store.list().unwrap(), std::slice::from_ref(&kept));
        // Where the program is in the image is not a path of this host.
        assert_eq!(kept.python().to_str(), Some("/usr/bin/python3"));
        let again = store.keep_image("analysis", kept).unwrap_err();
        assert!(matches!(again, EnvironmentError::AlreadyExists { .. }));
        let spec = store.spec("analysis").unwrap_err();
        assert!(matches!(spec, EnvironmentError::IsImage { .. }), "{spec}");

        let own = store.keep_image("own", described(&serde_json::Value::Null));
        assert!(matches!(own, Err(EnvironmentError::NotImage { .. })));
        let wrong = store.keep_image("../own", described(&image));
        assert!(matches!(wrong, Err(EnvironmentError::InvalidName { .. })));
        store.remove("analysis").unwrap();
        assert_eq!(store.list().unwrap(), []);
    }
}
