// The clipboard, also where the page has no TLS: browsers offer theirs in secure contexts alone.

/** Copies a text; whether it worked. */
export async function copy(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // It may be allowed the old way.
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.style.position = 'fixed';
  area.style.opacity = '0';
  // In a dialog that is open, nothing outside of it can have the focus.
  const before = document.activeElement;
  (before?.closest('dialog') ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand?.('copy') ?? false;
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return isCopied;
}
