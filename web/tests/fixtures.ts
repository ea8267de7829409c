// Streams of real runs, as the service sent them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { EventCutter, type StreamEvent } from '../src/api/stream';
import type { StepPage } from '../src/api/types';

const path = (name: string): string => join(import.meta.dirname, 'fixtures', name);

export const streamOf = (name: string): string => readFileSync(path(`${name}.sse`), 'utf8');
export const eventsOf = (name: string): StreamEvent[] => new EventCutter().push(streamOf(name));
export const stepsOf = (name: string): StepPage =>
  JSON.parse(readFileSync(path(`${name}.steps.json`), 'utf8')) as StepPage;
