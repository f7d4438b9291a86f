// Episodes of the page: list entries are here from the start, details come from the page or from data files.
(() => {
  const payload = JSON.parse(document.getElementById('data').textContent);
  const inline = document.getElementById('details');
  const KEPT = 60;

  TP.episodes = payload.episodes;
  const pieces = new Map();
  const waiting = new Map();
  const children = new Map();
  const groups = new Map();
  const tasks = new Map();
  const chains = new Map();
  const byKey = new Map();

  const push = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
  const place = (e) => `${e.o}${e.step || 0}`;
  const nameOf = (e) => `${place(e)}~${e.id}`;
  TP.keyOf = (e) => e.key;
  TP.groupKey = (e) => `${place(e)}~${e.task}`;

  TP.episodes.forEach((e, index) => {
    e.index = index;
    e.key = nameOf(e);
    for (let again = 2; byKey.has(e.key); again++) e.key = `${nameOf(e)}~${again}`; // the same id twice in a file
    byKey.set(e.key, e);
    if (e.fork) push(children, `${place(e)}~${e.fork[0]}`, e);
    push(groups, TP.groupKey(e), e);
    if (e.chain) push(chains, `${place(e)}~${e.chain}`, e);
    if (e.kind !== 'recovery') push(tasks, `${e.o}~${e.task}`, e);
  });
  TP.find = (key) => byKey.get(key);
  TP.childrenOf = (e) => children.get(nameOf(e)) || [];
  TP.parentOf = (e) => (e.fork ? byKey.get(`${place(e)}~${e.fork[0]}`) : undefined);
  TP.groupOf = (e) => groups.get(TP.groupKey(e)) || [e];
  /** All attempts of the chain that an episode belongs to, in order. */
  TP.attemptsOf = (e) => (e.chain ? chains.get(`${place(e)}~${e.chain}`).sort((a, b) => (a.attempt || 0) - (b.attempt || 0)) : []);
  /** The same task in other steps. */
  TP.elsewhere = (e) => (tasks.get(`${e.o}~${e.task}`) || []).filter((other) => (other.step || 0) !== (e.step || 0));
  TP.forkTurns = (e) => TP.childrenOf(e).map((child) => child.fork[1] - 1);

  if (inline) {
    for (const [name, details] of Object.entries(JSON.parse(inline.textContent))) pieces.set(name, details);
  }

  /** Called by data files. */
  TP.receive = (name, text) => {
    pieces.set(name, JSON.parse(text));
    const wait = waiting.get(name);
    waiting.delete(name);
    if (wait) wait.resolve(pieces.get(name));
    if (!inline && pieces.size > KEPT) pieces.delete(pieces.keys().next().value);
  };

  function piece(name) {
    if (pieces.has(name)) return Promise.resolve(pieces.get(name));
    if (waiting.has(name)) return waiting.get(name).promise;
    const wait = {};
    wait.promise = new Promise((resolve, reject) => Object.assign(wait, { resolve, reject }));
    waiting.set(name, wait);
    const script = TP.el('script', { src: `${payload.base}${name}.js` });
    script.addEventListener('error', () => {
      waiting.delete(name);
      wait.reject(new Error(`${payload.base}${name}.js could not be loaded; the folder of data files belongs beside this page`));
    });
    script.addEventListener('load', () => {
      script.remove();
      if (waiting.has(name)) { waiting.delete(name); wait.reject(new Error(`${payload.base}${name}.js holds no data`)); }
    });
    document.head.append(script);
    return wait.promise;
  }

  /** Everything about an episode. Rejects with a sentence if it cannot be had. */
  TP.detail = async (entry) => {
    const found = (await piece(entry.c))[entry.p];
    if (!found) throw new Error(`episode ${entry.id} could not be read`);
    return found;
  };
})();
