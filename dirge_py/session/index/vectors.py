"""The vectors of texts, kept in a file so that each text is embedded only once."""

import hashlib
import math
from array import array
from collections.abc import Mapping, Sequence
from operator import mul
from pathlib import Path
from typing import TypeAlias

from dirge_py.files.atomic import atomic_write

Vector: TypeAlias = "array[float]"
"""Numbers of single precision; the sum of their squares is 1."""

_HEADER = b"dirge vectors 1\n"
_KEY_BYTES = 32


def unit_vector(numbers: Sequence[float]) -> Vector:
    """The vector of length 1 in the same direction; zeros stay zeros."""
    length = math.sqrt(sum(map(mul, numbers, numbers))) or 1.0
    return array("f", [number / length for number in numbers])


def likeness(one: Vector, other: Vector) -> float:
    """The cosine of the angle between them, 1 for the same direction; 0 if they don't compare."""
    return sum(map(mul, one, other)) if len(one) == len(other) else 0.0


def text_key(text: str) -> bytes:
    """What a file stores instead of the text."""
    return hashlib.sha256(text.encode(errors="replace")).digest()


def vector_file(folder: Path, project: str, model: str) -> Path:
    """The file for the texts of a project, and this model."""
    name = hashlib.sha256(f"{project}\n{model}".encode()).hexdigest()[:16]
    return folder / f"{name}.vectors"


def read_vectors(path: Path) -> dict[bytes, Vector]:
    """The vectors in the file by `text_key`; none if it is absent or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    header, size = content[: len(_HEADER)], content[len(_HEADER) : len(_HEADER) + 4]
    rows, width = content[len(_HEADER) + 4 :], _KEY_BYTES + 4 * int.from_bytes(size, "big")
    if header != _HEADER or width == _KEY_BYTES or len(rows) % width:
        return {}
    return {
        rows[at : at + _KEY_BYTES]: array("f", rows[at + _KEY_BYTES : at + width])
        for at in range(0, len(rows), width)
    }


def write_vectors(path: Path, vectors: Mapping[bytes, Vector]) -> None:
    """Replace the file; all vectors must have the same length. Raises OSError or FileError."""
    size = len(next(iter(vectors.values()), ()))
    rows = b"".join(key + vector.tobytes() for key, vector in vectors.items())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic_write(path, _HEADER + size.to_bytes(4, "big") + rows, mode=0o600)
