// All tests, with one service.
import { after } from 'node:test';
import { service } from './service.mjs';
import './sessions.mjs';
import './options.mjs';
import './files.mjs';
import './commands.mjs';
import './ports.mjs';
import './runs.mjs';
import './failures.mjs';
import './parts.mjs';
import './examples.mjs';

after(() => service.stop());
