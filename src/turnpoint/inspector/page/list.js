// The list of episodes: only the rows in view exist.
(() => {
  const el = TP.el;
  const HEIGHT = 52;
  const SPARE = 6;
  let entries = [];
  const live = new Map();
  const spare = []; // canvases of rows that have left the view
  let box, spacer;

  TP.ORIGINS = { eval: 'held out', train: 'training', file: 'file' };
  TP.modeFor = (entry) => {
    const wanted = TP.state.colour || TP.usualMode;
    return TP.hasMode(entry, wanted) ? wanted : TP.bestMode(entry);
  };

  /** Build the list inside `target`; `onPick(entry)` is called on a click. */
  TP.makeList = (target, onPick) => {
    spacer = el('div', { class: 'spacer', role: 'presentation' });
    box = target;
    box.append(spacer);
    let asked = 0;
    const later = () => { if (!asked) asked = requestAnimationFrame(() => { asked = 0; paint(); }); };
    box.addEventListener('scroll', later, { passive: true });
    new ResizeObserver(() => { clear(); later(); }).observe(box);
    box.addEventListener('click', (event) => {
      const row = event.target.closest('.item');
      if (row) onPick(entries[+row.dataset.at]);
    });
    TP.onTheme(() => TP.repaint());
  };

  TP.repaint = () => { clear(); paint(); };
  TP.setEntries = (next) => { entries = next; spacer.style.height = `${entries.length * HEIGHT}px`; TP.repaint(); };
  TP.entries = () => entries;

  function clear() {
    live.forEach(drop);
  }

  function drop(row, at) {
    if (spare.length < 64) spare.push(row.querySelector('canvas'));
    row.remove();
    live.delete(at);
  }

  function paint() {
    const top = Math.max(0, Math.floor(box.scrollTop / HEIGHT) - SPARE);
    const end = Math.min(entries.length, Math.ceil((box.scrollTop + box.clientHeight) / HEIGHT) + SPARE);
    for (const [at, row] of live) if (at < top || at >= end) drop(row, at);
    const fresh = document.createDocumentFragment();
    const width = Math.max(80, box.clientWidth - 34);
    for (let at = top; at < end; at++) {
      if (live.has(at)) continue;
      const row = makeRow(entries[at], at, width);
      live.set(at, row);
      fresh.append(row);
    }
    spacer.append(fresh);
    mark();
  }

  function makeRow(entry, at, width) {
    const [glyph, words, name] = TP.outcome(entry);
    const own = TP.childrenOf(entry);
    const canvas = spare.pop() || el('canvas', { 'aria-hidden': 'true' });
    TP.miniStrip(canvas, entry, TP.modeFor(entry), width, TP.forkTurns(entry));
    const row = el('div', {
      class: 'item', role: 'option', id: `item-${at}`, 'data-at': at, 'aria-setsize': entries.length, 'aria-posinset': at + 1, 'aria-selected': 'false',
    },
    el('div', { class: 'first' },
      el('span', { class: 'end ' + name, title: words }, glyph, el('span', { class: 'sr' }, ` ${words}, `)),
      el('span', { class: 'name', dir: 'auto' }, (entry.kind === 'recovery' ? '⤷ ' : entry.attempt ? `↻${entry.attempt} ` : '') + entry.title),
      el('span', { class: 'aside' }, entry.o === 'file' ? `${entry.n || 0}` : `${entry.o === 'eval' ? 'eval' : 'step'} ${entry.step || 0}`,
        own.length ? ` ⤷${own.length}` : '')),
    canvas);
    row.style.transform = `translateY(${at * HEIGHT}px)`;
    return row;
  }

  function mark() {
    const open = TP.openEntry;
    live.forEach((row, at) => row.setAttribute('aria-selected', String(entries[at] === open)));
    const at = open ? entries.indexOf(open) : -1;
    if (at >= 0 && live.has(at)) box.setAttribute('aria-activedescendant', `item-${at}`);
    else box.removeAttribute('aria-activedescendant');
  }

  /** Show which entry is open and bring it into view. */
  TP.revealEntry = (entry) => {
    const at = entries.indexOf(entry);
    if (at >= 0) {
      const y = at * HEIGHT;
      if (y < box.scrollTop || y + HEIGHT > box.scrollTop + box.clientHeight) {
        box.scrollTop = Math.max(0, y - (box.clientHeight - HEIGHT) / 2);
      }
      paint();
    }
    mark();
  };
})();
