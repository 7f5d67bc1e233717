# SPDX-License-Identifier: Apache-2.0
"""The structs of the TFLite C API as a delegate sees them, on 64-bit Linux: tflite-runtime 2.14 to LiteRT 2.3.

Names are those of the C API. Members that nobody here reads are plain pointers.
"""

from __future__ import annotations

import ctypes as c

DELEGATE_OP = 51
ALLOW_DYNAMIC_TENSORS = 1
ALLOCATION_TYPES = (
    "none", "mmap_ro", "arena_rw", "arena_rw_persistent", "dynamic", "persistent_ro", "custom", "variant", "non_cpu",
)  # fmt: skip


class Tensor(c.Structure):
    _fields_ = [
        ("type", c.c_int), ("data", c.c_void_p), ("dims", c.c_void_p), ("params", c.c_int * 2),
        ("allocation_type", c.c_int), ("bytes", c.c_size_t), ("allocation", c.c_void_p), ("name", c.c_void_p),
        ("delegate", c.c_void_p), ("buffer_handle", c.c_int), ("data_is_stale", c.c_bool), ("is_variable", c.c_bool),
        ("quantization", c.c_int), ("quantization_params", c.c_void_p), ("sparsity", c.c_void_p),
        ("dims_signature", c.c_void_p),
    ]  # fmt: skip


class Node(c.Structure):
    _fields_ = [
        ("inputs", c.c_void_p), ("outputs", c.c_void_p), ("intermediates", c.c_void_p), ("temporaries", c.c_void_p),
        ("user_data", c.c_void_p), ("builtin_data", c.c_void_p), ("custom_initial_data", c.c_void_p),
        ("custom_initial_data_size", c.c_int), ("delegate", c.c_void_p), ("might_have_side_effect", c.c_bool),
    ]  # fmt: skip


class DelegateParams(c.Structure):
    _fields_ = [
        ("delegate", c.c_void_p), ("nodes_to_replace", c.c_void_p), ("inputs", c.c_void_p), ("outputs", c.c_void_p),
    ]  # fmt: skip


INIT = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_void_p, c.c_size_t)
STEP = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p)


class Registration(c.Structure):
    _fields_ = [
        ("init", INIT), ("free", c.c_void_p), ("prepare", STEP), ("invoke", STEP), ("profiling_string", c.c_void_p),
        ("builtin_code", c.c_int32), ("custom_name", c.c_char_p), ("version", c.c_int),
        ("registration_external", c.c_void_p), ("async_kernel", c.c_void_p), ("inplace_operator", c.c_uint64),
    ]  # fmt: skip


class Context(c.Structure):
    pass


ContextPointer = c.POINTER(Context)
Context._fields_ = [
    ("tensors_size", c.c_size_t),
    ("GetExecutionPlan", c.CFUNCTYPE(c.c_int, ContextPointer, c.POINTER(c.c_void_p))),
    ("tensors", c.POINTER(Tensor)),
    ("impl", c.c_void_p),
    ("ResizeTensor", c.c_void_p),
    ("ReportError", c.c_void_p),
    ("AddTensors", c.c_void_p),
    (
        "GetNodeAndRegistration",
        c.CFUNCTYPE(c.c_int, ContextPointer, c.c_int, c.POINTER(c.POINTER(Node)), c.POINTER(c.POINTER(Registration))),
    ),
    (
        "ReplaceNodeSubsetsWithDelegateKernels",
        c.CFUNCTYPE(c.c_int, ContextPointer, Registration, c.c_void_p, c.c_void_p),
    ),
    ("recommended_num_threads", c.c_int),
    ("GetExternalContext", c.c_void_p),
    ("SetExternalContext", c.c_void_p),
    ("allow_fp32_relax_to_fp16", c.c_bool),
    ("unused", c.c_void_p * 9),  # profiler to GetEvalTensor
    ("GetModelMetadata", c.c_void_p),
    ("AcquireSubgraphContext", c.CFUNCTYPE(c.c_int, ContextPointer, c.c_int, c.POINTER(ContextPointer))),
    ("ReleaseSubgraphContext", c.CFUNCTYPE(c.c_int, ContextPointer, c.c_int)),
]

PREPARE = c.CFUNCTYPE(c.c_int, ContextPointer, c.c_void_p)


class Delegate(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("Prepare", PREPARE), ("CopyFromBufferHandle", c.c_void_p),
        ("CopyToBufferHandle", c.c_void_p), ("FreeBufferHandle", c.c_void_p), ("flags", c.c_int64),
        ("opaque_delegate_builder", c.c_void_p),
    ]  # fmt: skip


_BYTES = {Tensor: 112, Node: 80, Registration: 88, Context: 200, Delegate: 56}


def check() -> None:
    """Raises RuntimeError on a platform whose structs are laid out otherwise."""
    wrong = [kind.__name__ for kind, size in _BYTES.items() if c.sizeof(kind) != size]
    if wrong:
        raise RuntimeError(f"{', '.join(wrong)}: not the struct sizes of 64-bit Linux")
