from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HelloRequest(_message.Message):
    __slots__ = ("version", "protocol", "client")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    version: str
    protocol: int
    client: str
    def __init__(self, version: _Optional[str] = ..., protocol: _Optional[int] = ..., client: _Optional[str] = ...) -> None: ...

class HelloReply(_message.Message):
    __slots__ = ("version", "protocol")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    version: str
    protocol: int
    def __init__(self, version: _Optional[str] = ..., protocol: _Optional[int] = ...) -> None: ...

class ProbeRequest(_message.Message):
    __slots__ = ("software",)
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    software: _containers.RepeatedCompositeFieldContainer[Software]
    def __init__(self, software: _Optional[_Iterable[_Union[Software, _Mapping]]] = ...) -> None: ...

class Software(_message.Message):
    __slots__ = ("backend", "nodes", "drivers", "driver_versions", "libraries")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    DRIVERS_FIELD_NUMBER: _ClassVar[int]
    DRIVER_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    LIBRARIES_FIELD_NUMBER: _ClassVar[int]
    backend: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    drivers: _containers.RepeatedScalarFieldContainer[str]
    driver_versions: _containers.RepeatedScalarFieldContainer[str]
    libraries: _containers.RepeatedCompositeFieldContainer[Library]
    def __init__(self, backend: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., drivers: _Optional[_Iterable[str]] = ..., driver_versions: _Optional[_Iterable[str]] = ..., libraries: _Optional[_Iterable[_Union[Library, _Mapping]]] = ...) -> None: ...

