-- What tenants may use, where that is another than the service's own limits.
CREATE TABLE quotas (
    tenant TEXT    NOT NULL,
    quota  TEXT    NOT NULL,
    amount INTEGER NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (tenant, quota)
) STRICT, WITHOUT ROWID;

-- What they have used on a day, which is a number of days since 1970.
CREATE TABLE spent (
    day    INTEGER NOT NULL,
    tenant TEXT    NOT NULL,
    quota  TEXT    NOT NULL,
    amount INTEGER NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (day, tenant, quota)
) STRICT, WITHOUT ROWID;

-- The runs that requests with an `Idempotency-Key` have begun; `hash` is of the request.
CREATE TABLE run_keys (
    tenant TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    hash   BLOB    NOT NULL CHECK (length(hash) = 32),
    run    TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_keys_by_age ON run_keys (at);

-- What admins did. `at` is in seconds since 1970.
CREATE TABLE audit (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    act    TEXT    NOT NULL,
    tenant TEXT,
    detail TEXT    NOT NULL
) STRICT;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'audit events are only added'); END;
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'audit events are only added'); END;
