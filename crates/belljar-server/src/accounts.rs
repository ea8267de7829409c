//! Quotas of tenants, and their use of today (UTC).
//!
//! It is counted in memory and written to disk every two seconds, so that a request pays for no write: a service
//! that dies forgets what was used in the last two seconds. What is under way when a quota is reached is not
//! cut off, but for runs, which are stopped: nothing new begins.
//!
//! Each node of a cluster counts for itself, and reads every two seconds what the others have written. So a tenant may
//! use more than its quota by what the nodes spend in four seconds: two until it is written, and two until it is read.

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use belljar_sandbox::protocol::Outcome;
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::{Code, Problem};
use crate::tenants::{Amounts, Quota, TenantName};

pub(crate) const DAY: u64 = 24 * 60 * 60;

/// What a tenant used on a day.
pub(crate) type DayOfTenant = (i64, TenantName, Amounts);

/// An exceeded quota, in a response.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct QuotaUse {
    pub(crate) name: Quota,
    pub(crate) used: u64,
    pub(crate) limit: u64,
    /// Time of the reset of a daily quota, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resets_at: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Accounts {
    quotas: HashMap<TenantName, Amounts>,
    day: i64,
    spent: HashMap<TenantName, Amounts>,
    /// What was used on a day on other nodes, as far as they have written it.
    elsewhere: (i64, HashMap<TenantName, Amounts>),
    /// The day that was left last, and what was used on it: a clock that is set comes back to it.
    last: (i64, HashMap<TenantName, Amounts>),
    /// Microseconds that are no whole millisecond yet.
    cpu_rest: HashMap<TenantName, u64>,
    /// Of whom something is not on disk.
    changed: HashSet<TenantName>,
    /// What is not on disk of days that are over.
    over: Vec<DayOfTenant>,
}

impl Accounts {
    pub(crate) fn set_quotas(&mut self, quotas: HashMap<TenantName, Amounts>) {
        self.quotas = quotas;
    }

    /// What was used today before the service was started.
    pub(crate) fn set_spent(&mut self, day: i64, spent: HashMap<TenantName, Amounts>) {
        (self.day, self.spent) = (day, spent);
    }

    /// What was used on a day on other nodes.
    pub(crate) fn set_elsewhere(&mut self, day: i64, spent: HashMap<TenantName, Amounts>) {
        self.elsewhere = (day, spent);
    }

    /// Today's use on other nodes.
    fn elsewhere(&self, tenant: &TenantName) -> Option<&Amounts> {
        let (day, spent) = &self.elsewhere;
        spent.get(tenant).filter(|_| *day == self.day)
    }

    /// Today's use on all nodes.
    fn used(&self, tenant: &TenantName, quota: Quota) -> u64 {
        let all = [self.spent.get(tenant), self.elsewhere(tenant)];
        let all = all.into_iter().flatten();
        let amounts = all.filter_map(|amounts| amounts.get(&quota).copied());
        amounts.fold(0, u64::saturating_add)
    }

    pub(crate) fn limit(&self, tenant: &TenantName, quota: Quota) -> Option<u64> {
        self.quotas.get(tenant)?.get(&quota).copied()
    }

    pub(crate) fn quotas(&self, tenant: &TenantName) -> Amounts {
        self.quotas.get(tenant).cloned().unwrap_or_default()
    }

    /// What a tenant has used today.
    pub(crate) fn spent(&mut self, tenant: &TenantName) -> Amounts {
        self.roll_over(today());
        let mut all = self.spent.get(tenant).cloned().unwrap_or_default();
        for (quota, amount) in self.elsewhere(tenant).into_iter().flatten() {
            let sum = all.entry(*quota).or_default();
            *sum = sum.saturating_add(*amount);
        }
        all
    }

    pub(crate) fn add(&mut self, tenant: &TenantName, used: &[(Quota, u64)]) {
        self.roll_over(today());
        let spent = self.spent.entry(tenant.clone()).or_default();
        for (quota, amount) in used.iter().filter(|(_, amount)| *amount > 0) {
            let sum = spent.entry(*quota).or_default();
            *sum = sum.saturating_add(*amount);
            self.changed.insert(tenant.clone());
        }
    }

