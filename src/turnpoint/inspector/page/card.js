// Turn cards and the transcript of an episode.
(() => {
  const el = TP.el;

  /** A titled block of verbatim text; `clipped` is [text, characters cut]. */
  function block(title, clipped, name) {
    if (!clipped || !clipped[0]) return null;
    const cut = clipped[1] || 0;
    return el('div', { class: 'block ' + (name || '') }, el('h5', {}, title), el('pre', { dir: 'auto' }, clipped[0]),
      cut ? el('p', { class: 'cut' }, `${TP.plural(cut, 'more character')} cut for display`) : null);
  }

  function fact(title, value, name) {
    return value ? el('div', { class: 'fact ' + (name || '') }, el('h5', {}, title), el('code', { dir: 'auto' }, value)) : null;
  }

  /** Tokens of a response, coloured by a signal that the reader picks. */
  TP.heatMap = (turn) => {
    if (!turn.tokens || !turn.signals) return null;
    const names = Object.keys(turn.signals);
    const at = (name, i) => (Array.isArray(turn.signals[name]) ? turn.signals[name][i] : turn.signals[name]);
    const unscored = (i) => at(names[0], i) === null;
    const body = el('div', { class: 'tokens', dir: 'ltr' });
    const note = el('p', { class: 'cut' });
    const chips = names.map((name) => el('button', { type: 'button', class: 'chip', onclick: () => paint(name) }, name));
    const masked = (i) => names.includes('mask') && !at('mask', i);
    const words = (i) => names.map((name) => `${name} ${TP.signed(at(name, i))}`).concat(masked(i) ? ['masked: does not train'] : []);
    function paint(chosen) {
      chips.forEach((chip, i) => chip.setAttribute('aria-pressed', String(names[i] === chosen)));
      const values = turn.tokens.map((_, i) => at(chosen, i));
      const scale = TP.scaleOf(values);
      body.replaceChildren(...turn.tokens.map((token, i) => {
        const value = values[i];
        const sign = Math.sign(value || 0);
        const span = el('span', { class: 'token ' + (sign > 0 ? 'up' : sign < 0 ? 'down' : '') + (masked(i) ? ' masked' : '') + (unscored(i) ? ' unscored' : ''), 'data-at': i, title: `${token}\n${words(i).join('\n')}` }, token);
        if (sign) span.style.backgroundColor = TP.cellColour({ sign, size: Math.min(1, Math.abs(value) / scale) * 0.8 });
        return span;
      }));
      const more = (turn.ntokens || 0) - turn.tokens.length;
      note.textContent = `colour is full at ±${TP.number(scale)}; a solid line is positive, a dashed one negative`
        + (more > 0 ? `; ${TP.plural(more, 'more token')} not shown` : '');
    }
    body.addEventListener('click', (event) => {
      const at = event.target.dataset.at;
      if (at !== undefined) note.textContent = `token ${at}: ${JSON.stringify(turn.tokens[at])}: ${words(+at).join(', ')}`;
    });
    paint(names[0]);
    const terms = Object.entries(turn.terms || {}).map(([name, count]) => `${name} on ${TP.plural(count, 'token')}`);
    return el('div', { class: 'block' }, el('h5', {}, 'Tokens, coloured by'), el('div', { class: 'chips' }, chips), body, note,
      terms.length ? el('p', { class: 'cut' }, `Terms that touched this turn: ${terms.join(', ')}`) : null);
  };

  function badges(turn) {
    return [
      turn.invalid && 'no usable action', turn.refused && 'not accepted', turn.truncated && 'cut at the token limit',
      turn.reused && 'context only', turn.done && 'last turn',
    ].filter(Boolean).map((text) => el('span', { class: 'badge' }, text));
  }

  /** Everything about one turn. */
  TP.turnCard = (episode, index) => {
    const turn = episode.turns[index];
    const pivots = (episode.named || []).filter((pivot) => pivot.turn === index);
    const distances = episode.distances || [];
    return el('div', { class: 'card' },
      el('div', { class: 'badges' }, badges(turn),
        turn.reward ? el('span', { class: 'badge' }, `reward ${TP.signed(turn.reward)}`) : null,
        distances.length ? el('span', { class: 'badge' }, TP.cellOf(episode, index, 'distance').words) : null,
        turn.ntokens ? el('span', { class: 'badge' }, TP.plural(turn.ntokens, 'token')) : null,
        turn.admissible ? el('span', { class: 'badge' }, TP.plural(turn.admissible, 'admissible action')) : null),
      turn.untrained ? el('p', { class: 'cut' }, `Not trained: ${turn.untrained}.`) : null,
      TP.promptBlock ? TP.promptBlock(episode, index) : null,
      block('Observation', turn.obs),
      turn.hint ? block('Hint (seen while sampling only)', [turn.hint, 0], 'hinted') : null,
      block('Response', turn.response),
      el('div', { class: 'facts' },
        fact('Action', turn.action === undefined ? 'none could be parsed' : turn.action || '(empty)'),
        fact('Given to the environment', turn.executed),
        fact('Gold action', (turn.gold || []).join('\n') + (turn.moreGold ? `\n… ${turn.moreGold} more` : ''), 'gold'),
        pivots.map((pivot) => [
          fact(`Pivot named by ${pivot.source}`, pivot.resolved || pivot.gold || 'no better action named', 'pivot'),
          pivot.gold && pivot.resolved && pivot.gold !== pivot.resolved ? fact('as named', pivot.gold) : null,
          pivot.gold && !pivot.resolved ? fact('use', 'not used: the action does not exist there or was the one taken') : null,
          pivot.score !== undefined ? fact('score', TP.number(pivot.score)) : null,
          fact('note', pivot.note),
        ])),
      TP.heatMap(turn));
  };

  function line(episode, index, marks) {
    const turn = episode.turns[index];
    const gold = (episode.named || []).filter((p) => p.turn === index).map((p) => p.resolved || p.gold).filter(Boolean)[0];
    const value = (episode.advantages || [])[index];
    return [
      el('span', { class: 'no' }, String(index + TP.ownStart(episode))),
      el('span', { class: 'marks' }, marks.map(([glyph, name, words]) => el('span', { class: 'm ' + name, title: words }, glyph))),
      el('span', { class: 'act', dir: 'auto' }, turn.action ?? '(no usable action)',
        gold ? el('span', { class: 'better' }, ' ◆ ', gold) : null),
      el('span', { class: 'val' }, value === null || value === undefined ? '' : TP.signed(value, 2)),
    ];
  }

  /** One line for each turn that opens into its card; branches stand after the turn they follow. */
  TP.transcript = (episode, branches) => {
    const list = el('div', { class: 'transcript' });
    const byTurn = new Map();
    for (const branch of branches || []) {
      const turn = branch.fork[1] - 1;
      byTurn.set(turn, [...(byTurn.get(turn) || []), branch]);
    }
    episode.turns.forEach((_, index) => {
      const marks = TP.marksOf(episode, index, [...byTurn.keys()]);
      const details = el('details', { class: 'line', 'data-turn': index }, el('summary', {}, line(episode, index, marks)));
      details.addEventListener('toggle', () => {
        if (details.open && !details.querySelector('.card')) details.append(TP.turnCard(episode, index));
      });
      list.append(details);
      for (const branch of byTurn.get(index) || []) list.append(branchBox(branch));
    });
    if (episode.cutTurns) list.append(el('p', { class: 'cut' }, `${TP.plural(episode.cutTurns, 'more turn')} not shown`));
    if (episode.final) list.append(block('After the last turn', episode.final));
    if (episode.reflection) list.append(reflectionBox(episode.reflection));
    return list;
  };

  function reflectionBox(reflection) {
    const named = reflection.pivot === undefined ? 'no turn named' : `turn ${reflection.pivot} named as the first wrong one`;
    return el('details', { class: 'branchbox reflection' }, el('summary', {}, el('span', { class: 'm retry' }, '↻ '),
      `reflection after this attempt: ${reflection.valid ? named : 'could not be used'}`),
    reflection.remark ? block('Remark for the next attempt', [reflection.remark, 0]) : null,
    block('Response', reflection.response), TP.heatMap(reflection));
  }

  function branchBox(branch) {
    const [glyph, words] = TP.outcome(branch);
    return el('details', { class: 'branchbox', open: true },
      el('summary', {}, el('span', { class: 'm branch' }, '⤷ '), `recovery branch: ${TP.plural(branch.n || 0, 'turn')}, ${glyph} ${words}`),
      TP.transcript(branch, []));
  }

  /** Open a turn's card and bring it into view. */
  TP.openTurn = (box, turn) => {
    const details = box.querySelector(`:scope > details.line[data-turn="${turn}"]`);
    if (!details) return;
    details.open = true;
    if (!details.querySelector('.card')) details.dispatchEvent(new Event('toggle'));
    details.scrollIntoView({ block: 'start', behavior: 'instant' });
    details.querySelector('summary').focus({ preventScroll: true });
  };

  /** Task and figures of an episode. */
  TP.episodeHead = (episode) => {
    const [glyph, words, name] = TP.outcome(episode);
    return [
      el('p', { class: 'task', dir: 'auto' }, episode.instruction || episode.task),
      el('p', { class: 'muted wrap' }, el('span', { class: 'end ' + name }, glyph, ' ', words), ` · ${episode.id}`,
        episode.type ? ` · ${episode.type}` : '', ` · reward ${TP.number(episode.reward || 0)}`,
        ` · ${TP.plural(episode.n || 0, 'turn')}`, episode.attempt ? ` · attempt ${episode.attempt}` : '',
        episode.seconds ? ` · ${TP.number(episode.seconds)} s` : ''),
    ];
  };

  /** Error, remarks, summary and lesson, where there are any. */
  TP.episodeNotes = (episode) => [
    episode.error ? block('Error', [episode.error, 0], 'error') : null,
    (episode.remarks || []).map((remark) => block('Remark from an earlier attempt', [remark, 0])),
    episode.summary ? block('Teacher’s summary', [episode.summary, 0]) : null,
    episode.lesson ? block('Lesson', [episode.lesson, 0]) : null,
  ];

  /** Head, strip, distance line and transcript of an episode with its branches. */
  TP.episodePane = (episode, branches, mode) => {
    const forks = (branches || []).map((branch) => branch.fork[1] - 1);
    const list = TP.transcript(episode, branches);
    const line = TP.distanceLine(episode);
    return el('div', { class: 'pane' }, TP.episodeHead(episode),
      el('div', { class: 'scroll' }, TP.strip(episode, mode || TP.bestMode(episode), forks, (turn) => TP.openTurn(list, turn))),
      line ? el('div', { class: 'block' }, el('h5', {}, 'Oracle distance before each turn'), line) : null,
      TP.episodeNotes(episode), list);
  };
})();