class Library(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("name", "compatible", "architecture", "kernel", "libc", "python", "clusters", "temperatures", "ram", "npus", "runtime", "load_average", "throttles", "runtime_error", "iommu", "sources")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMPATIBLE_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LIBC_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURES_FIELD_NUMBER: _ClassVar[int]
    RAM_FIELD_NUMBER: _ClassVar[int]
    NPUS_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    LOAD_AVERAGE_FIELD_NUMBER: _ClassVar[int]
    THROTTLES_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_ERROR_FIELD_NUMBER: _ClassVar[int]
    IOMMU_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    compatible: _containers.RepeatedScalarFieldContainer[str]
    architecture: str
    kernel: str
    libc: str
    python: str
    clusters: _containers.RepeatedCompositeFieldContainer[Cluster]
    temperatures: _containers.RepeatedCompositeFieldContainer[Temperature]
    ram: Ram
    npus: _containers.RepeatedCompositeFieldContainer[Npu]
    runtime: Runtime
    load_average: float
    throttles: _containers.RepeatedCompositeFieldContainer[Throttle]
    runtime_error: str
    iommu: Iommu
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    def __init__(self, name: _Optional[str] = ..., compatible: _Optional[_Iterable[str]] = ..., architecture: _Optional[str] = ..., kernel: _Optional[str] = ..., libc: _Optional[str] = ..., python: _Optional[str] = ..., clusters: _Optional[_Iterable[_Union[Cluster, _Mapping]]] = ..., temperatures: _Optional[_Iterable[_Union[Temperature, _Mapping]]] = ..., ram: _Optional[_Union[Ram, _Mapping]] = ..., npus: _Optional[_Iterable[_Union[Npu, _Mapping]]] = ..., runtime: _Optional[_Union[Runtime, _Mapping]] = ..., load_average: _Optional[float] = ..., throttles: _Optional[_Iterable[_Union[Throttle, _Mapping]]] = ..., runtime_error: _Optional[str] = ..., iommu: _Optional[_Union[Iommu, _Mapping]] = ..., sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("field", "origin", "problem")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    field: str
    origin: str
    problem: str
    def __init__(self, field: _Optional[str] = ..., origin: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("cpus", "core", "isa", "min_khz", "max_khz", "now_khz", "governor")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    CORE_FIELD_NUMBER: _ClassVar[int]
    ISA_FIELD_NUMBER: _ClassVar[int]
    MIN_KHZ_FIELD_NUMBER: _ClassVar[int]
    MAX_KHZ_FIELD_NUMBER: _ClassVar[int]
    NOW_KHZ_FIELD_NUMBER: _ClassVar[int]
    GOVERNOR_FIELD_NUMBER: _ClassVar[int]
    cpus: _containers.RepeatedScalarFieldContainer[int]
    core: str
    isa: _containers.RepeatedScalarFieldContainer[str]
    min_khz: int
    max_khz: int
    now_khz: int
    governor: str
    def __init__(self, cpus: _Optional[_Iterable[int]] = ..., core: _Optional[str] = ..., isa: _Optional[_Iterable[str]] = ..., min_khz: _Optional[int] = ..., max_khz: _Optional[int] = ..., now_khz: _Optional[int] = ..., governor: _Optional[str] = ...) -> None: ...

class Temperature(_message.Message):
    __slots__ = ("zone", "celsius")
    ZONE_FIELD_NUMBER: _ClassVar[int]
    CELSIUS_FIELD_NUMBER: _ClassVar[int]
    zone: str
    celsius: float
    def __init__(self, zone: _Optional[str] = ..., celsius: _Optional[float] = ...) -> None: ...

class Throttle(_message.Message):
    __slots__ = ("name", "state", "most", "count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: int
    most: int
    count: int
    def __init__(self, name: _Optional[str] = ..., state: _Optional[int] = ..., most: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class Ram(_message.Message):
    __slots__ = ("total_bytes", "available_bytes", "swap_bytes", "cma_bytes", "swap_free_bytes", "cma_free_bytes", "dma_heaps")
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SWAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    CMA_BYTES_FIELD_NUMBER: _ClassVar[int]
    SWAP_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CMA_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DMA_HEAPS_FIELD_NUMBER: _ClassVar[int]
    total_bytes: int
    available_bytes: int
    swap_bytes: int
    cma_bytes: int
    swap_free_bytes: int
    cma_free_bytes: int
    dma_heaps: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, total_bytes: _Optional[int] = ..., available_bytes: _Optional[int] = ..., swap_bytes: _Optional[int] = ..., cma_bytes: _Optional[int] = ..., swap_free_bytes: _Optional[int] = ..., cma_free_bytes: _Optional[int] = ..., dma_heaps: _Optional[_Iterable[str]] = ...) -> None: ...

class Iommu(_message.Message):
    __slots__ = ("units", "groups")
    UNITS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    units: _containers.RepeatedScalarFieldContainer[str]
    groups: int
    def __init__(self, units: _Optional[_Iterable[str]] = ..., groups: _Optional[int] = ...) -> None: ...

class Npu(_message.Message):
    __slots__ = ("backend", "kind", "path", "driver", "version", "source", "problem", "iommu")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    IOMMU_FIELD_NUMBER: _ClassVar[int]
    backend: str
    kind: str
    path: str
    driver: str
    version: str
    source: str
    problem: str
    iommu: bool
    def __init__(self, backend: _Optional[str] = ..., kind: _Optional[str] = ..., path: _Optional[str] = ..., driver: _Optional[str] = ..., version: _Optional[str] = ..., source: _Optional[str] = ..., problem: _Optional[str] = ..., iommu: bool = ...) -> None: ...

class Runtime(_message.Message):
    __slots__ = ("name", "version", "xnnpack_ops", "ops")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    XNNPACK_OPS_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    xnnpack_ops: int
    ops: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., xnnpack_ops: _Optional[int] = ..., ops: _Optional[int] = ...) -> None: ...

class File(_message.Message):
    __slots__ = ("sha256", "size", "path")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    size: int
    path: str
    def __init__(self, sha256: _Optional[str] = ..., size: _Optional[int] = ..., path: _Optional[str] = ...) -> None: ...

class PrepareRequest(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[File]
    def __init__(self, files: _Optional[_Iterable[_Union[File, _Mapping]]] = ...) -> None: ...

class PrepareReply(_message.Message):
    __slots__ = ("missing", "folder", "free_bytes")
    MISSING_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    missing: _containers.RepeatedScalarFieldContainer[str]
    folder: str
    free_bytes: int
    def __init__(self, missing: _Optional[_Iterable[str]] = ..., folder: _Optional[str] = ..., free_bytes: _Optional[int] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("model", "inputs", "threads", "cpus", "without_xnnpack", "deadline_s", "memory_bytes", "wait", "signature", "shapes", "delegate", "plan")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_XNNPACK_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SHAPES_FIELD_NUMBER: _ClassVar[int]
    DELEGATE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    model: str
    inputs: str
    threads: int
    cpus: str
    without_xnnpack: bool
    deadline_s: float
    memory_bytes: int
    wait: bool
    signature: str
    shapes: _containers.RepeatedCompositeFieldContainer[Shape]
    delegate: str
    plan: str
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[str] = ..., threads: _Optional[int] = ..., cpus: _Optional[str] = ..., without_xnnpack: bool = ..., deadline_s: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., wait: bool = ..., signature: _Optional[str] = ..., shapes: _Optional[_Iterable[_Union[Shape, _Mapping]]] = ..., delegate: _Optional[str] = ..., plan: _Optional[str] = ...) -> None: ...

class Shape(_message.Message):
    __slots__ = ("tensor", "dims")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    tensor: int
    dims: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tensor: _Optional[int] = ..., dims: _Optional[_Iterable[int]] = ...) -> None: ...

class MeasureRequest(_message.Message):
    __slots__ = ("settings", "warmup", "most_runs", "most_s", "batch_s", "first", "governor", "cool_c", "cooling_s")
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    WARMUP_FIELD_NUMBER: _ClassVar[int]
    MOST_RUNS_FIELD_NUMBER: _ClassVar[int]
    MOST_S_FIELD_NUMBER: _ClassVar[int]
    BATCH_S_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    GOVERNOR_FIELD_NUMBER: _ClassVar[int]
    COOL_C_FIELD_NUMBER: _ClassVar[int]
    COOLING_S_FIELD_NUMBER: _ClassVar[int]
    settings: Settings
    warmup: int
    most_runs: int
    most_s: float
    batch_s: float
    first: bytes
    governor: str
    cool_c: float
    cooling_s: float
    def __init__(self, settings: _Optional[_Union[Settings, _Mapping]] = ..., warmup: _Optional[int] = ..., most_runs: _Optional[int] = ..., most_s: _Optional[float] = ..., batch_s: _Optional[float] = ..., first: _Optional[bytes] = ..., governor: _Optional[str] = ..., cool_c: _Optional[float] = ..., cooling_s: _Optional[float] = ...) -> None: ...

class MeasureEvent(_message.Message):
    __slots__ = ("progress", "effective", "runtime", "memory", "start", "batch", "failure", "done", "claims")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    effective: Effective
    runtime: Runtime
    memory: Memory
    start: Start
    batch: Batch
    failure: Failure
    done: Done
    claims: Claims
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., effective: _Optional[_Union[Effective, _Mapping]] = ..., runtime: _Optional[_Union[Runtime, _Mapping]] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., claims: _Optional[_Union[Claims, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("stage",)
    STAGE_FIELD_NUMBER: _ClassVar[int]
    stage: str
    def __init__(self, stage: _Optional[str] = ...) -> None: ...

class Effective(_message.Message):
    __slots__ = ("threads", "cpus")
    THREADS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    threads: int
    cpus: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, threads: _Optional[int] = ..., cpus: _Optional[_Iterable[int]] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ("baseline_bytes", "after_load_bytes", "after_allocate_bytes", "peak_bytes", "pss_bytes", "arena_bytes")
    BASELINE_BYTES_FIELD_NUMBER: _ClassVar[int]
    AFTER_LOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    AFTER_ALLOCATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    PSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARENA_BYTES_FIELD_NUMBER: _ClassVar[int]
    baseline_bytes: int
    after_load_bytes: int
    after_allocate_bytes: int
    peak_bytes: int
    pss_bytes: int
    arena_bytes: int
    def __init__(self, baseline_bytes: _Optional[int] = ..., after_load_bytes: _Optional[int] = ..., after_allocate_bytes: _Optional[int] = ..., peak_bytes: _Optional[int] = ..., pss_bytes: _Optional[int] = ..., arena_bytes: _Optional[int] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("load_ns", "first_run_ns", "before")
    LOAD_NS_FIELD_NUMBER: _ClassVar[int]
    FIRST_RUN_NS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    load_ns: int
    first_run_ns: int
    before: Conditions
    def __init__(self, load_ns: _Optional[int] = ..., first_run_ns: _Optional[int] = ..., before: _Optional[_Union[Conditions, _Mapping]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("samples_ns", "after")
    SAMPLES_NS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    samples_ns: _containers.RepeatedScalarFieldContainer[int]
    after: Conditions
    def __init__(self, samples_ns: _Optional[_Iterable[int]] = ..., after: _Optional[_Union[Conditions, _Mapping]] = ...) -> None: ...

class Conditions(_message.Message):
    __slots__ = ("clusters", "temperatures", "throttled", "load", "load_average")
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURES_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    LOAD_AVERAGE_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[Cluster]
    temperatures: _containers.RepeatedCompositeFieldContainer[Temperature]
    throttled: _containers.RepeatedScalarFieldContainer[str]
    load: float
    load_average: float
    def __init__(self, clusters: _Optional[_Iterable[_Union[Cluster, _Mapping]]] = ..., temperatures: _Optional[_Iterable[_Union[Temperature, _Mapping]]] = ..., throttled: _Optional[_Iterable[str]] = ..., load: _Optional[float] = ..., load_average: _Optional[float] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "stage", "message")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    stage: str
    message: str
    def __init__(self, kind: _Optional[str] = ..., stage: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Claims(_message.Message):
    __slots__ = ("report",)
    REPORT_FIELD_NUMBER: _ClassVar[int]
    report: str
    def __init__(self, report: _Optional[str] = ...) -> None: ...

class RunRequest(_message.Message):
    __slots__ = ("settings", "chunk")
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    settings: Settings
    chunk: Chunk
    def __init__(self, settings: _Optional[_Union[Settings, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class RunEvent(_message.Message):
    __slots__ = ("progress", "runtime", "chunk", "failure", "done", "claims")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    runtime: Runtime
    chunk: Chunk
    failure: Failure
    done: Done
    claims: Claims
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., runtime: _Optional[_Union[Runtime, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., claims: _Optional[_Union[Claims, _Mapping]] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("tensor", "data")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    tensor: Tensor
    data: bytes
    def __init__(self, tensor: _Optional[_Union[Tensor, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("name", "dtype", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
