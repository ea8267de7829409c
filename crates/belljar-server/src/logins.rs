//! Wrong keys that were given to log in. A key has 256 random bits, so that nobody guesses one; but nobody is
//! to try for hours either.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::problem::{Code, Problem};
use crate::tenants::Tenants;

/// How many wrong keys with the prefix of one that there is may be given in this time.
const WRONG: u32 = 10;
const WITHIN: Duration = Duration::from_mins(1);

/// Counted for the keys that there are: whoever does not know a prefix keeps nobody out, and the number of
/// counts is that of keys.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<HashMap<String, (u32, Instant)>>);

impl Logins {
    /// Refuses a key that can't be the right one, or that may not be tried now.
    pub(crate) async fn check(&self, tenants: &Tenants, key: &str) -> Result<(), Problem> {
        let prefix = key.split('_').nth(1).unwrap_or_default();
        if let Some((count, since)) = lock(&self.0).get(prefix).copied()
            && count >= WRONG
            && since.elapsed() < WITHIN
        {
            let detail = format!("{WRONG} wrong keys with this beginning were given in a minute");
            return Err(Problem::new(Code::TooManyLogins, detail).after(60));
        }
        if tenants.check(key).await?.is_some() {
            return Ok(());
        }
        if tenants.is_valid(prefix).await {
            let mut counts = lock(&self.0);
            let now = Instant::now();
            let (count, since) = counts.entry(prefix.to_owned()).or_insert((0, now));
            if since.elapsed() >= WITHIN {
                (*count, *since) = (0, now);
            }
            *count += 1;
        }
        let detail = "unknown or revoked key";
        Err(Problem::new(Code::Unauthorized, detail))
    }
}
