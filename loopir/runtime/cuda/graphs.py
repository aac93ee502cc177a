"""A call as a CUDA graph: all launches of a program, and the memory between them, handed to the GPU as one thing.

A graph is made of the arrays of one call and replayed on what they hold by then. The driver checks and prepares its
launches once, when it is made, so that a replay costs the same however many kernels there are.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopir.runtime.cuda.driver import Device


class Graph:
    """What a call launches, to be replayed: `graph()` does it again, on the same arrays, and gives the results.

    Replays run in the order of the stream that the arrays' library uses at the replay, and one at a time. The arrays
    live as long as the graph.
    """

    def __init__(
        self, gpu: Device, launches: Callable[[int], None], current: Callable[[], int], arrays: Any, results: Any,
        replay: Callable[[int, Any], Callable[[], Any]] | None = None, before: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """`launches` puts them on the stream with that handle; `current` tells the handle of the caller's.

        `replay` makes, of the graph and the results, what launches it on the caller's stream a shorter way, or gives
        NotImplemented. `before` is called at the begin of each replay.
        """
        self._before = before
        self.gpu, self.arrays, self.results = gpu, arrays, results
        self._current, self._exec = current, None
        cu, check = gpu.cu, gpu.check
        stream = check(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING), "make a stream")
        try:
            mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            check(cu.cuStreamBeginCapture(stream, mode), "begin a graph")
            try:
                launches(int(stream))
            finally:
                captured = cu.cuStreamEndCapture(stream)
            made = check(captured, "end a graph")
            self._exec = check(cu.cuGraphInstantiate(made, 0), "make a graph ready")
            check(cu.cuGraphDestroy(made), "let go of a graph")
        finally:
            check(cu.cuStreamDestroy(stream), "let go of a stream")
        self._replay = (lambda: NotImplemented) if replay is None else replay(int(self._exec), results)

    def __call__(self) -> Any:
        if self._before is not None:
            self._before()
        if (again := self._replay()) is not NotImplemented:
            return again
        cu, stream = self.gpu.cu, self._current()
        (error,) = cu.cuGraphLaunch(self._exec, stream)
        if error != cu.CUresult.CUDA_SUCCESS:
            with self.gpu.here():  # this thread may have had another context, or none yet
                self.gpu.check(cu.cuGraphLaunch(self._exec, stream), "launch a graph")
        return self.results

    def __del__(self) -> None:
        if self._exec is not None:
            self.gpu.cu.cuGraphExecDestroy(self._exec)
