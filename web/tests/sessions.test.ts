// The list of sessions of a cluster names the nodes whose sessions are missing.
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, expect, test, vi } from 'vitest';
import { account } from '../src/account.svelte';
import type { Me } from '../src/api/types';
import { drafts } from '../src/drafts.svelte';
import { language } from '../src/i18n/index.svelte';
import Sessions from '../src/pages/Sessions.svelte';

const { list } = vi.hoisted(() => ({ list: vi.fn() }));
vi.mock('../src/api/service', () => ({ sessions: { list } }));

afterEach(() => {
  cleanup();
  language.code = 'en';
});

test('nodes that did not answer are named, over all pages', async () => {
  account.me = { scopes: ['sessions'], environments: ['default'], isolation: [] } as unknown as Me;
  account.state = 'in';
  list.mockResolvedValueOnce({ sessions: [], next_cursor: 'x' });
  render(Sessions);
  await screen.findByText('No sessions yet.');
  expect(screen.queryByRole('status')).toBeNull();
  cleanup();

  const session = { id: 'a-1', created_at: 1, state: 'awake', cells: 0 };
  list.mockResolvedValueOnce({ sessions: [session], next_cursor: 'x', unanswered: ['5d1c09aa'] });
  list.mockResolvedValueOnce({ sessions: [], unanswered: ['5d1c09aa', 'b2e47f31'] });
  render(Sessions);
  await waitFor(() => expect(screen.getByRole('status').textContent).toContain('listed: 5d1c09aa'));
  await fireEvent.click(screen.getByRole('button', { name: 'Show more' }));
  await waitFor(() => expect(screen.getByRole('status').textContent).toContain('listed: 5d1c09aa, b2e47f31'));
  language.code = 'zh';
  await waitFor(() => expect(screen.getByRole('status').textContent).toContain('没有响应'));
});

test('clearing a draft keeps other drafts with the same prefix', () => {
  drafts.write('session.1', 'new code');
  drafts.write('session.1.cell-2', 'changed code');
  drafts.write('session.1', '');
  expect([drafts.read('session.1'), drafts.read('session.1.cell-2')]).toEqual(['', 'changed code']);
});
