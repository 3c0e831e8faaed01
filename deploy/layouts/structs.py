"""Which structures of PyTorch's are asked for, under which names, and which of their fields.

A field is named as in the header. `name=path` names a member of a member. A field that a version lacks is left out of
its row; a structure that it lacks too. What libstdc++ builds them from (strings, vectors, maps) is asked alike.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

C10D = "torch/csrc/distributed/c10d"

_GROUP = "rank_ size_ pg_uid_ pg_name_ pg_desc_"
_OPTIONS = "timeout backend group_name group_desc global_ranks_in_group"
_WORK = "rank_ opType_ seq_"

FIELDS: Mapping[str, str] = {
    "recorder": (
        "enabled_ capture_cpp_stack_ mutex_ entries_ max_entries_ next_ id_ reset_epoch_ reset_epoch_start_idx_ "
        "all_pg_status_ pg_name_to_ranks_ comm_lib_version_ nccl_version_"
    ),
    "entry": (
        "id_ reset_epoch_ pg_id_ pg_name_ collective_seq_id_ p2p_seq_id_ op_id_ profiling_name_ traceback_ start_ end_ "
        "time_created_ timeout_ms_ isP2P_ "
        "duration_ duration_.set=duration_._M_payload._M_engaged "
        "time_discovered_started_ time_discovered_started_.set=time_discovered_started_._M_payload._M_engaged "
        "time_discovered_completed_ time_discovered_completed_.set=time_discovered_completed_._M_payload._M_engaged "
        "input_dims_ input_dtypes_ output_dims_ output_dtypes_ sizes_ thread_id_ thread_name_ retired_"
    ),
    "status": (
        "lastEnqueuedSeq lastStartedSeq lastCompletedSeq lastEnqueuedWorkName lastStartedWorkName "
        "lastCompletedWorkName lastEnqueuedNumelIn lastEnqueuedNumelOut lastCompletedNumelIn lastCompletedNumelOut "
        "lastStartedNumelIn lastStartedNumelOut"
    ),
    "traceback": "frames_ cpp_frames_ script_frames_ python_",
    "frame": "code lasti",
    "group": "rank_ size_ backendType_ backend_ pg_desc_ deviceTypeToBackend_ backendTypeToBackend_",
    "backend": f"refcount_ combined_refcount_ {_GROUP}",
    "gloo": (f"{_GROUP} options_ workQueue_ workInProgress_ collectiveCounter_ seq_ local_id_ pgStatus_"),
    "gloo_options": _OPTIONS,
    "gloo_work": f"{_WORK} profilingTitle_",
    "nccl": (f"{_GROUP} options_ workMetaList_ seq_ seqCollective_ seqP2P_ op_id_ local_id_ uid_ pgStatus_"),
    "nccl_options": _OPTIONS,
    "nccl2": f"{_GROUP} options_c10d_ sequence_number_ comm_size_ name_",
    "nccl_work": (
        f"{_WORK} pgUID_ pgDesc_ isP2P_ opTimeout_ workStartTime_ numelIn_ numelOut_ "
        "trace_id_ trace_id_.set=trace_id_._M_payload._M_engaged"
    ),
    "string": "data=_M_dataplus._M_p length=_M_string_length inline=_M_local_buf",
    "string_head": "length=_M_length",
    "string_pair": "first second",
    "vector": "begin=_M_impl._M_start end=_M_impl._M_finish capacity_end=_M_impl._M_end_of_storage",
    "small_vector": "begin=BeginX size=Size capacity=Capacity",
    "shared_ptr": "object=_M_ptr",
    "map": (
        "root=_M_t._M_impl._M_header._M_parent first=_M_t._M_impl._M_header._M_left end=_M_t._M_impl._M_header "
        "count=_M_t._M_impl._M_node_count"
    ),
    "map_node": "parent=_M_parent left=_M_left right=_M_right value=_M_storage",
    "unordered_map": "first=_M_h._M_before_begin._M_nxt count=_M_h._M_element_count",
    "unordered_map_node": "next=_M_nxt value=_M_storage",
    "list": "first=_M_impl._M_node._M_next count=_M_impl._M_node._M_size",
    "list_node": "next=_M_next value=_M_storage",
    "mutex": "lock=_M_mutex.__data.__lock owner=_M_mutex.__data.__owner",
}
"""Fields by structure, as the table names it."""


_OF_LIBSTDCXX = {
    "string": "std::string",
    "string_head": "StringHead",
    "string_pair": "StringPair",
    "vector": "std::vector<long>",
    "small_vector": "c10::SmallVector<int64_t, 4>",
    "shared_ptr": "std::shared_ptr<long>",
    "map": "std::map<long, long>",
    "map_node": "std::_Rb_tree_node<std::pair<const long, long>>",
    "unordered_map": "std::unordered_map<long, long>",
    "unordered_map_node": "std::__detail::_Hash_node<std::pair<const long, long>, false>",
    "list": "std::list<long>",
    "list_node": "std::_List_node<long>",
    "mutex": "std::mutex",
}
_OF_TORCH = {
    "traceback": "torch::CapturedTraceback",
    "frame": "torch::CapturedTraceback::PyFrame",
    "group": "c10d::ProcessGroup",
    "backend": "c10d::Backend",
    "gloo": "c10d::ProcessGroupGloo",
    "gloo_options": "c10d::ProcessGroupGloo::Options",
    "gloo_work": "c10d::ProcessGroupGloo::AsyncWork",
}
_OF_NCCL = {
    "nccl": "c10d::ProcessGroupNCCL",
    "nccl_options": "c10d::ProcessGroupNCCL::Options",
    "nccl_work": "c10d::ProcessGroupNCCL::WorkNCCL",
}
# The class behind `nccl` since 2.15. It records through a hook into a recorder of its own.
_NCCL2 = ("nccl2/ProcessGroupNCCL.hpp", "\nclass TORCH_API ProcessGroupNCCL :", "c10d::nccl2::ProcessGroupNCCL")
# Where versions declare it: the header, a line of it, and the C++ type.
_RECORDERS = (
    (
        "FlightRecorder.hpp",
        "template <typename EventType>\nstruct FlightRecorder {",
        "c10d::FlightRecorder<c10::Event>",
    ),
    ("FlightRecorder.hpp", "\nstruct FlightRecorder {", "c10d::FlightRecorder"),
    ("NCCLUtils.hpp", "\nstruct NCCLTraceBuffer {", "c10d::NCCLTraceBuffer"),
    ("TraceUtils.h", "\nstruct NCCLTraceBuffer {", "c10d::NCCLTraceBuffer"),
)
_STATUSES = (
    ("logger.hpp", "\nstruct ProcessGroupStatus {", "c10d::ProcessGroupStatus"),
    ("TraceUtils.h", "\nstruct ProcessGroupStatus {", "c10d::ProcessGroupStatus"),
    ("ProcessGroupNCCL.hpp", "\n  struct ProcessGroupStatus {", "c10d::ProcessGroupNCCL::ProcessGroupStatus"),
)


def headers(include: Path, *, cuda: bool) -> list[str]:
    """Return the headers that declare them."""
    wanted = ["ProcessGroup.hpp", "ProcessGroupGloo.hpp", "FlightRecorder.hpp"]
    if cuda:
        wanted += ["nccl2/ProcessGroupNCCL.hpp", "ProcessGroupNCCL.hpp", "NCCLUtils.hpp", "TraceUtils.h"]
    return [f"{C10D}/{name}" for name in wanted if (include / C10D / name).is_file()]


def types(include: Path, *, cuda: bool) -> dict[str, str]:
    """Return the C++ type of each structure that the headers declare."""
    recorder, status = _declared(include, _RECORDERS), _declared(include, _STATUSES)
    found = {
        "nccl2": _declared(include, [_NCCL2]) if cuda else "",
        "recorder": recorder,
        "entry": recorder and f"{recorder}::Entry",
        "status": status,
    }
    return {name: cpp for name, cpp in found.items() if cpp} | _OF_TORCH | (_OF_NCCL if cuda else {}) | _OF_LIBSTDCXX


def _declared(include: Path, places: Iterable[tuple[str, str, str]]) -> str:
    for header, line, cpp in places:
        path = include / C10D / header
        if path.is_file() and line in path.read_text():
            return cpp
    return ""
