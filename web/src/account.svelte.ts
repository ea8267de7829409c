// Who uses the page, and what the service lets them do.
import { onLoggedOut, Problem } from './api/client';
import * as service from './api/service';
import type { Me } from './api/types';
import { forgetDrafts } from './drafts.svelte';

class Account {
  /** Nothing as long as the service was not asked. */
  me = $state.raw<Me | null>(null);
  state = $state<'asking' | 'in' | 'out' | 'unreachable'>('asking');

  constructor() {
    onLoggedOut(() => {
      this.me = null;
      this.state = 'out';
    });
  }

  async find(): Promise<void> {
    try {
      this.me = await service.me();
      this.state = 'in';
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 401) this.state = 'out';
      else this.state = 'unreachable';
    }
  }

  async logout(): Promise<void> {
    await service.logout().catch(() => {});
    forgetDrafts();
    this.me = null;
    this.state = 'out';
  }

  may(scope: string): boolean {
    return this.me?.scopes.includes(scope) ?? false;
  }
}

export const account = new Account();
