-- The tables of the SQLite files, for many nodes: see `0001.sql` to `0004.sql`. What a service leaves for its own next
-- start is in a file of each node.
CREATE TABLE belljar.keys (
    prefix  text   COLLATE "C" NOT NULL PRIMARY KEY,
    tenant  text   COLLATE "C" NOT NULL,
    scopes  text   NOT NULL,
    hash    bytea  NOT NULL CHECK (length(hash) = 32),
    created bigint NOT NULL,
    revoked bigint,
    expires bigint,
    used    bigint
);

CREATE TABLE belljar.quotas (
    tenant text   COLLATE "C" NOT NULL,
    quota  text   COLLATE "C" NOT NULL,
    amount bigint NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (tenant, quota)
);

CREATE TABLE belljar.least_isolation (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    walls  text NOT NULL
);

-- A row for each node, which is written by no other: nodes never wait for each other, and a write that is repeated
-- changes nothing.
CREATE TABLE belljar.spent (
    day    bigint NOT NULL,
    tenant text   COLLATE "C" NOT NULL,
    quota  text   COLLATE "C" NOT NULL,
    node   text   COLLATE "C" NOT NULL,
    amount bigint NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (day, tenant, quota, node)
);

CREATE TABLE belljar.run_keys (
    tenant text   COLLATE "C" NOT NULL,
    key    text   COLLATE "C" NOT NULL,
    hash   bytea  NOT NULL CHECK (length(hash) = 32),
    run    text   COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX run_keys_by_age ON belljar.run_keys (at);

CREATE TABLE belljar.audit (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     bigint NOT NULL,
    actor  text   NOT NULL,
    act    text   NOT NULL,
    tenant text,
    detail text   NOT NULL
);
CREATE FUNCTION belljar.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit events are only added';
END
$$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON belljar.audit
    FOR EACH STATEMENT EXECUTE FUNCTION belljar.refuse_change();
