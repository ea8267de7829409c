//! Tables of a session, read by parts: requests, and what a guest may answer.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The most columns of a page.
const MAX_COLUMNS: usize = 100;
/// The most characters of one value.
const MAX_TEXT: usize = 2000;

/// Which rows of a table are read, and in which order. Columns are counted from 0; -1 is the index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableView {
    /// The order [default: that of the table].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<TableSort>,
    /// A row must pass all of them.
    pub filters: Vec<TableFilter>,
}

/// An order of rows. Missing values come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TableSort {
    /// The column.
    pub column: i32,
    /// Whether the greatest comes first.
    pub descending: bool,
}

/// A condition on the values of a column. A missing value does not meet it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableFilter {
    /// The column, counted from 0; -1 is the index.
    pub column: i32,
    /// How a value of the column is compared.
    pub operator: TableOperator,
    /// With what: a number, a date or a text, as the column has.
    pub value: String,
}

/// How a filter compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableOperator {
    /// The value, as text, contains the filter's. Upper and lower case are the same.
    Contains,
    /// Equal.
    Equals,
    /// Less than.
    Less,
    /// Greater than.
    Greater,
}

/// The requested part of a table.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TableRequest {
    /// Rows, answered by [`TableRows`].
    Rows {
        /// The first of them, among those that pass the filters.
        offset: u64,
        /// The most.
        limit: u32,
    },
    /// Answered by [`ColumnStatistics`].
    Statistics {
        /// Of this column.
        column: i32,
    },
    /// All rows that pass the filters, as text.
    Csv,
}

/// A value of a cell. What JSON has no type for is text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TableValue {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// Text, cut after at most 2,000 characters.
    Text(String),
}

/// As one schema of several types: clients have no name for it.
impl JsonSchema for TableValue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TableValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["boolean", "integer", "number", "string"]})
    }
}

/// Rows of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableRows {
    /// Its columns: the first 100.
    pub columns: Vec<TableColumn>,
    /// The label of each row.
    pub index: Vec<Option<TableValue>>,
    /// The values of each row; null for what is missing.
    pub rows: Vec<Vec<Option<TableValue>>>,
    /// How many rows pass the filters.
    pub matching_rows: u64,
    /// How many rows the table has.
    pub total_rows: u64,
    /// How many columns the table has.
    pub total_columns: u64,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its type, in the words of the library.
    pub dtype: String,
}

/// Figures about the values of a column, in the rows that pass the filters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnStatistics {
    /// How many values there are.
    pub count: u64,
    /// How many are missing.
    pub missing: u64,
    /// How many different ones there are; null if they cannot be compared.
    pub unique: Option<u64>,
    /// The least; null if they have no order.
    pub min: Option<TableValue>,
    /// The greatest; null if they have no order.
    pub max: Option<TableValue>,
    /// The mean of numbers; null for other values.
    pub mean: Option<TableValue>,
}

impl TableRows {
    /// Reads a guest's answer to a request of at most `limit` rows.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn parse(json: &[u8], limit: u32) -> Result<Self, String> {
        let page: Self = parse(json)?;
        let width = page.columns.len();
        let is_whole = page.rows.len() <= limit as usize
            && page.index.len() == page.rows.len()
            && width <= MAX_COLUMNS
            && width as u64 <= page.total_columns
            && page.rows.len() as u64 <= page.matching_rows
            && page.matching_rows <= page.total_rows
            && page.rows.iter().all(|row| row.len() == width);
        let names = page.columns.iter().flat_map(|one| [&one.name, &one.dtype]);
        let values = page.rows.iter().flatten().chain(&page.index).flatten();
        let is_short =
            names.into_iter().all(|text| is_text(text)) && values.into_iter().all(is_value);
        if is_whole && is_short {
            Ok(page)
        } else {
            Err("not a page of a table".into())
        }
    }
}

impl ColumnStatistics {
    /// Reads what a guest answered.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let statistics: Self = parse(json)?;
        let figures = [&statistics.min, &statistics.max, &statistics.mean];
        if figures.into_iter().flatten().all(is_value) {
            Ok(statistics)
        } else {
            Err("not statistics of a column".into())
        }
    }
}

/// What a reader of JSON says may quote the guest, so it is not passed on.
fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|_| "not a part of a table".into())
}

fn is_value(value: &TableValue) -> bool {
    match value {
        TableValue::Text(text) => is_text(text),
        TableValue::Bool(_) | TableValue::Integer(_) | TableValue::Number(_) => true,
    }
}

fn is_text(text: &str) -> bool {
    text.chars().count() <= MAX_TEXT
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn page() -> Value {
        json!({
            "columns": [{"name": "a", "dtype": "int64"}, {"name": "b", "dtype": "str"}],
            "index": [0, "x"],
            "rows": [[1, "one"], [null, 2.5]],
            "matching_rows": 2, "total_rows": 3, "total_columns": 2,
        })
    }

    fn read(page: &Value) -> Result<TableRows, String> {
        TableRows::parse(page.to_string().as_bytes(), 2)
    }

    #[test]
    fn a_page_is_read_and_written_the_same() {
        let rows = read(&page()).unwrap();
        assert_eq!(rows.rows[0][0], Some(TableValue::Integer(1)));
        assert_eq!(rows.rows[1], [None, Some(TableValue::Number(2.5))]);
        assert_eq!(serde_json::to_value(rows).unwrap(), page());
    }

    /// What a lying guest could send instead.
    #[test]
    fn what_is_no_page_is_refused() {
        for (path, lie) in [
            ("/rows", json!([[1, "one"], [2, "two"], [3, "three"]])),
            ("/rows", json!([[1, "one"]])),
            ("/rows/0", json!([1])),
            ("/rows/0/0", json!([])),
            ("/rows/0/0", json!({"a": 1})),
            ("/rows/0/1", json!("x".repeat(MAX_TEXT + 1))),
            ("/index", json!([0])),
            ("/index", Value::Null),
            ("/index/0", json!(["x"])),
            ("/columns/0/name", json!("x".repeat(MAX_TEXT + 1))),
            (
                "/columns/0",
                json!({"name": "a", "dtype": "b", "more": "c"}),
            ),
            ("/matching_rows", json!(1)),
            ("/matching_rows", json!(-1)),
            ("/matching_rows", json!(2.5)),
            ("/total_rows", json!(1)),
            ("/total_columns", json!(1)),
        ] {
            let mut page = page();
            *page.pointer_mut(path).unwrap() = lie;
            assert!(read(&page).is_err(), "{page}");
        }
        let mut wide = page();
        wide["columns"] = json!(vec![json!({"name": "a", "dtype": "b"}); MAX_COLUMNS + 1]);
        wide["total_columns"] = json!(MAX_COLUMNS + 1);
        wide["rows"] = json!(vec![vec![1; MAX_COLUMNS + 1]; 2]);
        assert!(read(&wide).is_err());
        for bytes in [&b""[..], b"[]", b"\xff", b"{}"] {
            assert!(TableRows::parse(bytes, 2).is_err());
            assert!(ColumnStatistics::parse(bytes).is_err());
        }
    }

    #[test]
    fn statistics_are_read_strictly() {
        let statistics = json!({
            "count": 2, "missing": 1, "unique": null, "min": "a", "max": false, "mean": null,
        });
        let read = ColumnStatistics::parse(statistics.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), statistics);
        for lie in [json!("x".repeat(MAX_TEXT + 1)), json!([1])] {
            let mut lying = statistics.clone();
            lying["min"] = lie;
            assert!(ColumnStatistics::parse(lying.to_string().as_bytes()).is_err());
        }
    }
}
