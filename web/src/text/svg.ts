// How large an SVG wants to be drawn. Its text is a program's: nothing of it is believed beyond some bounds.

const UNITS: Record<string, number> = { '': 1, px: 1, pt: 4 / 3, pc: 16, in: 96, cm: 96 / 2.54, mm: 96 / 25.4 };
const [LEAST, MOST] = [40, 2000];
const HEAD = 4000;

/** Width and height in pixels, by its attributes, or by its view box. */
export function svgSize(svg: string): { width: number; height: number } {
  const tag = /<svg\b[^>]*>/i.exec(svg.slice(0, HEAD))?.[0] ?? '';
  const length = (name: string): number => {
    const [, number, unit] =
      new RegExp(`\\s${name}\\s*=\\s*["']\\s*([\\d.]+)\\s*([a-z]*)\\s*["']`, 'i').exec(tag) ?? [];
    return Number(number) * (UNITS[unit?.toLowerCase() ?? ''] ?? NaN);
  };
  const box = /viewBox\s*=\s*["']\s*[-\d.e]+[\s,]+[-\d.e]+[\s,]+([\d.e]+)[\s,]+([\d.e]+)/i.exec(tag);
  const [boxWidth, boxHeight] = [Number(box?.[1]), Number(box?.[2])];
  const ratio = boxHeight > 0 && boxWidth > 0 ? boxHeight / boxWidth : 0.6;
  let [width, height] = [length('width'), length('height')];
  if (!(width > 0)) width = height > 0 ? height / ratio : 700;
  if (!(height > 0)) height = width * ratio;
  const bound = (value: number): number => Math.round(Math.min(MOST, Math.max(LEAST, value)));
  return { width: bound(width), height: bound(height) };
}
