// Several environments and isolation tiers: sessions and runs choose one of them, and nothing is chosen where there is one.
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { account } from '../src/account.svelte';
import type { Me } from '../src/api/types';
import Ask from '../src/pages/Ask.svelte';
import Sessions from '../src/pages/Sessions.svelte';

const { createRun, createSession } = vi.hoisted(() => ({
  createRun: vi.fn(() => Promise.resolve({ id: 'r-1' })),
  createSession: vi.fn(() => Promise.resolve({ id: 's-1' })),
}));
vi.mock('../src/api/service', () => ({
  runs: { list: () => Promise.resolve({ runs: [] }), create: createRun },
  sessions: { list: () => Promise.resolve({ sessions: [] }), create: createSession },
}));

function offers(environments: string[], isolation: Partial<Me['isolation'][number]>[] = []): void {
  account.me = { scopes: ['runs', 'sessions'], models: ['a/b'], environments, isolation } as unknown as Me;
  account.state = 'in';
}

afterEach(cleanup);
beforeEach(() => {
  createRun.mockClear();
  createSession.mockClear();
});

test('a session starts in the chosen environment', async () => {
  offers(['default', 'math']);
  render(Sessions);
  const button = screen.getByRole('button', { name: 'New session' });
  await fireEvent.click(button);
  await waitFor(() => expect(createSession).toHaveBeenLastCalledWith({}));
  await fireEvent.change(screen.getByLabelText('Environment'), { target: { value: 'math' } });
  await fireEvent.click(button);
  await waitFor(() => expect(createSession).toHaveBeenLastCalledWith({ environment: 'math' }));
});

test('a run starts in the chosen environment', async () => {
  offers(['default', 'math']);
  const { container } = render(Ask);
  const form = container.querySelector('form');
  if (!form) throw new Error('no form');
  const type = () => fireEvent.input(container.querySelector('textarea') ?? form, { target: { value: 'Count.' } });
  await type();
  await fireEvent.submit(form);
  await waitFor(() => expect(createRun).toHaveBeenCalledOnce());
  expect(createRun).toHaveBeenLastCalledWith(expect.not.objectContaining({ environment: expect.anything() }));
  await fireEvent.change(screen.getByLabelText('Environment'), { target: { value: 'math' } });
  // What was asked is not asked again by mistake.
  await type();
  await fireEvent.submit(form);
  await waitFor(() => expect(createRun).toHaveBeenCalledTimes(2));
  expect(createRun).toHaveBeenLastCalledWith(expect.objectContaining({ task: 'Count.', environment: 'math' }));
});

test('one environment is no choice', () => {
  offers(['default']);
  render(Sessions);
  render(Ask);
  expect(screen.queryByLabelText('Environment')).toBeNull();
  expect(screen.queryByLabelText('Isolation')).toBeNull();
});

const TIERS = [
  { name: 'full', environments: ['default'] },
  { name: 'gvisor', environments: ['default'] },
  { name: 'container', environments: ['analysis'] },
] as const;
const offerTiers = () =>
  offers(
    ['default', 'analysis'],
    TIERS.map((tier) => ({ ...tier, environments: [...tier.environments] })),
  );

test('a session has the chosen isolation, of those of its environment', async () => {
  offerTiers();
  render(Sessions);
  const create = async (asked: object) => {
    await fireEvent.click(screen.getByRole('button', { name: 'New session' }));
    await waitFor(() => expect(createSession).toHaveBeenLastCalledWith(asked));
  };
  await create({ isolation: 'full' });
  await fireEvent.change(screen.getByLabelText('Isolation'), { target: { value: 'gvisor' } });
  await create({ isolation: 'gvisor' });
  await fireEvent.change(screen.getByLabelText('Environment'), { target: { value: 'analysis' } });
  // It has one.
  expect(screen.queryByLabelText('Isolation')).toBeNull();
  await create({ environment: 'analysis' });
});

test('a run has the chosen isolation', async () => {
  offerTiers();
  const { container } = render(Ask);
  const form = container.querySelector('form');
  if (!form) throw new Error('no form');
  await fireEvent.input(container.querySelector('textarea') ?? form, { target: { value: 'Count.' } });
  await fireEvent.change(screen.getByLabelText('Isolation'), { target: { value: 'gvisor' } });
  await fireEvent.submit(form);
  await waitFor(() => expect(createRun).toHaveBeenCalledOnce());
  expect(createRun).toHaveBeenLastCalledWith(expect.objectContaining({ task: 'Count.', isolation: 'gvisor' }));
});
