# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Stand-in of torch: one-dimensional uint8 tensors in this process's memory, whatever device they say they are on.

As much as upstream's tools/test_memfabric_pd_read.py and memfabric_hybrid use; everything else is missing on purpose.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Iterator

__version__ = "2.10.0"
uint8 = "torch.uint8"
bfloat16 = "torch.bfloat16"
# memfabric_hybrid asks for this name when it compiles its offload library (_acc_offload_build.py).
_C = types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)
_SIZES = {uint8: 1, bfloat16: 2}


class Tensor:
    """A window on ctypes memory; slices share it, as in torch."""

    def __init__(self, memory: ctypes.Array, start: int, length: int, dtype: str = uint8) -> None:
        self._memory, self._start, self._length, self.dtype = memory, start, length, dtype

    @classmethod
    def of(cls, content: bytes) -> Tensor:
        return cls((ctypes.c_uint8 * len(content)).from_buffer_copy(content or b""), 0, len(content))

    def __bytes__(self) -> bytes:
        return bytes(memoryview(self._memory).cast("B")[self._start : self._start + self._length])

    tobytes = __bytes__

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | slice) -> int | Tensor:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            assert step == 1, "the stand-in has no strides"
            return Tensor(self._memory, self._start + start, max(stop - start, 0), self.dtype)
        return bytes(self)[index]

    def __iter__(self) -> Iterator[int]:
        return iter(bytes(self))

    def __ne__(self, other: object) -> list[bool]:  # type: ignore[override]
        return [mine != theirs for mine, theirs in zip(bytes(self), bytes(other), strict=True)]  # type: ignore[call-overload]

    __hash__ = None  # type: ignore[assignment]

    def repeat(self, times: int) -> Tensor:
        return Tensor.of(bytes(self) * times)

    def to(self, _device: object) -> Tensor:
        return Tensor.of(bytes(self))

    def cpu(self) -> Tensor:
        return self

    contiguous = detach = numpy = cpu

    def reshape(self, _sizes: object) -> Tensor:
        return self

    def fill_(self, value: int) -> Tensor:
        ctypes.memset(self.data_ptr(), value, self._length)
        return self

    def data_ptr(self) -> int:
        return ctypes.addressof(self._memory) + self._start

    def element_size(self) -> int:
        return _SIZES[self.dtype]


class _Indices(list):
    def flatten(self) -> _Indices:
        return self

    def numel(self) -> int:
        return len(self)


def device(name: str) -> str:
    return name


def tensor(values: list[int], dtype: str = uint8) -> Tensor:
    made = Tensor.of(bytes(values))
    made.dtype = dtype
    return made


def arange(stop: int, dtype: str = uint8, device: str = "cpu") -> Tensor:
    return Tensor.of(bytes(range(stop)))


def full(size: tuple[int, ...], value: int, dtype: str = uint8, device: str = "cpu") -> Tensor:
    return Tensor.of(bytes([value]) * size[0])


def frombuffer(memory: ctypes.Array, dtype: str = uint8) -> Tensor:
    return Tensor(memory, 0, ctypes.sizeof(memory), dtype)


def equal(one: Tensor, other: Tensor) -> bool:
    return bytes(one) == bytes(other)


def nonzero(flags: list[bool], as_tuple: bool = False) -> _Indices:
    return _Indices(index for index, flag in enumerate(flags) if flag)


def compiled_with_cxx11_abi() -> bool:
    return True
