// Generated from crates/belljar-protocol/src/mime.rs by its example `mime_tables`. Do not edit it by hand.

export interface MimeType {
  mime: string;
  extensions: string[];
  view: 'table' | 'image' | 'svg' | 'html' | 'markdown' | 'text' | null;
  notebook: boolean;
}

/** Of the representations of a display, the first in this order is shown. */
export const MIME_TYPES: readonly MimeType[] = [
  { mime: 'application/vnd.belljar.table+json', extensions: [], view: 'table', notebook: false },
  { mime: 'image/png', extensions: ['png'], view: 'image', notebook: true },
  { mime: 'image/jpeg', extensions: ['jpg', 'jpeg'], view: 'image', notebook: true },
  { mime: 'image/gif', extensions: ['gif'], view: 'image', notebook: false },
  { mime: 'image/webp', extensions: ['webp'], view: 'image', notebook: false },
  { mime: 'image/svg+xml', extensions: ['svg'], view: 'svg', notebook: true },
  { mime: 'text/html', extensions: ['html'], view: 'html', notebook: true },
  { mime: 'text/markdown', extensions: ['md'], view: 'markdown', notebook: true },
  { mime: 'text/latex', extensions: ['tex'], view: 'text', notebook: true },
  { mime: 'application/json', extensions: ['json', 'map'], view: 'text', notebook: false },
  { mime: 'text/plain', extensions: ['txt'], view: 'text', notebook: true },
  { mime: 'text/csv', extensions: ['csv'], view: null, notebook: false },
  { mime: 'text/tab-separated-values', extensions: ['tsv'], view: null, notebook: false },
  { mime: 'text/css', extensions: ['css'], view: null, notebook: false },
  { mime: 'text/javascript', extensions: ['js', 'mjs'], view: null, notebook: false },
  { mime: 'text/x-python', extensions: ['py'], view: null, notebook: false },
  { mime: 'application/x-ipynb+json', extensions: ['ipynb'], view: null, notebook: false },
  { mime: 'application/manifest+json', extensions: ['webmanifest'], view: null, notebook: false },
  { mime: 'application/pdf', extensions: ['pdf'], view: null, notebook: true },
  { mime: 'image/x-icon', extensions: ['ico'], view: null, notebook: false },
  { mime: 'font/woff2', extensions: ['woff2'], view: null, notebook: false },
];
