// xterm.js, drawn as DOM elements, with colours of the page. Its style elements are within the policy of the page.
import { FitAddon } from '@xterm/addon-fit';
import { type ITheme, Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';

const COLOURS: Record<keyof ITheme & string, string> = {
  background: '--paper',
  foreground: '--ink',
  cursor: '--ink',
  cursorAccent: '--paper',
  selectionBackground: '--line-strong',
  black: '--terminal-black',
  red: '--bad',
  green: '--good',
  yellow: '--waiting',
  blue: '--model',
  magenta: '--restored',
  cyan: '--accent',
  white: '--terminal-white',
  brightBlack: '--ink-faint',
  brightRed: '--bad',
  brightGreen: '--good',
  brightYellow: '--waiting',
  brightBlue: '--model',
  brightMagenta: '--restored',
  brightCyan: '--accent',
  brightWhite: '--ink',
} as Record<string, string>;

/** The colours that hold now: a variable alone would still have one for each scheme. */
function coloursOf(host: HTMLElement): ITheme {
  const probe = document.createElement('span');
  host.append(probe);
  const entries = Object.entries(COLOURS).map(([name, variable]) => {
    probe.style.color = `var(${variable})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return Object.fromEntries(entries) as ITheme;
}

export interface TerminalHandlers {
  onType(text: string): void;
  onResize(size: { rows: number; columns: number }): void;
  /** F6: the keyboard goes back to the page. */
  onLeave(): void;
}

export interface TerminalScreen {
  readonly size: { rows: number; columns: number };
  write(text: string): void;
  reset(): void;
  focus(): void;
  recolour(): void;
  /** What follows was written before somebody was here: questions in it are not answered again, until a key is pressed. */
  replay(): void;
  destroy(): void;
}

export function makeTerminal(host: HTMLElement, label: string, handlers: TerminalHandlers): TerminalScreen {
  const style = getComputedStyle(host);
  const terminal = new Terminal({
    fontFamily: style.fontFamily,
    fontSize: parseFloat(style.fontSize),
    scrollback: 5000,
    minimumContrastRatio: 4.5,
    screenReaderMode: true,
    theme: coloursOf(host),
    // Links are named by the program: nobody is led anywhere.
    linkHandler: { activate: () => {} },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);

  let replays = false;
  const isOld = () => replays;
  const asks = (data: string) => replays && data.includes('?');
  const { parser } = terminal;
  for (const id of [
    { final: 'c' },
    { prefix: '>', final: 'c' },
    { prefix: '=', final: 'c' },
    { final: 'n' },
    { prefix: '?', final: 'n' },
    { intermediates: '$', final: 'p' },
    { prefix: '?', intermediates: '$', final: 'p' },
  ])
    parser.registerCsiHandler(id, isOld);
  parser.registerDcsHandler({ intermediates: '$', final: 'q' }, isOld);
  for (const id of [4, 10, 11, 12]) parser.registerOscHandler(id, asks);

  terminal.onData(handlers.onType);
  terminal.onResize(({ rows, cols }) => handlers.onResize({ rows, columns: cols }));
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.type !== 'keydown') return true;
    replays = false;
    if (event.key === 'F6' && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      handlers.onLeave();
      return false;
    }
    // With a selection it copies, and the next one interrupts.
    if (event.ctrlKey && !event.shiftKey && event.key === 'c' && terminal.hasSelection()) {
      setTimeout(() => terminal.clearSelection());
      return false;
    }
    return true;
  });
  terminal.open(host);
  terminal.textarea?.setAttribute('aria-label', label);
  fit.fit();
  // Hidden, it has no size.
  const watcher = new ResizeObserver(() => host.clientHeight > 0 && fit.fit());
  watcher.observe(host);

  return {
    get size() {
      return { rows: terminal.rows, columns: terminal.cols };
    },
    write: (text) => terminal.write(text),
    reset: () => terminal.reset(),
    focus: () => terminal.focus(),
    recolour: () => (terminal.options.theme = coloursOf(host)),
    replay: () => (replays = true),
    destroy: () => (watcher.disconnect(), terminal.dispose()),
  };
}
