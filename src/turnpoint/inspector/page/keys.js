// The keyboard: everything can be reached without a mouse.
(() => {
  const el = TP.el;
  const KEYS = [
    ['j  ↓ / k  ↑', 'next / previous episode'], ['l  → / h  ←', 'next / previous turn'], ['n / p', 'next / previous marked turn'],
    ['Enter', 'open or close the turn'], ['1 2 3', 'turns, group, side by side'], ['c', 'next colouring'], ['/', 'search'],
    ['Esc', 'back to the list'], ['?', 'this list'],
  ];

  function step(by) {
    const entries = TP.entries();
    if (!entries.length) return;
    const at = entries.indexOf(TP.openEntry);
    const next = at < 0 ? (by > 0 ? 0 : entries.length - 1) : Math.max(0, Math.min(entries.length - 1, at + by));
    TP.open(entries[next], '', true);
  }

  TP.stepEntry = step;

  function walk(by) {
    const entry = TP.openEntry;
    if (!entry || !entry.n) return;
    const from = TP.state.t === '' ? (by > 0 ? -1 : entry.n) : +TP.state.t;
    TP.set({ t: String(Math.max(0, Math.min(entry.n - 1, from + by))), tab: 'turns' }, true);
  }

  function walkMarked(by) {
    const entry = TP.openEntry;
    if (!entry) return;
    const marked = Array.from({ length: entry.n || 0 }, (_, t) => t).filter((t) => TP.marksOf(entry, t, TP.forkTurns(entry)).length);
    const from = TP.state.t === '' ? (by > 0 ? -1 : Infinity) : +TP.state.t;
    const next = by > 0 ? marked.find((t) => t > from) : marked.reverse().find((t) => t < from);
    if (next !== undefined) TP.set({ t: String(next), tab: 'turns' }, true);
  }

  function tab(number) {
    const tabs = document.querySelectorAll('#detail .tabs button');
    if (tabs[number]) tabs[number].click();
  }

  let dialog;
  TP.help = () => {
    if (!dialog) {
      dialog = el('dialog', { class: 'help', 'aria-label': 'keys' }, el('h2', {}, 'Keys'), el('dl', {}, KEYS.map(([key, words]) => [el('dt', {}, key), el('dd', {}, words)])),
        el('h2', {}, 'Marks'), TP.legend(), el('form', { method: 'dialog' }, el('button', { class: 'chip' }, 'close')));
      document.body.append(dialog);
    }
    dialog.showModal();
  };

  const ACTIONS = {
    j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1),
    l: () => walk(1), ArrowRight: () => walk(1), h: () => walk(-1), ArrowLeft: () => walk(-1),
    n: () => walkMarked(1), p: () => walkMarked(-1), 1: () => tab(0), 2: () => tab(1), 3: () => tab(2),
    c: () => TP.nextColour(), '?': () => TP.help(), Escape: () => TP.set({ e: '', t: '' }),
    '/': () => document.getElementById('q').focus(),
    Home: () => TP.entries()[0] && TP.open(TP.entries()[0]), End: () => TP.entries().length && TP.open(TP.entries()[TP.entries().length - 1]),
  };

  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (dialog && dialog.open)) return;
    const typing = event.target.closest('input, select, textarea');
    if (typing) {
      if (event.key === 'Escape' || (event.key === 'Enter' && typing.id === 'q')) { typing.blur(); event.preventDefault(); }
      return;
    }
    const action = ACTIONS[event.key];
    if (!action || (event.key.startsWith('Arrow') && event.target.closest('.tokens, pre, dialog'))) return;
    event.preventDefault();
    action();
  });
})();
