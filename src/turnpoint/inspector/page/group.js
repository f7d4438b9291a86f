// A group: all episodes of one task in one step, aligned by turn, with shared beginnings drawn once.
(() => {
  const el = TP.el;

  /** What makes a turn the same turn: what was seen and what was done. */
  const stepKey = (turn) => `${turn.executed || turn.action || ''}\n${turn.obs[0]}`;

  /** Full path of an episode as keys; a branch begins with its parent's. */
  function pathOf(detail, details, depth = 0) {
    const own = detail.turns.map(stepKey);
    const start = TP.ownStart(detail);
    if (!start) return own;
    const parent = [...details.values()].find((d) => d && d.id === detail.fork[0] && d !== detail);
    const before = parent && depth < 20 ? pathOf(parent, details, depth + 1).slice(0, start) : [];
    return [...before, ...Array(start - before.length).fill(null), ...own];
  }

  /** Rows sorted so that shared beginnings are neighbours; `shared` turns equal those of the row above. */
  TP.alignGroup = (entries, details) => {
    const rows = entries.filter((e) => details.get(e)).map((entry) => ({ entry, detail: details.get(entry), path: pathOf(details.get(entry), details) }));
    const sorted = branchOut(rows, 0);
    sorted.forEach((row, at) => {
      const above = at ? sorted[at - 1].path : [];
      row.shared = 0;
      while (row.shared < row.path.length && row.path[row.shared] !== null && row.path[row.shared] === above[row.shared]) row.shared++;
    });
    return sorted;
  };

  const ENDED = Symbol('ended');

  function branchOut(rows, turn) {
    for (; rows.length > 1; turn++) {
      const parts = new Map();
      for (const row of rows) {
        const key = turn < row.path.length ? row.path[turn] : ENDED;
        if (parts.has(key)) parts.get(key).push(row);
        else parts.set(key, [row]);
      }
      const ended = parts.get(ENDED) || [];
      parts.delete(ENDED);
      if (ended.length || parts.size > 1) return [...ended, ...[...parts.values()].flatMap((part) => branchOut(part, turn + 1))];
    }
    return rows;
  }

  function cells(row, mode, scale, onPick) {
    const { entry, detail } = row;
    const start = TP.ownStart(detail);
    return row.path.map((_, turn) => {
      const own = turn - start;
      if (own < 0) return el('span', { class: 'gcell before', title: `turn ${turn}: of ${detail.fork[0]}` }, '');
      const cell = TP.cellOf(entry, own, mode, scale);
      const marks = TP.marksOf(entry, own, TP.forkTurns(entry));
      const same = turn < row.shared;
      const words = [`turn ${turn}`, detail.turns[own] ? detail.turns[own].action ?? 'no usable action' : '', cell.words,
        same ? 'same as above' : '', ...marks.map((mark) => mark[2])].filter(Boolean).join(', ');
      const button = el('button', { type: 'button', class: 'gcell' + (same ? ' same' : '') + (turn === row.shared && row.shared ? ' parting' : ''),
        title: words, 'aria-label': words, onclick: () => onPick(entry, own) }, marks.length ? el('span', { class: 'm ' + marks[0][1] }, marks[0][0]) : cell.sign > 0 ? '+' : cell.sign < 0 ? '−' : '');
      button.style.backgroundColor = TP.cellColour(cell);
      return button;
    });
  }

  /** The aligned group of an entry. `onPick(entry, turn)` is called on a click. */
  TP.groupView = async (entry, onPick) => {
    const all = TP.groupOf(entry);
    const shown = all.slice(0, 80);
    const loaded = await Promise.allSettled(shown.map((e) => TP.detail(e)));
    const details = new Map(shown.map((e, i) => [e, loaded[i].value]));
    const rows = TP.alignGroup(shown, details);
    const mode = TP.modeFor(entry);
    const scale = TP.scaleOf(rows.flatMap((row) => TP.valuesOf(row.entry, mode)));
    const longest = Math.max(...rows.map((row) => row.path.length), 0);
    const solved = all.filter((e) => e.success === true).length;
    const judged = all.filter((e) => e.success === true || e.success === false).length;
    const grid = el('div', { class: 'group', role: 'group', 'aria-label': 'episodes of the group' },
      el('div', { class: 'grow head' }, el('span', { class: 'glabel' }),
        Array.from({ length: longest }, (_, turn) => el('span', { class: 'gcell none' }, turn % 5 === 0 ? String(turn) : ''))),
      rows.map((row) => {
        const [glyph, words, name] = TP.outcome(row.entry);
        return el('div', { class: 'grow' + (row.entry === entry ? ' here' : '') },
          el('button', { type: 'button', class: 'glabel', title: row.entry.id, onclick: () => onPick(row.entry, '') },
            el('span', { class: 'end ' + name, title: words }, glyph), ' ',
            row.entry.kind === 'recovery' ? '⤷ ' : row.entry.attempt ? `↻${row.entry.attempt} ` : '', row.entry.id),
          cells(row, mode, scale, onPick));
      }));
    return el('div', {}, el('p', { class: 'muted wrap' },
      `${TP.plural(all.length, 'episode')} of this task in this step; ${solved} of ${judged} solved. `,
      'Turns that equal those of the row above are thin; a bar marks where an episode parts from it.',
      all.length > shown.length ? ` The first ${shown.length} are shown.` : ''), el('div', { class: 'scroll' }, grid));
  };
})();
