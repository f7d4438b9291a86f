// The strip: one cell for each turn, coloured by a signal, with marks that do not need colour.
(() => {
  TP.MODES = { advantage: 'advantage', gap: 'teacher gap', distance: 'oracle distance', plain: 'marks only' };
  const WORDS = { advantage: 'advantage', gap: 'teacher gap' };

  /** Numbers of a mode, one for each turn; empty without data. */
  TP.valuesOf = (episode, mode) => ({ advantage: episode.advantages, gap: episode.gaps, distance: episode.distances }[mode] || []);
  TP.hasMode = (episode, mode) => mode === 'plain' || TP.valuesOf(episode, mode).length > 0;

  /** The most telling mode an episode has data for. */
  TP.bestMode = (episode) => ['distance', 'advantage', 'gap'].find((mode) => TP.hasMode(episode, mode)) || 'plain';

  /** Largest size a value has to be measured against: the 95th percentile, so that one outlier hides nothing. */
  TP.scaleOf = (values) => {
    const sizes = values.filter((v) => v !== null && v !== undefined).map(Math.abs).sort((a, b) => a - b);
    return sizes.length ? sizes[Math.floor((sizes.length - 1) * 0.95)] || sizes[sizes.length - 1] || 1 : 1;
  };

  /** What a turn is worth in a mode: {sign, size 0..1, words, gone}. */
  TP.cellOf = (episode, turn, mode, scale) => {
    if (mode in WORDS) {
      const values = TP.valuesOf(episode, mode);
      const value = values[turn];
      if (value === null || value === undefined) return { sign: 0, size: 0, words: `no ${WORDS[mode]} recorded` };
      const size = Math.min(1, Math.abs(value) / (scale || TP.scaleOf(values)));
      return { sign: Math.sign(value), size, words: `${WORDS[mode]} ${TP.signed(value)}` };
    }
    if (mode === 'distance') return distanceCell(episode.distances || [], turn);
    return { sign: 0, size: 0, words: '' };
  };

  function distanceCell(path, turn) {
    if (turn + 1 >= path.length) return { sign: 0, size: 0, words: 'distance not measured' };
    const before = path[turn];
    const after = path[turn + 1];
    if (before === null) return { sign: 0, size: 0, gone: true, words: 'cannot be solved any more' };
    if (after === null) return { sign: -1, size: 1, lost: true, words: `distance ${before} → cannot be solved any more` };
    const step = before - after;
    return { sign: Math.sign(step), size: Math.min(1, 0.45 + 0.2 * Math.abs(step)), words: `distance ${before} → ${after}` };
  }

  const shades = new Map();
  TP.onTheme(() => shades.clear());
  /** Background of a cell; sizes are rounded to 32 shades, so that few colours are ever made. */
  TP.cellColour = (cell) => {
    const key = cell.gone ? 'gone' : cell.sign ? cell.sign * (1 + Math.round(31 * cell.size)) : 0;
    if (!shades.has(key)) shades.set(key, shade(cell));
    return shades.get(key);
  };

  function shade(cell) {
    const colours = TP.palette();
    if (cell.gone) return TP.mix(colours.panel, colours.gone, 0.55);
    if (!cell.sign || !cell.size) return TP.mix(colours.panel, colours.flat, 0.6);
    return TP.mix(colours.panel, cell.sign > 0 ? colours.pos : colours.neg, 0.2 + 0.8 * (Math.round(31 * cell.size) / 31));
  }

  /** Turns before an episode's own first one: those of a fork, unless it holds the reused turns itself. */
  TP.ownStart = (episode) => (episode.fork && !episode.reused ? episode.fork[1] : 0);

  /** Marks of a turn as [glyph, class, words]. */
  TP.marksOf = (episode, turn, branchTurns) => {
    const marks = [];
    if ((episode.pivots || []).includes(turn)) marks.push(['◆', 'pivot', 'named pivot']);
    if ((episode.oracle || []).includes(turn)) marks.push(['▽', 'oracle', 'oracle pivot']);
    if (branchTurns && branchTurns.includes(turn)) marks.push(['⤷', 'branch', 'something branches off after this turn']);
    if (episode.attempt && turn === (episode.reused || 0)) marks.push(['↻', 'retry', `attempt ${episode.attempt} starts here`]);
    if ((episode.invalid || []).includes(turn)) marks.push(['×', 'invalid', 'no usable action']);
    return marks;
  };

  /** What the marks mean. */
  TP.legend = () => TP.el('dl', {}, [['◆', 'pivot', 'a turn named as pivotal'], ['▽', 'oracle', 'oracle pivot: the task got farther away'],
    ['⤷', 'branch', 'a recovery or a retry branches off after this turn'], ['↻', 'retry', 'a later attempt starts here'], ['×', 'invalid', 'no usable action'],
    ['+', '', 'good turn (stands above the line in small strips)'], ['−', '', 'bad turn (hangs below the line)'],
    ['!', '', 'the task cannot be solved after this turn'], ['✓ ✗ ■', '', 'solved, failed, stopped without outcome']]
    .map(([glyph, name, words]) => [TP.el('dt', { class: 'm ' + name }, glyph), TP.el('dd', {}, words)]));

  /** Large strip: a button for each turn. `onPick(turn)` is called on a click. */
  TP.strip = (episode, mode, branchTurns, onPick) => {
    const count = Math.min(episode.n || 0, (episode.turns || []).length || episode.n || 0);
    const scale = TP.scaleOf(TP.valuesOf(episode, mode));
    const start = TP.ownStart(episode);
    const box = TP.el('div', { class: 'strip', role: 'group', 'aria-label': 'turns' });
    for (let turn = 0; turn < count; turn++) {
      const cell = TP.cellOf(episode, turn, mode, scale);
      const marks = TP.marksOf(episode, turn, branchTurns);
      const words = [`turn ${turn + start}`, cell.words, ...marks.map((mark) => mark[2])].filter(Boolean).join(', ');
      const inner = TP.el('span', { class: 'cell' }, cell.lost ? '!' : cell.sign > 0 ? '+' : cell.sign < 0 ? '−' : '');
      inner.style.backgroundColor = TP.cellColour(cell);
      box.append(TP.el('button', {
        type: 'button', class: 'turn' + (turn < (episode.reused || 0) ? ' reused' : ''), title: words, 'aria-label': words,
        'data-turn': turn, onclick: () => onPick(turn),
      }, TP.el('span', { class: 'over' }, marks.map(([glyph, name]) => TP.el('span', { class: 'm ' + name }, glyph))), inner,
      TP.el('span', { class: 'index' }, (turn + start) % 5 === 0 ? String(turn + start) : '·')));
    }
    const [glyph, words, name] = TP.outcome(episode);
    box.append(TP.el('span', { class: 'end ' + name, title: words }, glyph));
    return box;
  };

  /** Small strip drawn into a canvas of CSS size `width` × 18. */
  TP.miniStrip = (canvas, episode, mode, width, branchTurns) => {
    const ratio = window.devicePixelRatio || 1;
    const height = 18;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    const pen = canvas.getContext('2d');
    pen.scale(ratio, ratio);
    const colours = TP.palette();
    const count = episode.n || 0;
    const step = Math.min(11, (width - 6) / Math.max(1, count));
    const scale = TP.scaleOf(TP.valuesOf(episode, mode));
    for (let turn = 0; turn < count; turn++) {
      const cell = TP.cellOf(episode, turn, mode, scale);
      const x = 1 + turn * step;
      pen.fillStyle = TP.cellColour(cell);
      // Height tells the sign without colour: good turns stand above the line, bad ones hang below it.
      const [y, h] = cell.sign > 0 ? [5, 8] : cell.sign < 0 ? [7, 10] : [7, 6];
      pen.fillRect(x, y, Math.max(1, step - 1), h);
      if (turn < (episode.reused || 0)) { pen.fillStyle = TP.mix(colours.panel, colours.panel, 0); pen.fillRect(x + 1, y + 1, Math.max(0, step - 3), h - 2); }
      drawMarks(pen, x + (step - 1) / 2, TP.marksOf(episode, turn, branchTurns), colours, y, step);
    }
    // A heavy bar ends an episode that was stopped without an outcome.
    if (episode.success !== true && episode.success !== false) { pen.fillStyle = TP.mix(colours.ink, colours.ink, 0); pen.fillRect(2 + count * step, 5, 2, 10); }
  };

  function drawMarks(pen, x, marks, colours, y, step) {
    const both = marks.some((mark) => mark[1] === 'pivot') && marks.some((mark) => mark[1] === 'oracle');
    const half = Math.min(both ? 2.4 : 3, Math.max(1.5, step / (both ? 5 : 3)));
    const middle = x;
    for (const [, name] of marks) {
      x = middle + (both && name === 'pivot' ? -half - 0.4 : both && name === 'oracle' ? half + 0.4 : 0);
      pen.fillStyle = pen.strokeStyle = TP.mix(colours.ink, colours[name] || colours.ink, name === 'invalid' ? 0 : 1);
      pen.lineWidth = 1.3;
      pen.beginPath();
      if (name === 'pivot') {
        pen.moveTo(x, 0); pen.lineTo(x + half, 2.5); pen.lineTo(x, 5); pen.lineTo(x - half, 2.5);
        pen.fill();
      } else if (name === 'oracle') {
        pen.moveTo(x - half, 0.7); pen.lineTo(x + half, 0.7); pen.lineTo(x, 5); pen.closePath();
        pen.stroke();
      } else if (name === 'branch') {
        pen.moveTo(x - half, 13); pen.lineTo(x - half, 17); pen.lineTo(x + half, 17);
        pen.stroke();
      } else if (name === 'retry') {
        pen.arc(x, 14, 2.5, 0, 5);
        pen.stroke();
      } else {
        pen.moveTo(x - half, y + 1); pen.lineTo(x + half, y + 6); pen.moveTo(x + half, y + 1); pen.lineTo(x - half, y + 6);
        pen.stroke();
      }
    }
  }

  /** The oracle's distance as a line; null where it was not measured. */
  TP.distanceLine = (episode) => {
    const path = episode.distances || [];
    const known = path.filter((d) => d !== null);
    if (path.length < 2 || !known.length) return null;
    const top = Math.max(1, ...known);
    const width = Math.max(160, 26 * path.length);
    const x = (i) => 13 + i * (width - 26) / (path.length - 1);
    const y = (d) => 10 + 44 * (1 - d / top);
    const end = path.indexOf(null);
    const line = (end < 0 ? path : path.slice(0, end)).map((d, i) => `${x(i)},${y(d)}`).join(' ');
    const svg = TP.svg('svg', { viewBox: `0 0 ${width} 70`, class: 'distance', role: 'img',
      'aria-label': `oracle distance: ${path.map((d) => d ?? 'unsolvable').join(', ')}` });
    svg.append(TP.svg('line', { class: 'grid', x1: 0, x2: width, y1: y(0), y2: y(0) }));
    svg.append(TP.svg('polyline', { class: 'line s0', points: line }));
    path.forEach((d, i) => {
      const bad = i > 0 && path[i - 1] !== null && (d === null || d > path[i - 1]);
      if (d === null) svg.append(TP.svg('text', { class: 'tick mid', x: x(i), y: 32 }, '∅'));
      else svg.append(TP.svg('circle', { class: bad ? 'mark s1' : 'mark s0', cx: x(i), cy: y(d), r: 3 },
        TP.svg('title', {}, `before turn ${i}: ${d}`)));
      if (d !== null) svg.append(TP.svg('text', { class: 'tick mid', x: x(i), y: y(0) + 13 }, String(d)));
    });
    svg.style.width = width + 'px';
    return TP.el('div', { class: 'scroll' }, svg);
  };
})();
