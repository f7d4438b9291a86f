"""From WebShop's released files to one file with products, goals and search index.

WebShop's own folder is understood (``items_shuffle*.json``, ``items_ins_v2*.json`` and, for human goals,
``items_human_ins.json``), and so is a compact file ``{"docs": [{"product": {...}}], "ins": {...}}``, both plain or
packed with xz or gz. Products are read one after another, so the full catalogue needs little memory for them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.releases import releases
from turnpoint.envs.text_store import TextStore, TextStoreWriter
from turnpoint.envs.webshop.catalogue import NO_ATTRIBUTE, human_goals, shuffled, synthetic_goals
from turnpoint.envs.webshop.nouns import Tagger, best_tagger

FILE = "webshop.sqlite"


_CHUNK = 1 << 20
_UNPRICED = 100.0
_LONGEST_ID = 10


def prepare(source: Path, folder: Path) -> dict[str, Any]:
    """Write ``folder/webshop.sqlite``; gives counts and hashes.

    Raises ``EnvDataError`` if a file is missing or unusable.
    """
    tagger_name, tagger = best_tagger()
    products, files = _open_source(source)
    facts: dict[str, Any] = {"nouns": tagger_name, "source": {path.name: _file_hash(path) for path in files}}
    facts["release"] = releases(files)
    store = write_catalogue(products, folder / FILE, tagger, facts)
    try:
        return {"catalogue": str(folder / FILE), **store.facts}
    finally:
        store.close()


def write_catalogue(
    products: Iterable[dict[str, Any]], path: Path | None, tagger: Tagger, facts: dict[str, Any]
) -> TextStore:
    """Store product records (see ``record_of``) with the goals made of them, synthetic ones first.

    ``path``: the file; None keeps it in memory. Raises ``EnvDataError`` if no product has a goal.
    """
    writer = TextStoreWriter(path)
    synthetic, human = array("q"), array("q")  # places of goals, which wait outside of memory for their order
    for record in products:
        record["nouns"] = tagger(record["title"])
        number = writer.add(record["asin"], record, search_text(record), labels_of(record))
        synthetic.extend(map(writer.hold, synthetic_goals(number, record)))
        human.extend(map(writer.hold, human_goals(number, record)))
    if not synthetic and not human:
        raise EnvDataError(
            "no product has an instruction, so there is nothing to buy; add WebShop's items_ins file"
        )
    writer.add_held(shuffled(synthetic))
    writer.add_held(shuffled(human))
    counts = {"products": writer.records, "goals": {"synthetic": len(synthetic), "human": len(human)}}
    return writer.finish(counts | facts)


def search_text(record: dict[str, Any]) -> str:
    """What the shop's search looks at: title, description, first bullet point and options."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in record["options"])
    first = record["bullets"][0] if record["bullets"] else ""
    return f"{record['title']} {record['description']} {first} {options}".lower()


def labels_of(record: dict[str, Any]) -> list[str]:
    """What WebShop's searches by ``<a>``, ``<c>`` and ``<q>`` find a product by."""
    attributes = [f"<a> {attribute}" for attribute in record["attributes"]]
    return [*attributes, f"<c> {record['category']}", f"<q> {record['query']}"]


def record_of(
    product: dict[str, Any], attributes: dict[str, Any], human: list[dict[str, Any]]
) -> dict[str, Any]:
    """WebShop's loading rules for one product: price, options, attributes, instruction."""
    pricing = _pricing(product.get("pricing"))
    bullets = product.get("small_description") or []
    return {
        "asin": product["asin"],
        "title": product.get("name") or "",
        "description": product.get("full_description") or "",
        "bullets": bullets if isinstance(bullets, list) else [bullets],
        "pricing": pricing,
        "price": " to ".join(f"${price}" for price in pricing),
        "rating": str(product.get("Rating", "N.A.")),
        "reviews": [_review(review) for review in product.get("Reviews", [])],
        "options": _options(product.get("customization_options") or {}),
        "attributes": attributes.get("attributes", [NO_ATTRIBUTE]),
        "query": str(product.get("query", "")).lower().strip(),
        "category": product.get("category", ""),
        "product_category": product.get("product_category", ""),
        "instruction": attributes.get("instruction") or "",
        "instruction_attributes": attributes.get("instruction_attributes") or [],
        "human": [_human(written) for written in human],
    }


