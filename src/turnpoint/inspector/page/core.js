'use strict';
// Shared by all pages. Text of models reaches the document through text nodes only.
const TP = {};

/** Element with attributes and children; strings become text nodes, null children are left out. */
TP.el = (tag, attributes, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'text') element.textContent = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  TP.add(element, children);
  return element;
};

TP.add = (element, children) => {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
};

/** SVG element; same rules as `el`. */
TP.svg = (tag, attributes, ...children) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, String(value));
  return TP.add(element, children);
};

TP.number = (value, digits = 3) => {
  if (value === null || value === undefined) return '–';
  const size = Math.abs(value);
  const text = size !== 0 && (size < 0.001 || size >= 1e5) ? value.toExponential(1) : String(+value.toPrecision(digits));
  return text.replace('-', '−');
};

TP.signed = (value, digits = 3) => (value > 0 ? '+' : '') + TP.number(value, digits);
TP.plural = (count, one, many) => `${count.toLocaleString('en')} ${count === 1 ? one : many || one + 's'}`;

TP.STOPS = {
  success: 'solved', failure: 'failed', max_turns: 'out of turns', depth_cap: 'stopped at the depth cap',
  out_of_support: 'stopped: out of support', context_limit: 'context full', branch_end: 'end of branch',
  time_out: 'time-out', env_error: 'environment error', restore_mismatch: 'state not reproduced',
};

/** [glyph, words, class] of how an episode ended. */
TP.outcome = (episode) => {
  const words = TP.STOPS[episode.stop] || episode.stop || 'not finished';
  if (episode.success === true) return ['✓', words, 'good'];
  if (episode.success === false) return ['✗', words, 'bad'];
  return ['■', words, 'none'];
};

/** Colours of the present theme as [r, g, b]. */
TP.palette = () => {
  if (TP._palette) return TP._palette;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => {
    const hex = style.getPropertyValue(name).trim().slice(1);
    return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
  };
  TP._palette = {};
  for (const name of ['pos', 'neg', 'flat', 'gone', 'panel', 'ink', 'muted', 'pivot', 'oracle', 'branch']) {
    TP._palette[name] = read('--' + name);
  }
  return TP._palette;
};

TP.mix = (from, to, share) => `rgb(${from.map((c, i) => Math.round(c + (to[i] - c) * share)).join(' ')})`;

const themeHooks = [];
/** Call `hook` when the colour scheme changes. */
TP.onTheme = (hook) => themeHooks.push(hook);
const rethemed = () => {
  TP._palette = null;
  themeHooks.forEach((hook) => hook());
};
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', rethemed);

/** Light, dark, and back to what the system says; remembered where the browser allows it. */
TP.nextTheme = () => {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const other = dark ? 'light' : 'dark';
  const root = document.documentElement;
  if (root.dataset.theme) delete root.dataset.theme;
  else root.dataset.theme = other;
  try { localStorage.setItem('turnpoint-theme', root.dataset.theme || ''); } catch { /* not allowed for this page */ }
  rethemed();
};
try {
  const kept = localStorage.getItem('turnpoint-theme');
  if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept;
} catch { /* not allowed for this page */ }
