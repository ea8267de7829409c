//! Lists, a page at a time.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::problem::{Code, Problem};

/// Default and maximum number of entries of a page.
const USUAL: usize = 20;
const MOST: usize = 100;

#[derive(Debug, Default, Deserialize)]
pub(super) struct PageAsked {
    limit: Option<usize>,
    /// The last id of the page before.
    after: Option<String>,
    order: Option<Order>,
    /// Only containers with this name.
    pub(super) name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Asc,
    Desc,
}

impl PageAsked {
    /// The requested ones of all, which come in ascending order; and whether more follow.
    pub(super) fn take<T>(
        &self,
        mut all: Vec<T>,
        id: impl Fn(&T) -> String,
    ) -> Result<(Vec<T>, bool), Problem> {
        let bad = |detail: String| Problem::new(Code::BadQuery, detail);
        let limit = self.limit.unwrap_or(USUAL);
        if !(1..=MOST).contains(&limit) {
            return Err(bad(format!("`limit`: it must be from 1 to {MOST}")));
        }
        if !matches!(self.order, Some(Order::Asc)) {
            all.reverse();
        }
        if let Some(after) = &self.after {
            let place = all.iter().position(|one| id(one) == *after);
            let place = place.ok_or_else(|| bad("`after`: nothing has this id".to_owned()))?;
            all.drain(..=place);
        }
        let has_more = all.len() > limit;
        all.truncate(limit);
        Ok((all, has_more))
    }
}

/// A page as a client sees it.
pub(super) fn list(data: &[Value], has_more: bool) -> Value {
    let id = |entry: Option<&Value>| entry.map(|entry| entry["id"].clone());
    json!({
        "object": "list",
        "first_id": id(data.first()),
        "last_id": id(data.last()),
        "has_more": has_more,
        "data": data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let take = |limit, after: Option<&str>, order| {
            let asked = PageAsked {
                limit,
                after: after.map(str::to_owned),
                order,
                name: None,
            };
            asked.take(vec![1, 2, 3], i32::to_string).ok()
        };
        assert_eq!(take(None, None, None), Some((vec![3, 2, 1], false)));
        assert_eq!(take(Some(2), None, None), Some((vec![3, 2], true)));
        assert_eq!(take(Some(2), Some("2"), None), Some((vec![1], false)));
        let asc = || Some(Order::Asc);
        assert_eq!(take(Some(1), Some("1"), asc()), Some((vec![2], true)));
        assert_eq!(take(Some(1), Some("3"), asc()), Some((vec![], false)));
        for (limit, after) in [(Some(0), None), (Some(101), None), (None, Some("4"))] {
            assert_eq!(take(limit, after, None), None);
        }
    }
}
