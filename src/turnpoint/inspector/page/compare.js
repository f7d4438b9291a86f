// Original and branch side by side, from the turn where they part.
(() => {
  const el = TP.el;

  function side(title, episode, own, empty) {
    const turn = own >= 0 ? episode.turns[own] : undefined;
    if (!turn) return el('div', { class: 'side' }, el('p', { class: 'muted' }, empty));
    const marks = TP.marksOf(episode, own);
    return el('div', { class: 'side' },
      el('h5', {}, title, ' ', marks.map(([glyph, name, words]) => el('span', { class: 'm ' + name, title: words }, glyph))),
      el('p', { class: 'act', dir: 'auto' }, turn.action ?? '(no usable action)',
        (turn.gold || []).includes(turn.action) ? el('span', { class: 'm oracle', title: 'a gold action' }, ' ✓') : null),
      turn.gold && turn.gold.length ? el('p', { class: 'gold' }, 'gold: ', el('code', { dir: 'auto' }, turn.gold.join(' · '))) : null,
      turn.hint ? el('p', { class: 'hint' }, 'hint: ', el('code', { dir: 'auto' }, turn.hint)) : null,
      openable('observation, response and tokens', () => TP.turnCard(episode, own)));
  }

  function openable(words, make) {
    const details = el('details', {}, el('summary', { class: 'muted' }, words));
    details.addEventListener('toggle', () => { if (details.open && details.children.length === 1) details.append(make()); });
    return details;
  }

  function pair(parent, branch) {
    const start = branch.fork[1];
    const shift = TP.ownStart(branch);
    const first = Math.max(0, start - 1);
    const last = Math.min(Math.max(shift + branch.turns.length - 1, first) + 1, parent.turns.length - 1);
    const [glyph, words, name] = TP.outcome(branch);
    const rows = [];
    for (let turn = first; turn <= Math.max(last, shift + branch.turns.length - 1); turn++) {
      rows.push(el('div', { class: 'versus' + (turn < start ? ' common' : '') }, el('span', { class: 'no' }, String(turn)),
        side('original', parent, turn, 'the original has ended'),
        turn < start
          ? el('div', { class: 'side' }, el('p', { class: 'muted' }, turn === start - 1 ? 'the turn that was branched after: both share it' : 'shared'))
          : side(branch.kind === 'recovery' ? 'recovery' : `attempt ${branch.attempt || 0}`, branch, turn - shift, 'the branch has ended')));
    }
    return el('section', { class: 'pair' }, el('h4', {}, el('span', { class: 'm branch' }, '⤷ '), `after turn ${start - 1} `,
      el('span', { class: 'end ' + name }, `${glyph} ${words}`), ' ', el('span', { class: 'muted wrap' }, branch.id)),
    (branch.remarks || []).map((remark) => el('p', { class: 'muted', dir: 'auto' }, 'remark: ' + remark)), rows);
  }

  /** All branches of an entry beside it; a branch shows itself beside its original. */
  TP.compareView = async (entry) => {
    const parent = TP.parentOf(entry) || entry;
    const branches = parent === entry ? TP.childrenOf(entry) : [entry];
    const original = await TP.detail(parent);
    const found = await Promise.all(branches.map((branch) => TP.detail(branch)));
    found.sort((a, b) => a.fork[1] - b.fork[1]);
    return el('div', {}, found.map((branch) => pair(original, branch)));
  };
})();
