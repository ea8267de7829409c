-- The node that drove a run last. None of a run that no node has driven.
ALTER TABLE belljar.runs ADD COLUMN node text COLLATE "C";

-- For lists of the runs of a tenant.
CREATE INDEX runs_of_tenant ON belljar.runs (tenant, number);

-- What tells this cluster from others: one row.
CREATE TABLE belljar.cluster (id text NOT NULL);
INSERT INTO belljar.cluster (id) VALUES (gen_random_uuid()::text);