    /// CPU time and output of a cell.
    pub(crate) fn add_cell(&mut self, tenant: &TenantName, outcome: &Outcome) {
        let output = outcome.stdout.bytes.saturating_add(outcome.stderr.bytes);
        self.add_work(tenant, outcome.durations.cpu_us, output, 0);
    }

    /// CPU time in microseconds, output and sent traffic in bytes.
    pub(crate) fn add_work(&mut self, tenant: &TenantName, cpu_us: u64, output: u64, egress: u64) {
        let rest = self.cpu_rest.entry(tenant.clone()).or_default();
        let cpu_us = cpu_us.saturating_add(*rest);
        *rest = cpu_us % 1000;
        let used = [
            (Quota::CpuMs, cpu_us / 1000),
            (Quota::OutputBytes, output),
            (Quota::EgressBytes, egress),
        ];
        self.add(tenant, &used);
    }

    /// What is left of a quota for today; nothing where there is none.
    pub(crate) fn left(&mut self, tenant: &TenantName, quota: Quota) -> Option<u64> {
        self.roll_over(today());
        let limit = self.limit(tenant, quota)?;
        Some(limit.saturating_sub(self.used(tenant, quota)))
    }

    /// Refuses what would use more of what is used up for today.
    pub(crate) fn check(&mut self, tenant: &TenantName, quotas: &[Quota]) -> Result<(), Problem> {
        if !self.quotas.contains_key(tenant) {
            return Ok(());
        }
        for quota in quotas {
            if self.left(tenant, *quota) == Some(0) {
                let limit = self.limit(tenant, *quota).unwrap_or_default();
                return Err(exceeded(*quota, self.used(tenant, *quota), limit));
            }
        }
        Ok(())
    }

    /// What is to be written to disk.
    pub(crate) fn take_changed(&mut self) -> Vec<DayOfTenant> {
        self.roll_over(today());
        let mut all = std::mem::take(&mut self.over);
        for tenant in self.changed.drain() {
            if let Some(spent) = self.spent.get(&tenant) {
                all.push((self.day, tenant, spent.clone()));
            }
        }
        all
    }

    /// Takes back what could not be written.
    pub(crate) fn not_kept(&mut self, all: Vec<DayOfTenant>) {
        for (day, tenant, amounts) in all {
            if day == self.day {
                self.changed.insert(tenant);
            } else {
                self.over.push((day, tenant, amounts));
            }
        }
    }

    /// Begins a new day, if it is one.
    fn roll_over(&mut self, today: i64) {
        if today == self.day {
            return;
        }
        for tenant in self.changed.drain() {
            if let Some(spent) = self.spent.get(&tenant) {
                self.over.push((self.day, tenant, spent.clone()));
            }
        }
        let left = (self.day, std::mem::take(&mut self.spent));
        let before = std::mem::replace(&mut self.last, left);
        self.day = today;
        if before.0 == today {
            self.spent = before.1;
        }
    }
}

/// A refusal because of a quota.
pub(crate) fn exceeded(quota: Quota, used: u64, limit: u64) -> Problem {
    let code = match quota {
        Quota::Sessions => Code::TooManySessions,
        Quota::Runs => Code::TooManyRuns,
        _ => Code::QuotaExceeded,
    };
    let until_reset = quota.is_daily().then(until_tomorrow);
    let after = match quota {
        Quota::RequestsPerSecond => 1,
        _ => until_reset.unwrap_or(5),
    };
    let when = if until_reset.is_some() {
        "; it resets at midnight UTC"
    } else {
        ""
    };
    let detail = format!("the tenant has used {used} of its quota `{quota}` of {limit}{when}");
    let resets_at = until_reset.map(|seconds| now() + seconds);
    let after = u32::try_from(after).unwrap_or(u32::MAX);
    Problem::new(code, detail).after(after).about(QuotaUse {
        name: quota,
        used,
        limit,
        resets_at,
    })
}

/// The day, counted from 1970.
pub(crate) fn today() -> i64 {
    i64::try_from(now() / DAY).unwrap_or(i64::MAX)
}

