// What is shown, kept in the address bar: filters, order, colour, the open episode, its tab and turn.
(() => {
  const DEFAULTS = { q: '', origin: '', step: '', type: '', end: '', mark: '', kind: 'main', sort: 'order', colour: '', e: '', tab: 'turns', t: '' };
  TP.DEFAULTS = DEFAULTS;
  TP.state = { ...DEFAULTS };
  const hooks = [];
  TP.onState = (hook) => hooks.push(hook);

  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    const next = { ...DEFAULTS };
    for (const key of Object.keys(DEFAULTS)) if (given.has(key)) next[key] = given.get(key);
    return next;
  }

  TP.hashOf = (state) => {
    const kept = Object.entries(state).filter(([key, value]) => value !== DEFAULTS[key]);
    return '#' + new URLSearchParams(kept).toString();
  };

  let queued = 0;
  /** Change some keys; `quiet` ones (typing, walking along turns) replace the history entry. */
  TP.set = (changes, quiet) => {
    const before = TP.state;
    TP.state = { ...before, ...changes };
    if (Object.keys(changes).every((key) => before[key] === TP.state[key])) return;
    // Browsers limit how often the address may change; the last state wins.
    if (!quiet) history.pushState(null, '', TP.hashOf(TP.state));
    else if (!queued) queued = setTimeout(() => { queued = 0; history.replaceState(null, '', TP.hashOf(TP.state)); }, 150);
    hooks.forEach((hook) => hook(before));
  };

  function adopt() {
    const before = TP.state;
    TP.state = read();
    hooks.forEach((hook) => hook(before));
  }
  addEventListener('popstate', adopt);
  addEventListener('hashchange', () => { if (location.hash !== TP.hashOf(TP.state) && !queued) adopt(); });
  TP.state = read();

  TP.ENDS = {
    solved: (e) => e.success === true, failed: (e) => e.success === false,
    open: (e) => e.success !== true && e.success !== false,
  };
  TP.MARKS = {
    pivot: (e) => (e.pivots || []).length > 0, oracle: (e) => (e.oracle || []).length > 0,
    recovery: (e) => e.kind === 'recovery' || TP.childrenOf(e).length > 0, retry: (e) => (e.attempt || 0) > 0,
    invalid: (e) => (e.invalid || []).length > 0, lost: (e) => (e.distances || []).includes(null),
  };
  const first = (list) => (list && list.length ? list[0] : Infinity);
  const mean = (list) => {
    const known = (list || []).filter((v) => v !== null);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : Infinity;
  };
  TP.SORTS = {
    order: null,
    new: (a, b) => (b.step || 0) - (a.step || 0),
    reward: (a, b) => (b.reward || 0) - (a.reward || 0),
    long: (a, b) => (b.n || 0) - (a.n || 0),
    short: (a, b) => (a.n || 0) - (b.n || 0),
    pivot: (a, b) => first(a.oracle || a.pivots) - first(b.oracle || b.pivots),
    gap: (a, b) => mean(a.gaps) - mean(b.gaps),
  };

  /** Entries that pass the filters, in order. */
  TP.select = () => {
    const s = TP.state;
    const words = s.q.toLowerCase().split(/\s+/).filter(Boolean);
    const end = TP.ENDS[s.end];
    const mark = TP.MARKS[s.mark];
    const kept = TP.episodes.filter((e) =>
      (s.kind === 'all' || (s.kind === 'main' ? e.kind !== 'recovery' || !TP.parentOf(e) : e.kind === s.kind))
      && (!s.origin || e.o === s.origin) && (!s.step || String(e.step || 0) === s.step) && (!s.type || (e.type || '') === s.type)
      && (!end || end(e)) && (!s.end || end || e.stop === s.end) && (!mark || mark(e))
      && words.every((word) => text(e).includes(word)));
    const order = TP.SORTS[s.sort];
    // Infinity - Infinity is NaN: entries without the figure keep their order at the end.
    return order ? kept.sort((a, b) => order(a, b) || a.index - b.index) : kept;
  };
  const text = (e) => e.text || (e.text = `${e.id} ${e.title} ${e.task} ${e.type || ''} ${TP.STOPS[e.stop] || ''}`.toLowerCase());
})();
