# SPDX-License-Identifier: Apache-2.0
"""Every published latency against the cost models: ``python -m benchmarks.cost [-v]``, ``-v`` with a line for each."""

from benchmarks.cost import cpu, npu, rknn

for part in (cpu, npu, rknn):
    title = (part.__doc__ or "").strip().partition("\n")[0]
    print(f"{title}\n")
    part.main()
    print()
