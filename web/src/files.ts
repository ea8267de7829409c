import type { Preview } from './text/preview';

/** A file that a run is to start with: one of this computer, or one of a session. */
export interface ChosenFile {
  name: string;
  size: number;
  preview: Preview;
  source: { file: File } | { session: string; path: string };
}

export async function base64(file: Blob): Promise<string> {
  const all = new Uint8Array(await file.arrayBuffer());
  let binary = '';
  // In parts: a call has only so many arguments.
  for (let at = 0; at < all.length; at += 0x8000) binary += String.fromCharCode(...all.subarray(at, at + 0x8000));
  return btoa(binary);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
