// The admin API, by resource.
import { act, ask, askJson, route } from './client';
import type { components } from './generated/openapi-admin';

type Schemas = components['schemas'];
export type AdminRun = Schemas['AnyRun'];
export type AdminSession = Schemas['AnySession'];
export type AuditEvent = Schemas['AuditEvent'];
export type CreatedKey = Schemas['CreatedKey'];
export type Health = Schemas['Health'];
export type KeyView = Schemas['KeyView'];
export type Quota = Schemas['Quota'];
export type TenantView = Schemas['TenantView'];

/** All quotas, those at once before those of a day. */
export const QUOTAS = [
  'sessions',
  'runs',
  'creates_per_second',
  'requests_per_second',
  'memory_bytes',
  'disk_bytes',
  'cpu_ms',
  'output_bytes',
  'egress_bytes',
  'events',
  'tokens',
  'money_micros',
] as const satisfies readonly Quota[];

const pageOf = (cursor: string | null) => `limit=50${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`;

export const admin = {
  health: () => askJson<Health>('v1/admin/health'),
  errors: async () => (await askJson<Schemas['Errors']>('v1/admin/errors')).codes,
  tenants: async () => (await askJson<Schemas['TenantList']>('v1/admin/tenants')).tenants,
  quotas: (name: string, quotas: Partial<Record<Quota, number | null>>) =>
    act<TenantView>(route`v1/admin/tenants/${name}/quotas`, { quotas }),
  isolation: (name: string, least: string | null) =>
    act<TenantView>(route`v1/admin/tenants/${name}/isolation`, { least }),
  keys: async () => (await askJson<Schemas['KeyList']>('v1/admin/keys')).keys,
  createKey: (key: Schemas['CreateKey']) => act<CreatedKey>('v1/admin/keys', key),
  revokeKey: (prefix: string) => ask(route`v1/admin/keys/${prefix}`, { method: 'DELETE' }),
  sessions: (cursor: string | null) => askJson<Schemas['AnySessionPage']>(`v1/admin/sessions?${pageOf(cursor)}`),
  endSession: (id: string) => ask(route`v1/admin/sessions/${id}`, { method: 'DELETE' }),
  runs: async () => (await askJson<Schemas['AnyRunList']>('v1/admin/runs')).runs,
  cancelRun: (id: string) => act(route`v1/admin/runs/${id}/cancel`),
  audit: (cursor: string | null) => askJson<Schemas['AuditPage']>(`v1/admin/audit?${pageOf(cursor)}`),
};
