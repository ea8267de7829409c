//! Objects of runs that there are not.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sqlx::Row;

use super::Node;
use crate::{Error, Objects};

/// Runs that are looked for at once.
const AT_ONCE: usize = 1000;

const EXISTING: &str = "SELECT coalesce(array_agg(id), '{}') FROM belljar.runs WHERE id = ANY ($1)";

impl Node {
    /// Removes objects of runs that don't exist, if they were written at least `age` ago by the store's clock, and
    /// returns how many. Their names begin with `TENANT/RUN/`.
    ///
    /// No run may begin whose first object was written that long ago, and no id may be given twice.
    pub async fn remove_orphans(&self, objects: &Objects, age: Duration) -> Result<usize, Error> {
        let mut runs: HashMap<String, Vec<String>> = HashMap::new();
        for name in objects.older_than(age).await? {
            if let Some(run) = name.split('/').nth(1) {
                runs.entry(run.to_owned()).or_default().push(name);
            }
        }
        let ids: Vec<String> = runs.keys().cloned().collect();
        for ids in ids.chunks(AT_ONCE) {
            for existing in self.existing(ids).await? {
                runs.remove(&existing);
            }
        }
        let mut removed = 0;
        for name in runs.into_values().flatten() {
            objects.remove(&name).await?;
            removed += 1;
        }
        Ok(removed)
    }

    /// Those of these runs that exist.
    async fn existing(&self, ids: &[String]) -> Result<HashSet<String>, Error> {
        let row = self.0.execute(sqlx::query(EXISTING).bind(ids)).await;
        let found = row.and_then(|row| {
            let row = row.ok_or(sqlx::Error::RowNotFound)?;
            row.try_get::<Vec<String>, _>(0)
        });
        let found = found.map_err(|error| self.0.postgres.fault(error))?;
        Ok(found.into_iter().collect())
    }
}
