"""Stands in for `reasoning_gym/data/__init__.py`: the same two functions, with texts that are read while the component is built.

The library reads its data files when a dataset is made. A component has no files then, so all of them are read at import.
"""

import io
from pathlib import Path

_TEXTS: dict[str, str] = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted(Path(__file__).parent.iterdir())
    if path.suffix in (".csv", ".json", ".jsonl", ".txt")
}


class DataFile:
    """The part of `pathlib.Path` that the library uses."""

    def __init__(self, name: str):
        self.name = name

    def __fspath__(self) -> str:
        # For `open(path)` at import, while the component is built: the file is there then.
        return str(Path(__file__).parent / self.name)

    def read_text(self, encoding: str = "utf-8") -> str:
        return _TEXTS[self.name]

    def open(self, mode: str = "r", encoding: str = "utf-8") -> io.StringIO:
        if mode != "r":
            raise ValueError(f"{self.name}: can only be read as text")
        return io.StringIO(_TEXTS[self.name])


def get_data_file_path(filename: str) -> DataFile:
    return DataFile(filename)


def read_data_file(filename: str) -> str:
    return _TEXTS[filename]