def _pricing(given: Any) -> list[float]:
    """One price or the two ends of a range, from text such as ``$5.99 - $7.50``."""
    if isinstance(given, list) and given:
        return [float(price) for price in given[:2]]
    found = [re.sub(r"[^\d.]", "", part) for part in str(given or "").split("$")[1:]]
    try:
        return [float(price) for price in found[:2]] or [_UNPRICED]
    except ValueError as error:
        raise EnvDataError(f"the price '{given}' cannot be read: {error}") from error


def _options(given: dict[str, Any]) -> list[list[Any]]:
    """Names and values in lower case, in the shop's order; an option given twice keeps the later values."""
    options: dict[str, list[str]] = {}
    for name, contents in given.items():
        if contents is not None:
            options[name.lower()] = [
                str(content["value"]).strip().replace("/", " | ").lower() for content in contents
            ]
    return [[name, values] for name, values in options.items()]


def _review(review: dict[str, Any]) -> list[str]:
    stars = review.get("score", review.get("stars", ""))
    return [str(review.get("title", "")), str(stars), str(review.get("body", review.get("review", "")))]


def _human(written: dict[str, Any]) -> dict[str, Any]:
    options = written.get("instruction_options") or []
    return {
        "instruction": written["instruction"],
        "attributes": written.get("instruction_attributes") or [],
        "options": [list(pair) for pair in options.items()] if isinstance(options, dict) else options,
    }


def _open_source(source: Path) -> tuple[Iterator[dict[str, Any]], list[Path]]:
    """Product records of a folder or a compact file, and the files they come from."""
    if source.is_file():
        return _compact(source), [source]
    if not source.is_dir():
        raise EnvDataError(f"'{source}' does not exist; give WebShop's data folder, or a compact file")
    items = _newest(source, "items_shuffle*.json*")
    instructions = _newest(source, "items_ins_v2*.json*")
    people = sorted(source.rglob("items_human_ins.json*"))[:1]
    files = [items, instructions, *people]
    return _released(items, instructions, people), files


def _newest(folder: Path, pattern: str) -> Path:
    """The one file of a kind; of several the largest."""
    found = sorted(folder.rglob(pattern), key=lambda path: (path.stat().st_size, path.name))
    if not found:
        raise EnvDataError(f"there is no {pattern} under '{folder}'; download WebShop's data into it")
    return found[-1]


def _released(items: Path, instructions: Path, people: list[Path]) -> Iterator[dict[str, Any]]:
    attributes = _load(instructions)
    human = _load(people[0]) if people else {}
    with _open(items) as stream:
        yield from _records(stream_array(stream), attributes, human)


def _compact(path: Path) -> Iterator[dict[str, Any]]:
    content = _load(path)
    if not isinstance(content, dict) or not {"docs", "ins"} <= content.keys():
        raise EnvDataError(f"'{path}' has no 'docs' and 'ins'; give WebShop's data folder, or a compact file")
    products = [document["product"] for document in content["docs"]]
    human = {product["asin"]: product.get("instructions", []) for product in products}
    yield from _records(iter(products), content["ins"], human)


def _records(
    products: Iterator[dict[str, Any]], attributes: dict[str, Any], human: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Every product once; those without a proper id are left out, as WebShop does."""
    known: set[str] = set()
    for product in products:
        asin = str(product.get("asin", "nan"))
        if asin != "nan" and len(asin) <= _LONGEST_ID and asin not in known:
            known.add(asin)
            yield record_of(product, attributes.get(asin, {}), human.get(asin, []))


def stream_array(stream: IO[str]) -> Iterator[dict[str, Any]]:
    """The objects of one JSON array, without holding the array in memory."""
    decoder, text, ended = json.JSONDecoder(), "", False
    while True:
        text = text.lstrip("[, \r\n\t")
        try:
            if not text or text[0] == "]":
                raise ValueError("no object yet")
            value, end = decoder.raw_decode(text)
        except ValueError as error:
            more = "" if ended else stream.read(_CHUNK)
            ended = ended or not more
            if ended and text.lstrip("] \r\n\t"):
                raise EnvDataError(f"the list of products is broken: {error}") from error
            if ended:
                return
            text += more
            continue
        yield value
        text = text[end:]


def _open(path: Path) -> IO[str]:
    opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    return opener(path, "rt", encoding="utf-8")  # type: ignore[no-any-return]


def _load(path: Path) -> Any:
    try:
        with _open(path) as stream:
            return json.load(stream)
    except (ValueError, lzma.LZMAError, OSError, EOFError) as error:
        raise EnvDataError(f"'{path}' cannot be read: {error}") from error


def _file_hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
