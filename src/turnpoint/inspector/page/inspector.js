// Puts the page together: tools, list, detail, and what happens when the state changes.
(() => {
  const el = TP.el;
  const tools = document.getElementById('tools');
  const listBox = document.getElementById('list');
  const main = document.querySelector('main');
  const count = el('span', { class: 'muted', role: 'status', id: 'count' });
  const FILTER_KEYS = ['q', 'origin', 'step', 'type', 'end', 'mark', 'kind', 'sort'];

  const modes = Object.keys(TP.MODES).filter((mode) => mode === 'plain' || TP.episodes.some((e) => TP.hasMode(e, mode)));
  TP.usualMode = modes.includes('distance') ? 'distance' : modes[0];

  function distinct(value) {
    return [...new Set(TP.episodes.map(value))];
  }

  function choice(key, words, options) {
    if (options.length < 2) return null;
    const select = el('select', { 'aria-label': words, 'data-key': key, onchange: () => TP.set({ [key]: select.value }) },
      key in { kind: 1, sort: 1, colour: 1 } ? null : el('option', { value: '' }, `${words}: all`),
      options.map(([value, text]) => el('option', { value }, text)));
    return select;
  }

  const stops = distinct((e) => e.stop).filter(Boolean).sort();
  const steps = distinct((e) => e.step || 0).sort((a, b) => a - b);
  const marks = [['pivot', '◆ pivot named'], ['oracle', '▽ oracle pivot'], ['recovery', '⤷ recovery'], ['retry', '↻ retry'],
    ['invalid', '× no usable action'], ['lost', '∅ became unsolvable']].filter(([key]) => TP.episodes.some(TP.MARKS[key]));
  const search = el('input', { id: 'q', type: 'search', placeholder: 'search tasks and ids  ( / )', 'aria-label': 'search', autocomplete: 'off', spellcheck: 'false' });
  search.addEventListener('input', () => TP.set({ q: search.value }, true));
  const selects = [
    choice('origin', 'origin', distinct((e) => e.o).sort().map((o) => [o, TP.ORIGINS[o] || o])),
    choice('step', 'step', steps.map((s) => [String(s), `step ${s}`])),
    choice('type', 'type', distinct((e) => e.type || '').filter(Boolean).sort().map((t) => [t, t])),
    choice('end', 'ending', [['solved', '✓ solved'], ['failed', '✗ failed'], ['open', '■ no outcome'], ...stops.map((s) => [s, TP.STOPS[s] || s])]),
    marks.length ? choice('mark', 'marks', [...marks, ['', '']].slice(0, Math.max(2, marks.length))) : null,
    TP.episodes.some((e) => e.kind === 'recovery') ? choice('kind', 'kind', [['main', 'branches under their episodes'], ['all', 'branches listed too'], ['recovery', 'branches only']]) : null,
    choice('sort', 'order', [['order', 'in order'], ...(steps.length > 1 ? [['new', 'newest step first']] : []), ['reward', 'highest reward'], ['long', 'longest'], ['short', 'shortest'],
      ...(marks.some(([key]) => key === 'pivot' || key === 'oracle') ? [['pivot', 'earliest pivot']] : []), ...(modes.includes('gap') ? [['gap', 'widest teacher gap']] : [])]),
    choice('colour', 'colour by', [['', `colour: ${TP.MODES[TP.usualMode]}`], ...modes.filter((m) => m !== TP.usualMode).map((m) => [m, `colour: ${TP.MODES[m]}`])]),
  ];
  const clear = el('button', { type: 'button', class: 'chip', id: 'clear', onclick: () => TP.set(Object.fromEntries(FILTER_KEYS.map((key) => [key, TP.DEFAULTS[key]]))) }, 'clear');
  TP.add(tools, [search, el('details', { class: 'filters', open: innerWidth > 820 }, el('summary', {}, 'filters'), el('div', { class: 'selects' }, selects)), el('div', { class: 'state' }, count, clear)]);

  TP.nextColour = () => {
    const at = modes.indexOf(TP.state.colour || TP.usualMode);
    const next = modes[(at + 1) % modes.length];
    TP.set({ colour: next === TP.usualMode ? '' : next });
  };

  /** Open an entry at a turn; filters that hide it stay as they are. */
  TP.open = (entry, turn = '', quiet = false) =>
    TP.set({ e: TP.keyOf(entry), t: String(turn), ...(turn === '' ? {} : { tab: 'turns' }) }, quiet);

  function showTools() {
    if (search.value !== TP.state.q) search.value = TP.state.q;
    selects.filter(Boolean).forEach((select) => { select.value = TP.state[select.dataset.key]; });
    clear.hidden = FILTER_KEYS.every((key) => TP.state[key] === TP.DEFAULTS[key]);
  }

  function refresh(before) {
    const changed = (...keys) => !before || keys.some((key) => before[key] !== TP.state[key]);
    showTools();
    TP.openEntry = TP.state.e ? TP.find(TP.state.e) : undefined;
    if (TP.state.e && !TP.openEntry) count.title = 'the episode in the address is not on this page';
    if (changed(...FILTER_KEYS)) {
      const kept = TP.select();
      TP.setEntries(kept);
      if (before) listBox.scrollTop = 0;
      const judged = kept.filter((e) => e.success === true || e.success === false);
      const solved = judged.filter((e) => e.success).length;
      count.textContent = `${TP.plural(kept.length, 'episode')}` + (judged.length ? `, ${Math.round(100 * solved / judged.length)} % of ${judged.length.toLocaleString('en')} solved` : '');
    } else if (changed('colour')) TP.repaint();
    main.classList.toggle('opened', Boolean(TP.openEntry));
    if (changed('e')) TP.revealEntry(TP.openEntry);
    if (changed('e', 'tab', 'colour') || !TP.openEntry) TP.showDetail();
    else if (changed('t')) TP.showTurn();
  }

  document.getElementById('back').addEventListener('click', () => TP.set({ e: '', t: '' }));
  document.getElementById('before').addEventListener('click', () => TP.stepEntry(-1));
  document.getElementById('after').addEventListener('click', () => TP.stepEntry(1));
  document.getElementById('help').addEventListener('click', () => TP.help());
  document.getElementById('theme').addEventListener('click', () => TP.nextTheme());
  TP.makeList(listBox, (entry) => TP.open(entry));
  TP.makeDetail(document.getElementById('detail'));
  TP.onTheme(() => TP.showDetail());
  TP.onState(refresh);
  refresh(null);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
