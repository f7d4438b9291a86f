// The prompt of a turn: messages as they were sent, and the exact tokens where the vocabulary is known.
(() => {
  const el = TP.el;

  /** All messages of a turn's prompt: shared ones are taken from the turns before. */
  TP.messagesOf = (episode, index) => {
    const turn = episode.turns[index];
    if (!turn || !turn.messages) return [];
    const [same, fresh] = turn.messages;
    return same ? [...TP.messagesOf(episode, index - 1).slice(0, same), ...fresh] : fresh;
  };

  const message = ([role, text, cut]) => el('div', { class: 'message' }, el('b', {}, role), el('pre', { dir: 'auto' }, text),
    cut ? el('p', { class: 'cut' }, `${TP.plural(cut, 'more character')} cut for display`) : null);

  function fold(summary, make) {
    const details = el('details', {}, el('summary', {}, summary));
    details.addEventListener('toggle', () => { if (details.open && details.children.length === 1) TP.add(details, [make()]); });
    return details;
  }

  /** A folded block with the prompt, null if it was not recorded. */
  TP.promptBlock = (episode, index) => {
    const turn = episode.turns[index];
    if (!turn.messages && !turn.prompt) return null;
    const count = turn.prompt ? `, ${TP.plural(turn.prompt[0], 'token')}` : '';
    return el('div', { class: 'block prompt' }, fold(`Prompt as the model saw it${count}`, () => {
      const all = TP.messagesOf(episode, index);
      const same = turn.messages ? turn.messages[0] : 0;
      return [
        turn.hint ? el('p', { class: 'cut' }, 'Messages are shown without the hint; the tokens below hold it.') : null,
        same ? fold(`${TP.plural(same, 'message')} shared with the turn before`, () => all.slice(0, same).map(message)) : null,
        all.slice(same).map(message),
        turn.prompt ? tokens(turn.prompt) : null,
      ];
    }));
  };

  function tokens([total, same, text, cut]) {
    const parts = [el('p', { class: 'cut' }, same
      ? `${same.toLocaleString('en')} of ${TP.plural(total, 'token')} extend the prompt and response of the turn before, unchanged`
      : `${TP.plural(total, 'token')}, none shared with the turn before`)];
    if (text) parts.push(el('h5', {}, 'New tokens, decoded one by one'), el('pre', { dir: 'ltr' }, text));
    else if (total > same) parts.push(el('p', { class: 'cut' }, 'token texts are not known: no checkpoint of the run has a tokenizer.json'));
    if (cut) parts.push(el('p', { class: 'cut' }, `${TP.plural(cut, 'more token')} not shown`));
    return el('div', {}, parts);
  }
})();
