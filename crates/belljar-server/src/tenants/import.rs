//! The records of a single node, brought into the database of a cluster.

use super::records::{self, COMMAND_LINE};
use super::store::Write;
use super::{Act, Row, Tenants, TenantsError, Value};

/// The audit event of an import; its detail is the id of the node.
const IMPORTED: &str = "data_imported";

const FIND_IMPORT: &str = "SELECT id FROM audit WHERE act = $1 AND detail = $2 LIMIT 1";

/// A table of both stores.
struct Table {
    /// For people.
    name: &'static str,
    read: &'static str,
    columns: &'static [Column],
    add: &'static str,
    /// Finds a row that has these values in its first columns, so many.
    same: &'static str,
    compared: usize,
}

#[derive(Clone, Copy)]
enum Column {
    Text,
    MaybeText,
    Number,
    MaybeNumber,
    Bytes,
}

use Column::{Bytes, MaybeNumber, MaybeText, Number, Text};

const TABLES: [Table; 6] = [
    Table {
        name: "keys",
        read: "SELECT prefix, tenant, scopes, hash, created, revoked, expires, used FROM keys",
        columns: &[
            Text,
            Text,
            Text,
            Bytes,
            Number,
            MaybeNumber,
            MaybeNumber,
            MaybeNumber,
        ],
        add: "INSERT INTO keys (prefix, tenant, scopes, hash, created, revoked, expires, used) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
        same: "SELECT prefix FROM keys WHERE prefix = $1 AND tenant = $2 AND scopes = $3 AND hash = $4",
        compared: 4,
    },
    Table {
        name: "quotas",
        read: "SELECT tenant, quota, amount FROM quotas",
        columns: &[Text, Text, Number],
        add: "INSERT INTO quotas (tenant, quota, amount) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        same: "SELECT tenant FROM quotas WHERE tenant = $1 AND quota = $2 AND amount = $3",
        compared: 3,
    },
    Table {
        name: "least isolations",
        read: "SELECT tenant, walls FROM least_isolation",
        columns: &[Text, Text],
        add: "INSERT INTO least_isolation (tenant, walls) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        same: "SELECT tenant FROM least_isolation WHERE tenant = $1 AND walls = $2",
        compared: 2,
    },
    Table {
        name: "idempotency keys",
        read: "SELECT tenant, key, hash, run, at FROM run_keys",
        columns: &[Text, Text, Bytes, Text, Number],
        add: "INSERT INTO run_keys (tenant, key, hash, run, at) VALUES ($1, $2, $3, $4, $5) \
            ON CONFLICT DO NOTHING",
        same: "SELECT tenant FROM run_keys WHERE tenant = $1 AND key = $2 AND hash = $3 AND run = $4",
        compared: 4,
    },
    Table {
        name: "labels",
        read: "SELECT tenant, run, title, tags FROM run_labels",
        columns: &[Text, Text, MaybeText, Text],
        add: "INSERT INTO run_labels (tenant, run, title, tags) VALUES ($1, $2, $3, $4) \
            ON CONFLICT DO NOTHING",
        same: "SELECT tenant FROM run_labels WHERE tenant = $1 AND run = $2",
        compared: 2,
    },
    Table {
        name: "share links",
        read: "SELECT id, tenant, run, step, hash, created, actor FROM run_shares",
        columns: &[Text, Text, Text, MaybeNumber, Bytes, Number, Text],
        add: "INSERT INTO run_shares (id, tenant, run, step, hash, created, actor) \
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        same: "SELECT id FROM run_shares WHERE id = $1 AND tenant = $2 AND run = $3",
        compared: 3,
    },
];

const SPENT: &str = "SELECT tenant, quota, day, amount FROM spent";

const ADD_SPENT: &str = "INSERT INTO spent (tenant, quota, day, amount, node) \
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";

const AUDIT: &str = "SELECT actor, act, tenant, detail, at FROM audit ORDER BY id";

const ADD_AUDIT: &str =
    "INSERT INTO audit (actor, act, tenant, detail, at) VALUES ($1, $2, $3, $4, $5)";

/// A value of a row.
enum Field {
    Text(String),
    MaybeText(Option<String>),
    Number(i64),
    MaybeNumber(Option<i64>),
    Bytes(Vec<u8>),
}

