"""Job objects of Windows: some processes and all that they start, which end when the last handle of the job closes."""

import ctypes
import subprocess
import sys

assert sys.platform == "win32"

from ctypes import wintypes  # noqa: E402  the other systems have none

_EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation of winnt.h
_KILL_ON_JOB_CLOSE = 0x2000

_kernel = ctypes.WinDLL("kernel32")
_kernel.CreateJobObjectW.restype = wintypes.HANDLE
_kernel.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
_kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
_kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
_kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
_kernel.CloseHandle.argtypes = (wintypes.HANDLE,)


class _BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", wintypes.DWORD),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", wintypes.DWORD),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", wintypes.DWORD),
        ("SchedulingClass", wintypes.DWORD),
    )


class _ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class Job:
    """A job; where the system refuses one, it holds nobody."""

    def __init__(self) -> None:
        self._handle = _kernel.CreateJobObjectW(None, None)
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        _kernel.SetInformationJobObject(self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits))

    def add(self, process: "subprocess.Popen[bytes]") -> None:
        """Put a process into the job; all that it starts from now on is in it as well."""
        _kernel.AssignProcessToJobObject(self._handle, int(process._handle))  # type: ignore[attr-defined]  # noqa: SLF001

    def end(self) -> None:
        """End all processes of the job, which is of no further use."""
        if self._handle is not None:
            _kernel.TerminateJobObject(self._handle, 1)
            _kernel.CloseHandle(self._handle)
            self._handle = None
