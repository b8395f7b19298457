"""One writer per journal: a lock of the operating system, which ends with its process whatever happens to it."""

import sys

if sys.platform == "win32":
    import msvcrt

    _FAR_BYTE = 2**62  # Windows locks keep others from reading: lock a byte that is never written

    def lock(fd: int) -> bool:
        """Lock an open file; False if another process holds it."""
        import os

        os.lseek(fd, _FAR_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock(fd: int) -> bool:
        """Lock an open file; False if another process holds it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks, such as some network shares: better unlocked than unusable
            return True
        return True