impl Field {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(text),
            Self::MaybeText(text) => Value::MaybeText(text.as_deref()),
            Self::Number(number) => Value::Number(*number),
            Self::MaybeNumber(number) => Value::MaybeNumber(*number),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// How many records of each kind were brought.
pub(crate) type ImportedRecords = Vec<(&'static str, usize)>;

impl Tenants {
    /// Whether the data of a node were imported, to the end.
    pub(crate) async fn has_imported(&self, node: &str) -> Result<bool, TenantsError> {
        let values = [Value::Text(IMPORTED), Value::Text(node)];
        let found = self.store.fetch(FIND_IMPORT, &values).await;
        let found = found.map_err(|error| self.fault(error))?;
        Ok(!found.is_empty())
    }

    /// Refuses records that the cluster has otherwise.
    pub(crate) async fn check_import(&self, from: &Self, node: &str) -> Result<(), TenantsError> {
        let (copied, _) = self.copy(from, node).await?;
        copied.roll_back().await.map_err(|error| self.fault(error))
    }

    /// Brings all records of a node here, or none. From then on its keys open the service, and its data count as imported.
    pub(crate) async fn import(
        &self,
        from: &Self,
        node: &str,
    ) -> Result<ImportedRecords, TenantsError> {
        let (mut copied, records) = self.copy(from, node).await?;
        let act = Act {
            actor: COMMAND_LINE,
            what: IMPORTED,
            tenant: None,
            detail: node,
        };
        let done = async {
            records::write(&mut copied, act).await?;
            copied.commit().await
        };
        done.await.map_err(|error| self.fault(error))?;
        Ok(records)
    }

    async fn copy(
        &self,
        from: &Self,
        node: &str,
    ) -> Result<(Write, ImportedRecords), TenantsError> {
        let fault = |error| self.fault(error);
        // Keys, among others.
        let write = self.store.act("tenants.create_key").await;
        let mut write = write.map_err(fault)?;
        let mut records = Vec::new();
        for table in &TABLES {
            let rows = from.rows(table.read, table.columns).await?;
            for row in &rows {
                let values: Vec<Value<'_>> = row.iter().map(Field::value).collect();
                write.execute(table.add, &values).await.map_err(fault)?;
                let same = write.execute(table.same, &values[..table.compared]);
                if same.await.map_err(fault)?.is_empty() {
                    let key = row.iter().find_map(|field| match field {
                        Field::Text(text) => Some(text.clone()),
                        _ => None,
                    });
                    return Err(TenantsError::Differs {
                        what: table.name,
                        key: key.unwrap_or_default(),
                    });
                }
            }
            records.push((table.name, rows.len()));
        }
        let spent = from.rows(SPENT, &[Text, Text, Number, Number]).await?;
        for row in &spent {
            let mut values: Vec<Value<'_>> = row.iter().map(Field::value).collect();
            values.push(Value::Text(node));
            write.execute(ADD_SPENT, &values).await.map_err(fault)?;
        }
        let audit = [Text, Text, MaybeText, Text, Number];
        let audit = from.rows(AUDIT, &audit).await?;
        for row in &audit {
            let values: Vec<Value<'_>> = row.iter().map(Field::value).collect();
            write.execute(ADD_AUDIT, &values).await.map_err(fault)?;
        }
        records.push(("audit events", audit.len()));
        Ok((write, records))
    }

    async fn rows(
        &self,
        read: &'static str,
        columns: &[Column],
    ) -> Result<Vec<Vec<Field>>, TenantsError> {
        let rows = self.store.fetch(read, &[]).await;
        let field = |row: &Row, (index, column): (usize, &Column)| -> sqlx::Result<Field> {
            Ok(match column {
                Text => Field::Text(row.get(index)?),
                MaybeText => Field::MaybeText(row.get(index)?),
                Number => Field::Number(row.get(index)?),
                MaybeNumber => Field::MaybeNumber(row.get(index)?),
                Bytes => Field::Bytes(row.get(index)?),
            })
        };
        let fields = |row: &Row| {
            let fields = columns.iter().enumerate().map(|column| field(row, column));
            fields.collect::<sqlx::Result<Vec<Field>>>()
        };
        let rows = rows.and_then(|rows| rows.iter().map(fields).collect());
        rows.map_err(|error| self.fault(error))
    }
}
