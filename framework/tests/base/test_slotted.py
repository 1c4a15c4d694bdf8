"""Classes whose slots are filled directly behave like any other frozen dataclass."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import ClassVar

import pytest
from pegboard import Usage
from pegboard.base.slotted import direct_init


@dataclass(frozen=True, slots=True)
class Head:
    """Fields that a subclass has as well."""

    kind: ClassVar[str] = ""

    name: str


@direct_init
@dataclass(frozen=True, slots=True)
class Whole(Head):
    """With a default of its own."""

    size: int
    parts: tuple[int, ...] = ()


def test_arguments_and_defaults_are_those_of_the_dataclass() -> None:
    assert Whole("a", 1) == Whole(name="a", size=1, parts=()) == replace(Whole("b", 1), name="a")
    assert str(inspect.signature(Whole)) == "(name: str, size: int, parts: tuple[int, ...] = ()) -> None"


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(TypeError, match=r"Whole.__init__\(\) missing 1 required positional argument: 'size'"):
        Whole("a")  # type: ignore[call-arg]


def test_nobody_can_change_what_was_made() -> None:
    with pytest.raises(FrozenInstanceError):
        Usage(1, 2).input_tokens = 3  # type: ignore[misc]


def test_a_copy_and_what_comes_out_of_a_pickle_are_equal() -> None:
    usage = Usage(1, 2)
    assert pickle.loads(pickle.dumps(usage)) == copy.deepcopy(usage) == usage


def test_what_does_more_than_fill_its_slots_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Listed:
        names: list[str] = field(default_factory=list)

    with pytest.raises(TypeError, match="Listed does more"):
        direct_init(Listed)
