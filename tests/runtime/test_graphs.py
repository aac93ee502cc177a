"""A call as a graph: captured on a stream of its own, replayed on the caller's, let go of when nobody has it."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from loopir.errors import TargetError
from loopir.runtime.cuda.graphs import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN, MADE, READY = 11, 22, 33
"""The handles of the stream that a graph is captured on, of the graph, and of what is launched."""
GIVES = {"cuStreamCreate": OWN, "cuStreamEndCapture": MADE, "cuGraphInstantiate": READY}


class Driver:
    """A driver that notes what it is asked for, and fails where it is told to."""

    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING="apart")
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL="this thread")
    CUresult = SimpleNamespace(CUDA_SUCCESS=0)

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.fails: dict[str, list[int]] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args: Any) -> tuple[Any, ...]:
            self.asked.append((name, *args))
            code = self.fails[name].pop(0) if self.fails.get(name) else 0
            return (code, GIVES[name]) if name in GIVES else (code,)

        return call


class Gpu:
    def __init__(self) -> None:
        self.cu, self.contexts = Driver(), 0

    def check(self, result: tuple[Any, ...], what: str) -> Any:
        if result[0]:
            raise TargetError(f"the GPU could not {what}: {result[0]}")
        return result[1] if len(result) == 2 else result[1:]

    @contextmanager
    def here(self) -> Iterator[None]:
        self.contexts += 1
        yield


def graph(gpu: Gpu, **how: Any) -> Graph:
    launches = how.pop("launches", lambda stream: gpu.cu.asked.append(("launches", stream)))
    return Graph(gpu, launches, lambda: 5, ["arrays"], "results", **how)  # type: ignore[arg-type]


def test_launches_are_captured_on_a_stream_of_their_own_and_replayed_on_the_callers() -> None:
    gpu = Gpu()
    made = graph(gpu)
    assert gpu.cu.asked == [
        ("cuStreamCreate", "apart"),
        ("cuStreamBeginCapture", OWN, "this thread"),
        ("launches", OWN),
        ("cuStreamEndCapture", OWN),
        ("cuGraphInstantiate", MADE, 0),
        ("cuGraphDestroy", MADE),
        ("cuStreamDestroy", OWN),
    ]
    gpu.cu.asked.clear()
    assert [made(), made()] == ["results"] * 2
    assert gpu.cu.asked == [("cuGraphLaunch", READY, 5)] * 2
    gpu.cu.asked.clear()
    del made
    assert gpu.cu.asked == [("cuGraphExecDestroy", READY)]


def test_what_fails_while_it_is_captured_ends_the_capture_and_lets_go_of_the_stream() -> None:
    gpu = Gpu()

    def launches(stream: int) -> None:
        raise TargetError("no memory is left")

    with pytest.raises(TargetError, match="no memory is left"):
        graph(gpu, launches=launches)
    names = [name for name, *_ in gpu.cu.asked]
    assert names[-2:] == ["cuStreamEndCapture", "cuStreamDestroy"]
    assert "cuGraphExecDestroy" not in names  # nothing was made


@pytest.mark.parametrize("name", ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate"])
def test_what_the_driver_refuses_is_told_and_the_stream_is_let_go_of(name: str) -> None:
    gpu = Gpu()
    gpu.cu.fails[name] = [700]
    with pytest.raises(TargetError, match=r"the GPU could not .*700"):
        graph(gpu)
    assert ("cuStreamDestroy", OWN) in gpu.cu.asked


def test_in_a_thread_with_another_context_it_is_launched_again_in_its_own() -> None:
    gpu = Gpu()
    made = graph(gpu)
    gpu.cu.fails["cuGraphLaunch"] = [201]
    assert made() == "results"
    assert gpu.contexts == 1
    gpu.cu.fails["cuGraphLaunch"] = [201, 700]
    with pytest.raises(TargetError, match="the GPU could not launch a graph: 700"):
        made()


def test_a_shorter_way_is_taken_where_there_is_one() -> None:
    gpu, done = Gpu(), list[str]()
    answers: list[Any] = ["short", NotImplemented]

    def replay(ready: int, results: Any) -> Any:
        assert (ready, results) == (READY, "results")
        return lambda: answers.pop(0)

    made = graph(gpu, replay=replay, before=lambda: done.append("before"))
    gpu.cu.asked.clear()
    assert [made(), made()] == ["short", "results"]
    assert gpu.cu.asked == [("cuGraphLaunch", READY, 5)]
    assert done == ["before"] * 2
