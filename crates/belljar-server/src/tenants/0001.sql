-- `created` and `revoked` are seconds since 1970; `hash` is SHA-256 of the secret.
CREATE TABLE keys (
    prefix  TEXT    NOT NULL PRIMARY KEY,
    tenant  TEXT    NOT NULL,
    scopes  TEXT    NOT NULL,
    hash    BLOB    NOT NULL CHECK (length(hash) = 32),
    created INTEGER NOT NULL,
    revoked INTEGER
) STRICT;
