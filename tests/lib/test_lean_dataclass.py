"""A lean dataclass behaves like a standard one."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from dirge_py.lib.lean_dataclass import dataclass as lean


def _point(dataclass: Callable[..., Any], **options: Any) -> Any:
    @dataclass(frozen=True, slots=True, **options)
    class Point:
        """A point."""

        x: int
        y: int = 0
        seen: list[int] = field(default_factory=list)
        name: str = field(default="", kw_only=True)
        secret: str = field(default="s", repr=False, compare=False)
        twice: int = field(init=False, default=2)

        @property
        def sum(self) -> int:
            return self.x + self.y

    return Point


@lean(frozen=True, slots=True)
class Named:
    """At module level, so that pickle finds it."""

    first: str
    second: tuple[int, ...] = ()


@pytest.fixture(params=[{}, {"kw_only": True}], ids=["positional", "keywords"])
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return _point(lean, **request.param), _point(dataclasses.dataclass, **request.param)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x": 1}, {"x": 1, "y": 2, "seen": [3], "name": "n", "secret": "t"}, {"x": 1, "no": 2}],
)
def test_constructor_works_like_dataclasses(
    pair: tuple[Any, Any], arguments: dict[str, Any]
) -> None:
    assert _outcome(pair[0], arguments) == _outcome(pair[1], arguments)


def _outcome(point: Any, arguments: dict[str, Any]) -> Any:
    try:
        made = point(**arguments)
    except TypeError as error:
        return str(error)
    return dataclasses.asdict(made), repr(made), made.sum


def test_positional_arguments_work_like_dataclasses() -> None:
    ours, theirs = _point(lean), _point(dataclasses.dataclass)
    assert dataclasses.asdict(ours(1, 2, [3])) == dataclasses.asdict(theirs(1, 2, [3]))
    assert ours.__match_args__ == theirs.__match_args__
    match ours(4, 5):
        case ours(x, y):
            assert (x, y) == (4, 5)


def test_fields_and_signature_equal_those_of_dataclasses(pair: tuple[Any, Any]) -> None:
    told = [[(f.name, f.kw_only, f.init, f.repr) for f in dataclasses.fields(p)] for p in pair]
    assert told[0] == told[1]
    made = [point(x=1) for point in pair]
    names = [list(inspect.signature(type(each)).parameters) for each in made]
    assert names[0] == names[1]
    assert not any(hasattr(each, "__dict__") for each in made)


def test_equal_instances_have_equal_hashes() -> None:
    assert Named("a", (1,)) == Named("a", (1,))
    assert Named("a") != Named("b")
    assert len({Named("a"), Named("a"), Named("b")}) == 2
    assert Named("a") != ("a", ())


def test_instance_with_a_list_is_not_hashable(pair: tuple[Any, Any]) -> None:
    for point in pair:
        with pytest.raises(TypeError, match="unhashable"):
            hash(point(x=1))


def test_frozen_instance_rejects_assignment_and_deletion() -> None:
    value = Named("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="assign to field 'first'"):
        value.first = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="delete field 'first'"):
        del value.first  # type: ignore[misc]
    with pytest.raises(AttributeError):
        value.third = 1  # type: ignore[attr-defined]


def test_copies_replacements_and_pickles_are_equal() -> None:
    value = Named("a", (1, 2))
    assert dataclasses.replace(value, first="b") == Named("b", (1, 2))
    assert copy.copy(value) == copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


def test_lean_and_standard_dataclasses_can_inherit_from_it() -> None:
    @lean(frozen=True, slots=True)
    class Further(Named):
        """One more field."""

        third: int = 3

    @dataclasses.dataclass(frozen=True, slots=True)
    class Furthest(Further):
        """Another field."""

        fourth: int = 4

    assert repr(Further("a")).endswith("Further(first='a', second=(), third=3)")
    assert dataclasses.astuple(Furthest("a", (1,), 2, 5)) == ("a", (1,), 2, 5)
    assert Further("a") != Named("a")
    assert Named("a") == Named("a")


def test_methods_defined_by_the_class_are_kept() -> None:
    @lean(frozen=True, slots=True)
    class Own:
        """Has its own `__repr__` and `__post_init__`."""

        text: str

        def __post_init__(self) -> None:
            if not self.text:
                raise ValueError("empty")

        def __repr__(self) -> str:
            return "own"

    assert repr(Own("a")) == "own"
    assert Own("a") == Own("a")
    with pytest.raises(ValueError, match="empty"):
        Own("")


def _counter(dataclass: Callable[..., Any], **options: Any) -> Any:
    @dataclass(slots=True, **options)
    class Counter:
        """Counts."""

        name: str
        count: int = 0
        seen: list[int] = field(default_factory=list)

    return Counter


@pytest.mark.parametrize("options", [{}, {"kw_only": True}, {"eq": False}])
def test_instances_that_are_not_frozen_work_like_dataclasses(options: dict[str, Any]) -> None:
    ours, theirs = _counter(lean, **options), _counter(dataclasses.dataclass, **options)
    for counter in (ours, theirs):
        one, same = counter(name="a"), counter(name="a")
        one.count += 1
        one.seen.append(2)
        assert (one.count, one.seen, same.seen) == (1, [2], [])
        assert (same == counter(name="a")) == options.get("eq", True)
        with pytest.raises(AttributeError):
            one.other = 1
        assert dataclasses.replace(one, name="b").count == 1
    assert repr(ours(name="a")) == repr(theirs(name="a"))
    assert (ours.__hash__ is None) == (theirs.__hash__ is None) == options.get("eq", True)


def test_inherited_fields_keep_their_place_and_may_get_another_default() -> None:
    def family(dataclass: Callable[..., Any]) -> Any:
        @dataclass(frozen=True, slots=True)
        class Base:
            """Two fields."""

            first: int
            second: int = 2

        @dataclass(frozen=True, slots=True)
        class Child(Base):
            """Another default, and one more field."""

            second: int = 3
            third: int = field(default=4, kw_only=True)

        return Child

    ours, theirs = family(lean), family(dataclasses.dataclass)
    assert dataclasses.astuple(ours(1)) == dataclasses.astuple(theirs(1)) == (1, 3, 4)
    assert ours.__match_args__ == theirs.__match_args__
    assert [each.name for each in dataclasses.fields(ours)] == ["first", "second", "third"]


def test_frozen_and_other_classes_do_not_mix() -> None:
    with pytest.raises(TypeError, match="both be frozen"):

        @lean(slots=True)
        class Loose(Named):
            """Not frozen, unlike its base."""
