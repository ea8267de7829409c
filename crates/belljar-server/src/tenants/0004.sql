-- The least isolation of the sessions of a tenant, where there is one.
CREATE TABLE least_isolation (
    tenant TEXT NOT NULL PRIMARY KEY,
    walls  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
