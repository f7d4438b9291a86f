"""The real engine, inside its own process: one loaded game for many episodes, by the planner library's state ids.

A state is named by the commands that lead to it. What was visited lately comes back by its id in the library's state
registry and the facts that belong to it; anything else is replayed, and then proved to be the same.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Answer = dict[str, Any]
"""``text``, ``admissible`` (sorted), ``won``, ``key`` of the state, ``known``: whether the command was admissible."""
Commands = tuple[str, ...]

_STATES_KEPT = 1024
UNKNOWN = "Nothing happens."


class Service:
    """What the process serves."""

    def __init__(self) -> None:
        for name in ("alfworld.agents.utils.misc", "textworld.envs.pddl.logic"):
            importlib.import_module(name)  # fails here, at the start, if the engine is not whole

        self.games: OrderedDict[str, RealGame] = OrderedDict()
        self.kept = 16

    def keep(self, games: int) -> None:
        """How many games stay loaded."""
        self.kept = games

    def start(self, path: str, sha256: str) -> Answer:
        """First observation of a game."""
        return self._game(path, sha256).start()

    def step(self, path: str, sha256: str, commands: Sequence[str], key: str, command: str) -> Answer:
        """Observation after ``command`` in the state that ``commands`` lead to, which must have ``key``."""
        return self._game(path, sha256).step(tuple(commands), key, command)

    def _game(self, path: str, sha256: str) -> RealGame:
        game = self.games.pop(path, None)
        if game is None or game.sha256 != sha256:
            game = RealGame(path)
            if game.sha256 != sha256:
                raise ValueError(f"{path} is not the file that the task was made from; restore it")
            if len(self.games) >= self.kept:
                self.games.popitem(last=False)[1].close()
        self.games[path] = game
        return game


_FREE: list[Any] = []
"""Copies of the planner library whose game is over. None is ever unloaded: that can crash the process, at once or when
another copy is loaded. Each holds one game at a time and can load the next, as TextWorld's own environment does."""


