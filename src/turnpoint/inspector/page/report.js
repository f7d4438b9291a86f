// The episodes of a report: a list to filter, each row opening in place.
(() => {
  const el = TP.el;
  const data = JSON.parse(document.getElementById('episodes').textContent);
  const root = document.getElementById('browser');
  if (!root) return;
  const branches = new Map();
  for (const episode of data.train) {
    if (episode.kind === 'recovery' && episode.fork) {
      branches.set(episode.fork[0], [...(branches.get(episode.fork[0]) || []), episode]);
    }
  }
  const rows = [...data.eval.map((e) => ['eval', e]), ...data.train.filter((e) => e.kind !== 'recovery').map((e) => ['train', e])];
  const hasPivot = (e) => (e.pivots || []).length + (e.oracle || []).length > 0;
  const FILTERS = {
    all: ['all', () => true],
    eval: ['held out', (origin) => origin === 'eval'],
    train: ['training', (origin) => origin === 'train'],
    solved: ['✓ solved', (_, e) => e.success === true],
    failed: ['✗ failed', (_, e) => e.success === false],
    pivot: ['◆ ▽ with a pivot', (_, e) => hasPivot(e)],
    recovery: ['⤷ with a recovery', (_, e) => branches.has(e.id)],
  };
  const modes = Object.keys(TP.MODES).filter((mode) => rows.some(([, e]) => TP.hasMode(e, mode)));
  let mode = modes[0] || 'plain';
  if (modes.includes('distance') && rows.length && TP.bestMode(rows[0][1]) === 'distance') mode = 'distance';
  let filter = 'all';

  const list = el('div', { class: 'rows' });
  const count = el('span', { class: 'muted', role: 'status' });
  const filterButtons = Object.entries(FILTERS).filter(([key, [, test]]) => key === 'all' || rows.some(([o, e]) => test(o, e)))
    .map(([key, [words]]) => el('button', { type: 'button', class: 'chip', 'data-key': key, onclick: () => { filter = key; draw(); } }, words));
  const modeBox = el('select', { 'aria-label': 'colour turns by', onchange: () => { mode = modeBox.value; draw(); } },
    modes.map((name) => el('option', { value: name, selected: name === mode }, TP.MODES[name])));
  TP.add(root, [el('div', { class: 'tools' }, el('div', { class: 'chips' }, filterButtons),
    el('label', {}, 'colour by ', modeBox), count), list]);

  function row(origin, episode) {
    const [glyph, words, name] = TP.outcome(episode);
    const own = branches.get(episode.id) || [];
    const forks = own.map((branch) => branch.fork[1] - 1);
    const shown = TP.hasMode(episode, mode) ? mode : TP.bestMode(episode);
    const canvas = el('canvas', { 'aria-hidden': 'true' });
    const width = Math.min(11 * (episode.n || 1) + 2, Math.max(120, Math.min(root.clientWidth - 40, 420)));
    TP.miniStrip(canvas, episode, shown, width, forks);
    const details = el('details', { class: 'row' }, el('summary', {},
      el('span', { class: 'end ' + name, title: words }, glyph, el('span', { class: 'sr' }, words)),
      el('span', { class: 'origin' }, origin === 'eval' ? 'held out' : `step ${episode.step || 0}`),
      el('span', { class: 'name', dir: 'auto' }, episode.instruction || episode.task),
      canvas,
      el('span', { class: 'muted' }, TP.plural(episode.n || 0, 'turn'), own.length ? ` · ⤷ ${own.length}` : '')));
    details.addEventListener('toggle', () => {
      if (details.open && !details.querySelector('.pane')) details.append(TP.episodePane(episode, own, shown));
    });
    return details;
  }

  function draw() {
    filterButtons.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.key === filter)));
    const kept = rows.filter(([origin, episode]) => FILTERS[filter][1](origin, episode));
    count.textContent = TP.plural(kept.length, 'episode') + (data.leftOut ? `; ${data.leftOut} more are too large for this page` : '');
    list.replaceChildren(...kept.map(([origin, episode]) => row(origin, episode)));
  }
  TP.onTheme(draw);
  draw();
})();
