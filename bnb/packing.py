"""Problems and nodes as bytes, for other processes.

By cloudpickle, so that classes of a script or a notebook, which other processes cannot import, go
along. A node keeps its warm start on the way, which `Problem.encode` may leave out.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

from .problem import Problem
from .queue import Node


@dataclass(frozen=True)
class Packed:
    """The state of a node that only passes through."""

    data: bytes


def pack_problem(problem: Problem) -> bytes:
    """The problem for another process."""
    try:
        return cloudpickle.dumps(problem)
    except Exception as error:
        raise TypeError(
            f"workers: this {type(problem).__name__} cannot be sent to another process: {error}. "
            "Leave out of __getstate__ what cannot be pickled"
        ) from None


def unpack_problem(data: bytes) -> Problem:
    """The problem back."""
    return pickle.loads(data)


def pack(node: Node) -> Node:
    """The node with all but its numbers as bytes."""
    if isinstance(node.state, Packed):
        return node
    data = cloudpickle.dumps((node.state, node.origin, node.evaluation))
    return replace(node, state=Packed(data), origin=None, evaluation=None)


def unpack(node: Node) -> Node:
    """The node as it was."""
    if not isinstance(node.state, Packed):
        return node
    state, origin, evaluation = pickle.loads(node.state.data)
    return replace(node, state=state, origin=origin, evaluation=evaluation)


def portable(error: Exception) -> Exception:
    """The error, or one that says the same, if it cannot be sent."""
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:
        return RuntimeError(repr(error))
    return error


def dump(value: Any) -> bytes:
    """Anything, such as a user's branching rule."""
    return cloudpickle.dumps(value)