class RealGame:
    """One game in TextWorld's PDDL engine."""

    def __init__(self, path: str) -> None:
        import fast_downward
        from textworld.envs.pddl import logic

        raw = Path(path).read_bytes()
        document = json.loads(raw)
        self.sha256 = hashlib.sha256(raw).hexdigest()
        self.lib = _FREE.pop() if _FREE else fast_downward.load_lib()
        self.lib.get_state_id.restype = ctypes.c_int
        self.lib.set_state_id.argtypes = [ctypes.c_int]
        self.lib.set_state_id.restype = None
        self.logic = logic.GameLogic(domain=document["pddl_domain"], grammar=document["grammar"])
        with _no_replanning():
            self.state: Any = logic.PddlState(self.lib, document["pddl_problem"], self.logic)
        self.entities = _named_entities(self.state)
        self.names = {name: info.name for name, info in self.entities.items()}
        self.rendered: dict[int, str] = {}
        """Commands by operator; the same operator always reads alike."""
        self.first = frozenset(self.state.facts)
        self.visited: OrderedDict[Commands, Any] = OrderedDict({(): self._save()})

    def close(self) -> None:
        """Leave the planner library to another game."""
        _FREE.append(self.lib)

    def start(self) -> Answer:
        """What a reset shows."""
        self._go_to(())
        text = self.logic.grammar.derive("#intro#", self._context(None))
        return self._answer(text, self._actions(), known=True)

    def step(self, commands: Commands, key: str, command: str) -> Answer:
        """Execute ``command`` where ``commands`` lead; raises ``ValueError`` if that state does not have ``key``."""
        self._go_to(commands)
        if self._key() != key:
            raise ValueError(
                f"the state after {len(commands)} commands did not come back: key {self._key()}, not {key}"
            )
        actions = self._actions()
        if command not in actions:
            return self._answer(UNKNOWN, actions, known=False)
        text = self._apply(actions[command])
        self._remember((*commands, command))
        return self._answer(text, self._actions(), known=True)

    def _go_to(self, commands: Commands) -> None:
        """Bring the state after ``commands`` back, from the longest part of them that is still known."""
        known = len(commands)
        while commands[:known] not in self.visited:
            known -= 1
        self._load(self.visited[commands[:known]])
        self.visited.move_to_end(commands[:known])
        for number in range(known, len(commands)):
            self._apply(self._actions()[commands[number]])
            self._remember(commands[: number + 1])

    def _remember(self, commands: Commands) -> None:
        if len(self.visited) >= _STATES_KEPT:
            oldest = next(kept for kept in self.visited if kept)  # the start always stays
            del self.visited[oldest]
        self.visited[commands] = self._save()

    def _save(self) -> Any:
        state = self.state
        facts = {kind: set(found) for kind, found in state._facts.items()}
        kinds = {kind: set(found) for kind, found in state._vars_by_type.items()}
        return self.lib.get_state_id(), facts, dict(state._vars_by_name), kinds, Counter(state._var_counts)

    def _load(self, saved: Any) -> None:
        number, facts, names, kinds, counts = saved
        state = self.state
        self.lib.set_state_id(number)
        state._facts = defaultdict(set, {kind: set(found) for kind, found in facts.items()})
        state._vars_by_name = dict(names)
        state._vars_by_type = defaultdict(set, {kind: set(found) for kind, found in kinds.items()})
        state._var_counts = Counter(counts)

    def _actions(self) -> dict[str, Any]:
        """Applicable actions by command, the first of those that read alike, as the engine takes it."""
        found: dict[str, Any] = {}
        for action in self.state.all_applicable_actions():
            command = self.rendered.get(action.id)
            if command is None:
                action.command_template = self.logic.grammar.derive(
                    action.command_template, self._context(action)
                )
                command = self.rendered[action.id] = action.format_command(self.names)
            found.setdefault(command, action)
        return found

    def _apply(self, action: Any) -> str:
        self.state.apply(action)
        text: str = self.logic.grammar.derive(action.feedback_rule, self._context(action))
        return text

    def _context(self, action: Any) -> dict[str, Any]:
        mapping = {} if action is None else action.mapping
        return {
            "state": self.state,
            "facts": list(self.state.facts),
            "variables": {place.name: self.entities[variable.name] for place, variable in mapping.items()},
            "mapping": mapping,
            "entity_infos": self.entities,
        }

    def _key(self) -> str:
        """Hash of what holds now and did not at the start, and the other way round; negated facts only repeat it."""
        changed = {fact for fact in self.first ^ frozenset(self.state.facts) if not fact.is_negation}
        text = "\n".join(sorted(map(str, changed)))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def _answer(self, text: str, actions: dict[str, Any], *, known: bool) -> Answer:
        won = bool(self.lib.check_goal())
        return {"text": text, "admissible": sorted(actions), "won": won, "key": self._key(), "known": known}


def _named_entities(state: Any) -> dict[str, Any]:
    """ALFWorld's names of all things, numbered as its own loader does."""
    from alfworld.agents.utils.misc import Demangler
    from textworld.generator.game import EntityInfo

    entities = {v.name: EntityInfo(v.name, v.type) for fact in state.facts for v in fact.arguments}
    for info in entities.values():
        info.name, info.definite, info.indefinite = info.id, "the", "a"
    demangler = Demangler(game_infos=entities, shuffle=False)
    for info in entities.values():
        info.name = demangler.demangle_alfred_name(info.id)
    return entities


@contextmanager
def _no_replanning() -> Iterator[None]:
    """Leave out the second translation of a problem: half the time, and only the planner's hints need it."""
    import fast_downward

    translate = fast_downward.pddl2sas

    def once(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        return (None, "") if optimize else translate(domain, problem, verbose=verbose)

    fast_downward.pddl2sas = once
    try:
        yield
    finally:
        fast_downward.pddl2sas = translate
