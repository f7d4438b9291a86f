// What is shown while no episode is open: outcomes by task type, and what the marks mean.
(() => {
  const el = TP.el;
  const share = (part, whole) => (whole ? `${Math.round(100 * part / whole)} %` : '–');

  function rows(entries) {
    const types = new Map();
    for (const entry of entries) {
      const key = entry.type || '(no type)';
      if (!types.has(key)) types.set(key, []);
      types.get(key).push(entry);
    }
    const named = [...types.entries()].sort((a, b) => a[0].localeCompare(b[0]));
    return [...(named.length > 1 ? [['all', entries]] : []), ...named];
  }

  function row([name, entries]) {
    const judged = entries.filter((e) => e.success === true || e.success === false);
    const solved = judged.filter((e) => e.success).length;
    const pivotal = entries.filter((e) => (e.oracle || []).length || (e.pivots || []).length).length;
    const turns = entries.reduce((sum, e) => sum + (e.n || 0), 0) / Math.max(1, entries.length);
    const bar = TP.svg('svg', { class: 'bar', viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      TP.svg('rect', { class: 'mark s0', width: judged.length ? 100 * solved / judged.length : 0, height: 8 }));
    return el('tr', {}, el('th', { dir: 'auto' }, name), el('td', {}, entries.length.toLocaleString('en')), el('td', {}, bar),
      el('td', {}, share(solved, judged.length)), el('td', {}, share(pivotal, entries.length)), el('td', {}, turns.toFixed(1)));
  }

  /** Figures of the episodes that pass the filters. */
  TP.overview = () => {
    const entries = TP.entries();
    return el('div', { class: 'overview' },
      el('h2', {}, 'The episodes on the left'),
      el('div', { class: 'scroll' }, el('table', {}, el('thead', {}, el('tr', {}, ['task type', 'episodes', '', 'solved', 'with a pivot', 'turns'].map((words) => el('th', {}, words)))),
        el('tbody', {}, rows(entries).slice(0, 60).map(row)))),
      el('h2', {}, 'Marks'), TP.legend(),
      el('p', { class: 'muted' }, 'j and k walk through episodes, h and l through turns; ? shows all keys. The address keeps what you see.'));
  };
})();