/// How many seconds this day still has.
pub(crate) fn until_tomorrow() -> u64 {
    DAY - now() % DAY
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_day_is_counted_anew_and_the_old_one_is_not_lost() {
        let (a, mut accounts) = ("a".parse().unwrap(), Accounts::default());
        accounts.set_quotas([(a, [(Quota::Tokens, 10)].into())].into());
        let a: TenantName = "a".parse().unwrap();
        accounts.add(&a, &[(Quota::Tokens, 12), (Quota::Events, 0)]);
        let problem = accounts.check(&a, &Quota::OF_RUNS).unwrap_err();
        assert_eq!(problem.code, Code::QuotaExceeded);
        assert!(accounts.check(&a, &Quota::OF_CELLS).is_ok());
        assert!(
            accounts
                .check(&"b".parse().unwrap(), &Quota::OF_RUNS)
                .is_ok()
        );

        // As if what was used had been used yesterday.
        accounts.day -= 1;
        assert_eq!(accounts.left(&a, Quota::Tokens), Some(10));
        accounts.add(&a, &[(Quota::Tokens, 1)]);
        let mut kept = accounts.take_changed();
        kept.sort();
        let amounts = |tokens| Amounts::from([(Quota::Tokens, tokens)]);
        let expected = vec![
            (today() - 1, a.clone(), amounts(12)),
            (today(), a.clone(), amounts(1)),
        ];
        assert_eq!(kept, expected);
        assert!(accounts.take_changed().is_empty());
        accounts.not_kept(kept);
        let mut again = accounts.take_changed();
        again.sort();
        assert_eq!(again, expected);
    }

    /// What other nodes have used counts, on its day, and is never written as this node's own.
    #[test]
    fn the_use_of_other_nodes_counts() {
        let a: TenantName = "a".parse().unwrap();
        let amounts = |tokens| Amounts::from([(Quota::Tokens, tokens)]);
        let of_a = |tokens| HashMap::from([(a.clone(), amounts(tokens))]);
        let mut accounts = Accounts::default();
        accounts.set_quotas(of_a(10));
        accounts.set_elsewhere(today(), of_a(7));
        assert_eq!(accounts.left(&a, Quota::Tokens), Some(3));
        accounts.add(&a, &[(Quota::Tokens, 3)]);
        let problem = accounts.check(&a, &Quota::OF_RUNS).unwrap_err();
        assert!(problem.detail.contains("10 of its quota"), "{problem:?}");
        assert_eq!(accounts.spent(&a), amounts(10));
        assert_eq!(accounts.take_changed(), [(today(), a.clone(), amounts(3))]);
        accounts.set_elsewhere(today() - 1, of_a(7));
        assert_eq!(accounts.left(&a, Quota::Tokens), Some(7));
    }

    /// A clock that is set on and back, as around midnight, gives nobody a quota twice and forgets nothing.
    #[test]
    fn a_clock_that_is_set_gives_no_quota_twice() {
        let a: TenantName = "a".parse().unwrap();
        let mut accounts = Accounts::default();
        let spent =
            |tokens: u64| HashMap::from([(a.clone(), Amounts::from([(Quota::Tokens, tokens)]))]);
        accounts.set_spent(100, spent(7));
        for (day, seen) in [
            (101, None),
            (100, Some(7)),
            (101, None),
            (100, Some(7)),
            (4000, None),
            (100, Some(7)),
        ] {
            accounts.roll_over(day);
            let tokens = accounts
                .spent
                .get(&a)
                .and_then(|used| used.get(&Quota::Tokens));
            assert_eq!(tokens.copied(), seen, "day {day}");
        }
        // What was used in between is kept for its day.
        accounts.roll_over(101);
        accounts.spent = spent(2);
        accounts.changed.insert(a.clone());
        accounts.roll_over(100);
        assert_eq!(
            accounts.over,
            [(101, a.clone(), spent(2).remove(&a).unwrap())]
        );
        accounts.roll_over(101);
        assert_eq!(accounts.spent, spent(2));
    }
}
