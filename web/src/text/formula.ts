// Formulas in LaTeX, as MathML: without links, images, styles or any HTML of their own (attack E8).
import temml from 'temml';

/** Longer ones are shown as text. */
const LONGEST = 2000;

export type Formulas = (text: string, block: boolean) => Node | null;

/** The formula as an element; none if it can't be read. */
export const formulas: Formulas = (text, block) => {
  if (text.length > LONGEST) return null;
  const place = document.createElement('span');
  try {
    // `maxExpand` bounds macros, which may name themselves.
    temml.render(text, place, {
      displayMode: block,
      trust: false,
      throwOnError: true,
      maxExpand: 100,
      maxSize: [20, 20],
    });
  } catch {
    return null;
  }
  return place.firstChild;
};
