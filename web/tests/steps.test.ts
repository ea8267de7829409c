import { render } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';

// Nothing is near the eye.
vi.hoisted(() =>
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      observe() {}
      unobserve() {}
    },
  ),
);

import StepView from '../src/components/StepView.svelte';
import type { Step } from '../src/run/model';

test('the last step says that it answered, wherever the eye is and however its reply was read', async () => {
  const step: Step = {
    number: 3,
    state: 'replied',
    thought: '',
    thinking: '',
    calls: [],
    answer: null,
    draft: null,
    error: null,
    tookMs: 0,
    tokens: 0,
    cost: null,
    takenBack: false,
    session: null,
    text: '',
    note: null,
    isUnclear: false,
    understood: false,
  };
  const show = (of: Partial<Step>, isAnswered: boolean, onNear = () => {}) =>
    render(StepView, {
      step: { ...step, ...of },
      dialect: undefined,
      isLast: true,
      isOver: true,
      isAnswered,
      line: null,
      onNear,
      onBranch: null,
    }).container.textContent;
  const onNear = vi.fn();
  expect(show({}, true, onNear)).toContain('Answered.');
  await vi.waitFor(() => expect(onNear).toHaveBeenCalled());
  // The budget was used up: this answer is not the run's.
  expect(show({ answer: '42' }, false)).not.toContain('Answered.');
});
