// The open episode: head, strip, tabs and what a tab shows.
(() => {
  const el = TP.el;
  let box;
  let serial = 0;

  TP.makeDetail = (target) => { box = target; };

  function tabsOf(entry) {
    const size = TP.groupOf(entry).length;
    const branches = TP.parentOf(entry) ? 1 : TP.childrenOf(entry).length;
    return [['turns', 'Turns'], ...(size > 1 ? [['group', `Group (${size})`]] : []),
      ...(branches ? [['sides', TP.parentOf(entry) ? 'Beside its original' : `Branches side by side (${branches})`]] : [])];
  }

  const failed = (error) => el('p', { class: 'warn' }, error.message);

  /** Show an entry with the tab and turn of the state. */
  TP.showDetail = async () => {
    const entry = TP.openEntry;
    const ticket = ++serial;
    if (!entry) {
      box.removeAttribute('aria-busy');
      box.replaceChildren(TP.overview());
      return;
    }
    box.setAttribute('aria-busy', 'true');
    let detail;
    try {
      detail = await TP.detail(entry);
    } catch (error) {
      if (ticket !== serial) return;
      box.removeAttribute('aria-busy');
      box.replaceChildren(failed(error));
      return;
    }
    if (ticket !== serial) return;
    const body = el('div', { class: 'tabbody' });
    const tabs = tabsOf(entry);
    const tab = tabs.some(([key]) => key === TP.state.tab) ? TP.state.tab : 'turns';
    box.replaceChildren(head(entry, detail), strips(entry, detail), el('div', { class: 'chips tabs', role: 'tablist' }, tabs.map(([key, words]) =>
      el('button', { type: 'button', role: 'tab', class: 'chip', 'aria-selected': String(key === tab), 'aria-pressed': String(key === tab),
        onclick: () => TP.set({ tab: key }) }, words))), body);
    box.scrollTop = 0;
    try {
      const content = await contentOf(tab, entry, detail);
      if (ticket === serial) body.replaceChildren(content);
    } catch (error) {
      if (ticket === serial) body.replaceChildren(failed(error));
    }
    if (ticket !== serial) return;
    box.removeAttribute('aria-busy');
    TP.showTurn();
  };

  function head(entry, detail) {
    const parent = TP.parentOf(entry);
    const line = TP.distanceLine(detail);
    return el('div', { class: 'head' },
      TP.episodeHead(detail),
      parent ? el('p', { class: 'wrap' }, el('button', { type: 'button', class: 'chip', onclick: () => TP.open(parent, detail.fork[1] - 1) },
        `⤷ branched off after turn ${detail.fork[1] - 1} of ${parent.id}`)) : null,
      related('same task: ', TP.elsewhere(entry), entry, (other) => `step ${other.step || 0}`),
      related('attempts: ', TP.attemptsOf(entry).length > 1 ? TP.attemptsOf(entry) : [], entry, (other) => `attempt ${other.attempt || 0}`),
      line ? el('details', { class: 'oracleline', open: true }, el('summary', {}, 'Oracle distance before each turn'), line) : null);
  }

  /** Chips that lead to related episodes; `words(other)` names each. */
  function related(title, others, entry, words) {
    if (!others.length) return null;
    return el('p', { class: 'chips related' }, title, others.slice(0, 16).map((other) => {
      const [glyph, ending, name] = TP.outcome(other);
      return el('button', { type: 'button', class: 'chip', title: `${ending}: ${other.id}`, 'aria-pressed': String(other === entry), onclick: () => TP.open(other) },
        el('span', { class: 'end ' + name }, glyph), ' ', words(other));
    }), others.length > 16 ? ` and ${others.length - 16} more` : null);
  }

  const strips = (entry, detail) => el('div', { class: 'scroll strips' },
    TP.strip(detail, TP.modeFor(entry), TP.forkTurns(entry), (turn) => TP.set({ t: String(turn), tab: 'turns' }, true)));

  async function contentOf(tab, entry, detail) {
    if (tab === 'group') return TP.groupView(entry, (other, turn) => TP.open(other, turn));
    if (tab === 'sides') return TP.compareView(entry);
    const branches = await Promise.allSettled(TP.childrenOf(entry).map((child) => TP.detail(child)));
    const list = TP.transcript(detail, branches.filter((b) => b.value && b.value.kind === 'recovery').map((b) => b.value));
    list.addEventListener('toggle', (event) => {
      const line = event.target;
      if (line.parentElement !== list || !line.matches('details.line')) return;
      if (line.open) TP.set({ t: line.dataset.turn }, true);
      else delete line.dataset.auto;
    }, true);
    return el('div', {}, TP.episodeNotes(detail), list);
  }

  /** Open the card of the state's turn and mark its cell. */
  TP.showTurn = () => {
    const turn = TP.state.t;
    box.querySelectorAll('.strip .turn').forEach((cell) => {
      if (cell.dataset.turn === turn) cell.setAttribute('aria-current', 'true');
      else cell.removeAttribute('aria-current');
    });
    const list = box.querySelector('.tabbody .transcript');
    if (turn === '' || !list) return;
    const line = list.querySelector(`:scope > details.line[data-turn="${CSS.escape(turn)}"]`);
    if (!line) return;
    if (line.open) return;
    list.querySelectorAll(':scope > details.line[open]').forEach((other) => { if (other.dataset.auto) other.open = false; });
    line.dataset.auto = '1';
    TP.openTurn(list, turn);
  };
})();
