"""How much memory the process has resident now, and how it treats what is freed."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

_MIB = 1024.0**2
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt


def resident_mib() -> float | None:
    """Resident memory of this process in MiB; None where the system does not say."""
    try:
        if sys.platform == "darwin":
            return _on_macos() / _MIB
        if sys.platform == "win32":
            return _on_windows() / _MIB
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / _MIB
    except (OSError, AttributeError, ValueError, IndexError):
        return None


@cache
def keep_freed() -> None:
    """Let the C library keep freed memory for later, as it does unless it is told otherwise.

    dask tells it so, for all processes that begin after a cluster of this machine: then every
    temporary array is memory that the system has to clear, which may take a third of the time.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return
    mallopt(_MMAP_THRESHOLD, 32 * 2**20)  # what it comes to by itself
    mallopt(_TRIM_THRESHOLD, 64 * 2**20)


class _TaskInfo(ctypes.Structure):
    """mach_task_basic_info."""

    _fields_ = (
        ("virtual_size", ctypes.c_uint64),
        ("resident_size", ctypes.c_uint64),
        ("resident_size_max", ctypes.c_uint64),
        ("user_time", ctypes.c_int32 * 2),
        ("system_time", ctypes.c_int32 * 2),
        ("policy", ctypes.c_int32),
        ("suspend_count", ctypes.c_int32),
    )


def _on_macos() -> int:
    library = ctypes.CDLL(None)
    info = _TaskInfo()
    count = ctypes.c_uint32(ctypes.sizeof(info) // 4)
    task = ctypes.c_uint32.in_dll(library, "mach_task_self_")
    flavour = 20  # MACH_TASK_BASIC_INFO
    if library.task_info(task, flavour, ctypes.byref(info), ctypes.byref(count)) != 0:
        raise OSError("task_info failed")
    return int(info.resident_size)


class _Counters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS."""

    _fields_ = (
        ("cb", ctypes.c_uint32),
        ("PageFaultCount", ctypes.c_uint32),
        ("PeakWorkingSetSize", ctypes.c_size_t),
        ("WorkingSetSize", ctypes.c_size_t),
        ("QuotaPeakPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPeakNonPagedPoolUsage", ctypes.c_size_t),
        ("QuotaNonPagedPoolUsage", ctypes.c_size_t),
        ("PagefileUsage", ctypes.c_size_t),
        ("PeakPagefileUsage", ctypes.c_size_t),
    )


def _on_windows() -> int:
    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    kernel.K32GetProcessMemoryInfo.argtypes = (
        ctypes.c_void_p, ctypes.POINTER(_Counters), ctypes.c_uint32
    )
    counters = _Counters(cb=ctypes.sizeof(_Counters))
    process = kernel.GetCurrentProcess()
    if not kernel.K32GetProcessMemoryInfo(process, ctypes.byref(counters), counters.cb):
        raise OSError("GetProcessMemoryInfo failed")
    return int(counters.WorkingSetSize)
