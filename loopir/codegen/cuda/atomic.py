"""Emit atomic updates in CUDA C: by the hardware's instruction, or by a compare-and-swap loop."""

from __future__ import annotations

from loopir.codegen.cuda.values import CudaValues, memory_type, value_type
from loopir.ir.grammar import Op, Reduce, Value

ATOMIC_PRELUDE = """\
template <class W, class T, class F> __device__ __forceinline__ void lp_exchange(T* at, F fold) {
  union Both { W word; T value; } old, now;
  old.word = *reinterpret_cast<volatile W*>(at);
  for (;;) {
    now.value = fold(old.value);
    if (now.word == old.word) return;
    const W found = atomicCAS(reinterpret_cast<W*>(at), old.word, now.word);
    if (found == old.word) return;
    old.word = found;
  }
}
template <class T, class F> __device__ __forceinline__ void lp_exchange_byte(T* at, F fold) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(at);
  const unsigned int shift = 8u * (unsigned int)(address % 4);
  lp_exchange<unsigned int>(reinterpret_cast<unsigned int*>(address - address % 4), [&](unsigned int word) {
    const T now = fold((T)(word >> shift & 0xffu));
    return (word & ~(0xffu << shift)) | ((unsigned int)(unsigned char)now << shift);
  });
}
"""
_WORDS = {2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def update(s: Reduce, values: CudaValues) -> list[str]:
    """The lines that fold the value of `s`, a reduction into one buffer, into its element atomically."""
    (b,), (left,), (right,), (fold,) = s.buffers, s.monoid.left, s.monoid.right, s.monoid.combine
    address = f"&{values.element(b, s.at[0])}"
    value = f"const {value_type(right.type)} lp_r0 = {values.value(s.values[0])};"
    own = _own(fold, b.dtype.name, b.dtype.kind)
    if own is not None and {left, right} == set(fold.args if isinstance(fold, Op) else ()):
        return ["{", f"  {value}", f"  {own.format(address, 'lp_r0')};", "}"]
    env = {left.name: values.from_memory("lp_old", b.dtype), right.name: "lp_r0"}
    held = memory_type(b.dtype)
    now = values.to_memory(values.combined(fold, env), b.dtype)
    call = "lp_exchange_byte" if b.dtype.bytes == 1 else f"lp_exchange<{_WORDS[b.dtype.bytes]}>"
    return ["{", f"  {value}", f"  {call}({address}, [&]({held} lp_old) {{ return ({held})({now}); }});", "}"]


def _own(fold: Value, name: str, kind: str) -> str | None:
    """The hardware's update by `fold`, if there is one for the type."""
    return (fold.fn.cuda_atomic.get(name) or fold.fn.cuda_atomic.get(kind)) if isinstance(fold, Op) else None
