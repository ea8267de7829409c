// Made by `npm run types` from docs/openapi-admin.json. Do not change it by hand.
export interface paths {
    "/v1/admin/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the audit log, newest first. */
        get: operations["list_audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/errors": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Counts problems by code. */
        get: operations["count_errors"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the state of the service. */
        get: operations["show_health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists keys. */
        get: operations["list_keys"];
        put?: never;
        /** Creates a key, shown only in this response. */
        post: operations["create_key"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/keys/{prefix}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revokes a key; its streams end within two seconds.
         * @description A disk fault does not delay this: the key is refused at once, and the service retries until the
         *     revocation is on disk.
         */
        delete: operations["revoke_key"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the live runs of all tenants on this node: running ones, and those that wait and still have their session. */
        get: operations["list_all_runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/runs/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancels a live run of any tenant, with the best answer so far. */
        post: operations["cancel_any_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the live sessions of all tenants, except sessions of runs. */
        get: operations["list_all_sessions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Deletes a session of any tenant. */
        delete: operations["end_session"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/tenants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists all tenants that have had a key, or have a quota or a least isolation. */
        get: operations["list_tenants"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/tenants/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a tenant, with its disk use. */
        get: operations["show_tenant"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/tenants/{name}/isolation": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sets the least isolation of a tenant, with or without keys.
         * @description A session or run below it is refused from then on, and a running one ends or accepts no more work.
         */
        post: operations["set_isolation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/tenants/{name}/quotas": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sets quotas of a tenant, with or without keys. */
        post: operations["set_quotas"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A live run, as admins see it. */
        AnyRun: {
            id: string;
            model: string;
            state: components["schemas"]["RunState"];
            /**
             * Format: int32
             * @description Turns of the model so far.
             */
            steps: number;
            tenant: string;
        };
        /** @description The live runs of all tenants. */
        AnyRunList: {
            /** @description Sorted by id. */
            runs: components["schemas"]["AnyRun"][];
        };
        /** @description A live session, as admins see it. */
        AnySession: {
            /** @description Whether a cell is running. */
            busy: boolean;
            /**
             * Format: int32
             * @description Number of the last started cell.
             */
            cells: number;
            /**
             * Format: int64
             * @description Creation time, in seconds since 1970.
             */
            created_at: number;
            id: string;
            /**
             * Format: int64
             * @description Resource limits.
             */
            memory_bytes: number;
            tenant: string;
        };
        /** @description A page of sessions of all tenants. */
        AnySessionPage: {
            /** @description Cursor of the next page; absent on the last page. */
            next_cursor?: string | null;
            /** @description Oldest first. */
            sessions: components["schemas"]["AnySession"][];
        };
        /** @description An audit event: an action of an admin. */
        AuditEvent: {
            /** @description Action, such as `key_created`. */
            act: string;
            /** @description The prefix of a key, `command line`, or `service`. */
            actor: string;
            /**
             * Format: int64
             * @description Time, in seconds since 1970.
             */
            at: number;
            /** @description Object: prefix of a key, quota and amount, isolation, or id of a session or run. */
            detail: string;
            /**
             * Format: int64
             * @description Number of the event, in order.
             */
            id: number;
            /** @description Affected tenant. */
            tenant?: string | null;
        };
        /** @description A page of the audit log. */
        AuditPage: {
            /** @description Newest first. */
            events: components["schemas"]["AuditEvent"][];
            /** @description Cursor of the next page; absent on the last page. */
            next_cursor?: string | null;
        };
        /** @description A key to create. */
        CreateKey: {
            /**
             * Format: int64
             * @description Seconds until the key expires; never if absent.
             */
            lifetime_seconds?: number | null;
            /** @description Scopes of the key: `sessions`, `runs`, `admin`. */
            scopes: string[];
            /** @description Tenant of the key, with or without other keys. */
            tenant: string;
        };
        /** @description A new key. */
        CreatedKey: components["schemas"]["KeyView"] & {
            /** @description The key itself, not shown again. */
            key: string;
        };
        /** @description Counts of problems. */
        Errors: {
            /** @description Number of responses by code since the start; codes without responses are absent. */
            codes: {
                [key: string]: number;
            };
        };
        /** @description State of the service. */
        Health: {
            /** @description Running and waiting cells. */
            cells: number;
            /** @description Whether the service is shutting down and accepts no new work. */
            draining: boolean;
            /** Format: int64 */
            memory_available_bytes?: number | null;
            /**
             * Format: int64
             * @description Total and available memory of the host.
             */
            memory_bytes?: number | null;
            /** @description Live sessions of all tenants. */
            sessions: number;
            version: string;
        };
        /** @description All keys. */
        KeyList: {
            /** @description Oldest first, including revoked keys. */
            keys: components["schemas"]["KeyView"][];
        };
        /** @description A key, without its secret. */
        KeyView: {
            /**
             * Format: int64
             * @description Creation time, in seconds since 1970.
             */
            created_at: number;
            /**
             * Format: int64
             * @description Expiry time, in seconds since 1970; absent for a key that does not expire.
             */
            expires_at?: number | null;
            /** @description Prefix of the key. */
            prefix: string;
            /** Format: int64 */
            revoked_at?: number | null;
            scopes: string[];
            tenant: string;
            /**
             * Format: int64
             * @description Time of the last use, in seconds since 1970, to about a minute.
             */
            used_at?: number | null;
        };
        /** @description A body without fields, or none. */
        Nothing: Record<string, never>;
        /** @description A problem in a response (RFC 9457). */
        Problem: {
            /** @description Stable code of a problem. */
            code: string;
            /** @description Cause of this problem. */
            detail: string;
            quota?: components["schemas"]["QuotaUse"] | null;
            /** @description Whether the same request may succeed later. */
            retry: boolean;
            /**
             * Format: int32
             * @description HTTP status of the response.
             */
            status: number;
            /** @description Meaning of the code. */
            title: string;
            /** @description Path of the page about this code, on this server. */
            type: string;
        };
        /**
         * @description A quota of a tenant.
         * @enum {string}
         */
        Quota: "sessions" | "runs" | "creates_per_second" | "requests_per_second" | "memory_bytes" | "disk_bytes" | "cpu_ms" | "output_bytes" | "egress_bytes" | "events" | "tokens" | "money_micros";
        /** @description An exceeded quota, in a response. */
        QuotaUse: {
            /** Format: int64 */
            limit: number;
            name: components["schemas"]["Quota"];
            /**
             * Format: int64
             * @description Time of the reset of a daily quota, in seconds since 1970.
             */
            resets_at?: number | null;
            /** Format: int64 */
            used: number;
        };
        /**
         * @description State of a run.
         * @enum {string}
         */
        RunState: "running" | "waits" | "answered" | "unverified" | "ended" | "interrupted";
        /** @description The least isolation of a tenant. */
        SetIsolation: {
            /**
             * @description One of the isolation tiers that the service offers [default: its first, or the tenant's minimum].
             * @enum {string|null}
             */
            least?: "container" | "full" | "gvisor" | null;
        };
        /** @description Quotas of a tenant. */
        SetQuotas: {
            /** @description New amounts; `null` removes a quota. Omitted quotas stay unchanged. */
            quotas: {
                [key: string]: number | null;
            };
        };
        /** @description All tenants. */
        TenantList: {
            /** @description Sorted by name. */
            tenants: components["schemas"]["TenantView"][];
        };
        /** @description A tenant. */
        TenantView: {
            /**
             * @description Isolation of the session.
             * @enum {string}
             */
            least_isolation?: "none" | "unfiltered" | "container" | "full" | "gvisor";
            name: string;
            /** @description Quotas that differ from the service's defaults. */
            quotas: {
                [key: string]: number;
            };
            /** @description Current use, and use of today (UTC). */
            used: {
                [key: string]: number;
            };
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    list_audit: {
        parameters: {
            query?: {
                /** @description Maximum number of entries. */
                limit?: number;
                /** @description `next_cursor` of the previous page. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of the audit log. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditPage"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    count_errors: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The counts. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The state of the service. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_keys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The keys. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyList"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_key: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateKey"];
            };
        };
        responses: {
            /** @description The key. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedKey"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    revoke_key: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description Prefix of the key. */
                prefix: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The key is revoked. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_all_runs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The runs. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AnyRunList"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    cancel_any_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description The run is ending. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_all_sessions: {
        parameters: {
            query?: {
                /** @description Maximum number of entries. */
                limit?: number;
                /** @description `next_cursor` of the previous page. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of sessions. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AnySessionPage"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    end_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session is deleted. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_tenants: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tenants. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantList"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_tenant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The tenant. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tenant. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_isolation: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The tenant. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["SetIsolation"];
            };
        };
        responses: {
            /** @description The changed tenant. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_quotas: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The tenant. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetQuotas"];
            };
        };
        responses: {
            /** @description The changed tenant. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
