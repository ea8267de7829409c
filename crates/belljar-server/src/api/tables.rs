//! `/v1/sessions/{id}/variables/{name}`: tables that names of a session are bound to, read by parts.

use std::io::{Seek as _, Write as _};
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::response::Response;
use belljar_sandbox::protocol::{ColumnStatistics, TableFilter, TableRows, TableSort, TableView};
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use super::files::{attachment, in_background};
use super::spool::Spooled;
use crate::body::{Named, Query};
use crate::problem::{Code, Problem, disk_full};
use crate::service::{Caller, Service};

/// Rows of a page.
const ROWS: u32 = 100;
const MAX_ROWS: u32 = 500;

const MAX_FILTERS: usize = 20;
/// Bytes of the value of a filter.
const MAX_VALUE: usize = 1000;

/// Parts of a CSV on their way to the disk.
const PARTS: usize = 2;

const MAIN: &str = "main";

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RowsAsked {
    /// The namespace [default: `main`].
    namespace: Option<String>,
    /// The first row, among those that pass the filters [default: 0].
    #[serde(default)]
    offset: u64,
    /// Maximum number of rows [default: 100].
    #[serde(default = "usual_rows")]
    #[param(required = false, minimum = 1, maximum = 500)]
    limit: u32,
    /// Column to sort by, counted from 0; -1 is the index [default: the order of the table].
    sort: Option<i32>,
    /// Whether the greatest value comes first.
    #[serde(default)]
    descending: bool,
    /// Conditions that a row must meet: a JSON array of at most 20 objects, each a `TableFilter`.
    filters: Option<String>,
}

const fn usual_rows() -> u32 {
    ROWS
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StatisticsAsked {
    /// The namespace [default: `main`].
    namespace: Option<String>,
    /// The column, counted from 0; -1 is the index.
    column: i32,
    /// Conditions that a row must meet, as for its rows.
    filters: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CsvAsked {
    /// The namespace [default: `main`].
    namespace: Option<String>,
    /// Column to sort by, as for its rows.
    sort: Option<i32>,
    /// Whether the greatest value comes first.
    #[serde(default)]
    descending: bool,
    /// Conditions that a row must meet, as for its rows.
    filters: Option<String>,
}

/// Rows of a table. Waits for a running cell. Nothing of the session changes.
///
/// A `DataFrame` or a `Series` of pandas is a table, and an array of numpy with two dimensions.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/variables/{name}/rows", tag = "variables", operation_id = "read_table_rows",
    params(
        ("id" = String, Path, description = "The session."),
        ("name" = String, Path, description = "Name of the variable."),
        RowsAsked,
    ),
    responses((status = 200, description = "The rows.", body = ref("#/components/schemas/TableRows")))
)]
pub(super) async fn rows(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, name)): Named<(String, String)>,
    Query(asked): Query<RowsAsked>,
) -> Result<JsonResponse<TableRows>, Problem> {
    if asked.limit == 0 || asked.limit > MAX_ROWS {
        return Err(bad(format!("`limit` is from 1 to {MAX_ROWS}")));
    }
    let view = view(asked.sort, asked.descending, asked.filters.as_deref())?;
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let session = entry.session()?;
    let namespace = session.namespace(asked.namespace.as_deref().unwrap_or(MAIN));
    let rows = namespace.table_rows(&name, &view, asked.offset, asked.limit);
    let rows = rows.await.map_err(|error| entry.explain(error))?;
    Ok(JsonResponse(rows))
}

/// Statistics of a column of a table. Waits for a running cell. Nothing of the session changes.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/variables/{name}/statistics", tag = "variables",
    operation_id = "read_column_statistics",
    params(
        ("id" = String, Path, description = "The session."),
        ("name" = String, Path, description = "Name of the variable."),
        StatisticsAsked,
    ),
    responses((status = 200, description = "The statistics.", body = ref("#/components/schemas/ColumnStatistics")))
)]
pub(super) async fn statistics(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, name)): Named<(String, String)>,
    Query(asked): Query<StatisticsAsked>,
) -> Result<JsonResponse<ColumnStatistics>, Problem> {
    let view = view(None, false, asked.filters.as_deref())?;
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let session = entry.session()?;
    let namespace = session.namespace(asked.namespace.as_deref().unwrap_or(MAIN));
    let read = namespace.table_statistics(&name, &view, asked.column);
    let read = read.await.map_err(|error| entry.explain(error))?;
    Ok(JsonResponse(read))
}

/// Downloads a table as CSV: all rows that pass the filters. Waits for a running cell. Nothing of the session changes.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/variables/{name}/csv", tag = "variables", operation_id = "download_table",
    params(
        ("id" = String, Path, description = "The session."),
        ("name" = String, Path, description = "Name of the variable."),
        CsvAsked,
    ),
    responses((status = 200, description = "The table.", content_type = "text/csv"))
)]
pub(super) async fn csv(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, name)): Named<(String, String)>,
    Query(asked): Query<CsvAsked>,
) -> Result<Response, Problem> {
    let view = view(asked.sort, asked.descending, asked.filters.as_deref())?;
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let session = entry.session()?;
    let transfer = service.admission.transfer(&caller.tenant)?;
    let fault = |error| Problem::io("cannot store a table", error);
    let mut spooled = Spooled::new(&service, &caller.tenant).await?;
    let (parts, mut arriving) = mpsc::channel::<Vec<u8>>(PARTS);
    let writing = in_background(move || {
        while let Some(part) = arriving.blocking_recv() {
            spooled.write_all(&part).map_err(disk_full)?;
        }
        let size = spooled.file.stream_position().map_err(fault)?;
        spooled.file.rewind().map_err(fault)?;
        Ok((spooled, size))
    });
    let namespace = session.namespace(asked.namespace.as_deref().unwrap_or(MAIN));
    let limit = entry.options.limits.transfer_bytes;
    let reading = namespace.table_csv(&name, &view, limit, parts);
    let (read, written) = tokio::join!(reading, writing);
    read.map_err(|error| entry.explain(error))?;
    let (Spooled { file, space }, size) = written?;
    let file_name = format!("{name}.csv");
    let kind = "text/csv; charset=utf-8";
    Ok(attachment(file, size, &file_name, kind, (transfer, space)))
}

fn view(sort: Option<i32>, descending: bool, filters: Option<&str>) -> Result<TableView, Problem> {
    let filters: Vec<TableFilter> = match filters {
        None => Vec::new(),
        Some(json) => serde_json::from_str(json)
            .map_err(|error| bad(format!("`filters` is not an array of filters: {error}")))?,
    };
    if filters.len() > MAX_FILTERS {
        return Err(bad(format!("there are at most {MAX_FILTERS} filters")));
    }
    if filters.iter().any(|filter| filter.value.len() > MAX_VALUE) {
        let detail = format!("the value of a filter has at most {MAX_VALUE} bytes");
        return Err(bad(detail));
    }
    let sort = sort.map(|column| TableSort { column, descending });
    Ok(TableView { sort, filters })
}

fn bad(detail: String) -> Problem {
    Problem::new(Code::BadQuery, detail)
}
