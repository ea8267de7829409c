// Hover and focus: each control keeps its label readable, and shows that it has the keyboard.
import assert from 'node:assert/strict';

/** Runs in the page: what is wrong with the controls that are hovered over now, or have the keyboard. */
function lookAt(element, state) {
  // As it is when transitions have ended; what never ends is no transition.
  const settle = () => {
    void getComputedStyle(element).color;
    for (const one of document.getAnimations()) if (one instanceof CSSTransition) one.finish();
  };
  settle();
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const draw = canvas.getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    draw.clearRect(0, 0, 1, 1);
    draw.fillStyle = colour;
    draw.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = draw.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, bottom) => [0, 1, 2].map((at) => top[at] * top[3] + bottom[at] * (1 - top[3])).concat(1);
  const ground = (of) => {
    const layers = [];
    for (let one = of; one; one = one.parentElement) {
      layers.push(rgba(getComputedStyle(one).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const light = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue]
      .map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((left, right) => right - left);
    return (high + 0.05) / (low + 0.05);
  };
  const name = (element.getAttribute('aria-label') ?? element.textContent).trim().slice(0, 40);
  if (state === 'focus') {
    element.focus();
    if (element !== document.activeElement) return null;
    settle();
    for (let one = element; one && one.id !== 'content'; one = one.parentElement) {
      const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(one);
      if (outlineStyle === 'none' || parseFloat(outlineWidth) < 1) continue;
      const ratio = contrast(over(rgba(outlineColor), ground(one.parentElement)), ground(one.parentElement));
      return ratio >= 3 ? null : `${name}: its outline has a contrast of ${ratio.toFixed(1)}`;
    }
    return `${name}: nothing shows that it has the keyboard`;
  }
  for (const one of [element, ...element.querySelectorAll('*')]) {
    const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '');
    const box = one.getBoundingClientRect();
    if (!hasText || box.width < 2 || getComputedStyle(one).visibility === 'hidden') continue;
    let opacity = 1;
    for (let at = one; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const [red, green, blue, alpha] = rgba(getComputedStyle(one).color);
    const below = ground(one);
    const ratio = contrast(over([red, green, blue, alpha * opacity], below), below);
    if (ratio < 4.5) return `${name}: its text has a contrast of ${ratio.toFixed(1)}`;
  }
  return null;
}

const CONTROLS = 'a[href], button:not(:disabled), summary, select, textarea, input:not([type=file]), [tabindex="0"]';

/** The most controls that are looked at of those with the same classes. */
const ALIKE = 3;

/** Hovers over each control of a page and gives it the keyboard, in both colour schemes. */
export async function hoverAll(page, where) {
  const wrong = [];
  let count = 0;
  for (const colorScheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme });
    await page.keyboard.press('Shift');
    const kinds = new Map();
    for (const control of await page.locator(CONTROLS).elementHandles()) {
      // In sight, and nothing else on top of it. Of controls that look alike, some.
      const found = await control.evaluate((element) => {
        element.scrollIntoView({ block: 'center', behavior: 'instant' });
        const { x, y, width, height } = element.getBoundingClientRect();
        const place = [x + width / 2, y + height / 2];
        const isThere = width > 2 && element.contains(document.elementFromPoint(...place));
        return isThere
          ? { place, kind: `${element.tagName} ${element.className} ${element.parentElement.className}` }
          : null;
      });
      const seen = kinds.get(found?.kind) ?? 0;
      if (!found || seen >= ALIKE) continue;
      kinds.set(found.kind, seen + 1);
      count += 1;
      await page.mouse.move(...found.place);
      for (const state of ['hover', 'focus']) {
        const what = await control.evaluate(lookAt, state);
        if (what) wrong.push(`${where}, ${colorScheme}: ${what}`);
      }
    }
  }
  await page.emulateMedia({ colorScheme: null });
  await page.mouse.move(0, 0);
  assert.ok(count > 4, `${where}: only ${count} controls`);
  assert.deepEqual(wrong, []);
  return count;
}
