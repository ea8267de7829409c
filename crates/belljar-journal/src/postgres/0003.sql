-- With it, a node signs what another one has to check: tokens of ports and of sandboxes.
ALTER TABLE belljar.cluster
    ADD COLUMN secret text NOT NULL DEFAULT gen_random_uuid()::text || gen_random_uuid()::text;
