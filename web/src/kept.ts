// What this tab of the browser remembers over a reload. Nothing where it may not remember anything.

export function kept<T>(name: string): T | null {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? 'null') as T | null;
  } catch {
    return null;
  }
}

export function keep(name: string, value: unknown): void {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // Then it is gone after a reload.
  }
}

/** Forgets one. */
export function drop(name: string): void {
  try {
    sessionStorage.removeItem(name);
  } catch {
    // Then nothing was remembered.
  }
}

/** Forgets all whose names begin so. */
export function forget(prefix: string): void {
  try {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith(prefix)) drop(name);
  } catch {
    // Then nothing was remembered.
  }
}
